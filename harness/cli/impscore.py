"""The commands of the implicitness metric: score, profile, evaluate, probe, and its training."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, SCORER, AsJson, Home, ScorerName, argument, option, output
from harness.cli.put import put_frame
from harness.data.readers import sentence_pairs
from harness.data.readers.samples_jsonl import with_texts
from harness.errors import DataError, ExitCode, SpecError
from harness.implicitness import probe as probes
from harness.implicitness import profile as profiles
from harness.implicitness import train as training
from harness.implicitness.evaluate import evaluate as evaluate_on
from harness.implicitness.open import MEASURES, CachedScorer
from harness.implicitness.pairs import TrainingPair, read_items, read_pairs
from harness.implicitness.rankings import people_and_metric, read_people, scorer_judged
from harness.implicitness.scorer import LIMITS, Flag, Scored, overlap_message, save_head
from harness.lazy import DataFrame, pandas
from harness.models.encoders.encoders import CachedEncoder
from harness.pipeline.plan import subsample
from harness.pipeline.setup import VECTORS
from harness.present import screen
from harness.present.figures.scores import margins
from harness.present.figures.texts import datasets_distribution
from harness.present.screen import ProgressLine, say, show, show_json, show_rows, warn
from harness.specs.implicitness import RecipeSpec
from harness.storage import tables
from harness.storage.cells import json_text
from harness.storage.frames import plain_rows, records
from harness.storage.tables import column_of

READ = "CSV, TSV, JSON lines, Parquet or plain lines; - reads stdin."
File = Annotated[str, typer.Argument(metavar="FILE", help=READ)]
FORMAT = "csv, tsv, jsonl, parquet or lines. Default: by its name."
Format = Annotated[str | None, typer.Option("--format", help=FORMAT)]


@dataclass(frozen=True, kw_only=True)
class Scoring(options.Computing):
    """Which texts are scored, by which scorer, and where their rows go."""

    file: File
    column: str | None = option("Column of the texts. Default: text.")
    out: Path | None = output(
        f"{options.TABLE_FILE} Default: stdout.", *tables.TABLE_ENDINGS, default=None
    )
    name: str = option("Name of the new column.", "implicitness", flags="--as")
    scorer: ScorerName = SCORER
    layout: Format = None
    home: Home = HOME


def score(choice: Scoring, is_json: AsJson = False) -> int:
    """Score the implicitness of each text of a file, and write its rows with the scores.

    A second new column says why a score is missing, or that the text was cut or is thin (one word,
    or letters that the encoder does not know). A third names the scorer: scales of scorers differ.

    \b
    Example:
      harness impscore score comments.csv --column comment -o scored.csv
    """
    out, name = choice.out, choice.name
    table, source = tables.read_input(
        choice.file, choice.layout, has_column=choice.column is not None
    )
    if not name.strip():
        raise SpecError(f"--as {name!r}: give the new column a name")
    printed = None if is_json else table.file_format
    layout = printed if out is None else tables.output_format(out)
    if out is None and layout is tables.FileFormat.PARQUET:
        raise SpecError("Parquet cannot be printed: name a file with -o")
    if layout is not None:  # what cannot be written is refused before anything is scored
        tables.extended(table, _columns(name, [Scored(None, Flag.ABSENT)] * len(table), ""), layout)
    texts = column_of(table, choice.column, where=source)
    registry = choice.placed(options.registry(choice.home))
    scorer = registry.scorer(choice.scorer)
    scored = CachedScorer(scorer, registry.cache / MEASURES, ProgressLine("encoded")).score(texts)
    overlap = scorer.overlap((text,) for text in texts)
    if layout is not None:
        data = tables.extended(table, _columns(name, scored, scorer.signature), layout)
        if out is not None:
            tables.write_named(out, data)
        elif sys.stdout.isatty():
            say(data.decode("utf-8").removesuffix("\n"), is_raw=True)
        else:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
    warn(overlap_message(scorer.signature, overlap, len(scored), what="rows"))
    return _summarize(scored, scorer.signature, overlap, out, is_json=is_json)


def _summarize(
    scored: Sequence[Scored], scorer: str, overlap: int | None, out: Path | None, *, is_json: bool
) -> int:
    """Print how many texts have a score, and why the others have none."""
    values = [one.value for one in scored if one.value is not None]
    flags = Counter(str(one.flag) for one in scored if one.flag is not None)
    cut, thin = (flags.pop(flag, 0) for flag in LIMITS)
    missing, mean = dict(sorted(flags.items())), fmean(values) if values else None
    if is_json:
        summary = {"scorer": scorer, "n": len(scored), "scored": len(values), "mean": mean}
        summary |= {"missing": missing, "cut": cut, "thin": thin, "trained_on": overlap, "out": out}
        show_json({"summary": summary, "rows": scored if out is None else None})
    without = ", ".join(f"{count} {flag}" for flag, count in missing.items())
    facts = {
        f"{scorer}: {len(values)} of {len(scored)} rows have a value, mean {screen.cell(mean)}": 1,
        f"without: {without}": missing,
        f"{cut} longer than the encoder reads, scored by their beginning": cut,
        f"{thin} of one word, or of letters that the encoder does not know": thin,
    }
    line = "; ".join(fact for fact, count in facts.items() if count)
    warn(line) if out is None else say(f"{line}; in {out}")
    return ExitCode.of(missing)


def _columns(name: str, scored: Sequence[Scored], scorer: str) -> DataFrame:
    rows = [(one.value, one.flag, scorer) for one in scored]
    frame = pandas.DataFrame(rows, columns=[name, f"{name}_flag", f"{name}_scorer"], dtype=object)
    return frame.astype({name: "float64"})


def evaluate(
    file: File,
    scorer: ScorerName = SCORER,
    ratings: list[Path] | None = option(
        "People's rankings and choices in long form, as `sheet read-ratings` makes it of a sheet."
    ),
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Evaluate a scorer on sentences that people have graded, paired or chosen.

    FILE has one of these sets of columns: levels (a list, the most explicit sentence first); topic,
    level, text; implicit, explicit; sentence, choices, answer. With --ratings it is compared with
    people: who orders the sentences as their levels, and how far people agree with each other.
    """
    table, source = tables.read_input(file, has_column=True)
    items = read_items(table, where=source)
    people = read_people(ratings, items) if ratings else []
    model = options.registry(home).scorer(scorer)
    result = evaluate_on(items, model, progress=ProgressLine("encoded"))
    warn(overlap_message(result.scorer, result.trained_on, result.items, what="items"))
    compared = people_and_metric(items, people, scorer_judged(items, result))
    if is_json:
        found = asdict(result) | {"measured": plain_rows(result.measured)} | compared.attrs
        show_json(found | {"means": plain_rows(result.means), "people": plain_rows(compared)})
    show(result.measured, f"{result.scorer} on {source}")
    if len(result.means):
        show(result.means, "means: implicitness of sides, pragmatic distance of pairs")
    if len(compared):
        title = "and people: order of the levels, agreement with each person, the nearest"
        show(compared, title, keys=2)
    return ExitCode.of(result.measured["missing"].any() or compared["missing"].any())


@dataclass(frozen=True, kw_only=True)
class ProfileChoice:
    """Which texts of a file are described, and where the files go."""

    file: File
    out: Path | None = output(
        "Folder for profile.csv and profile.svg. Default: none is written.", default=None
    )
    column: str | None = option(
        "Column of the texts; of samples also a field or a reference. Default: text."
    )
    label: str | None = option("Column of labels; the texts of each label get a row.")
    pairs: int = option("Random pairs of texts for each label.", 2000, min=1)
    seed: options.Seed = 0
    layout: Format = None


def profile(
    choice: ProfileChoice, scorer: ScorerName = SCORER, home: Home = HOME, is_json: AsJson = False
) -> int:
    """Describe how implicit the texts of a file are, and how different their meanings.

    By label: mean, spread, quantiles and histogram of implicitness, and the pragmatic distance of
    random pairs. A text that cannot be scored counts as missing, not as zero.
    """
    file, out, label = choice.file, choice.out, choice.label
    has_column = choice.column is not None or label is not None
    table, source = tables.read_input(file, choice.layout, has_column=has_column)
    table = with_texts(table)
    opened = options.registry(home).scorer(scorer)
    found = profiles.profile(
        column_of(table, choice.column, where=source),
        None if label is None else column_of(table, label, where=source, option="--label"),
        opened,
        pairs=choice.pairs,
        seed=choice.seed,
        progress=ProgressLine("encoded"),
    )
    rows, row = found.rows, records(found.rows)[0]
    target = None if out is None else out / "profile.csv"
    put = partial(_put_profile, "stdin" if file == tables.STDIN else Path(file).name, rows)
    put_frame(rows, target, put, is_json=is_json, chart=datasets_distribution(found))
    counts = {flag: getattr(row, f"missing_{flag}") for flag in profiles.MISSING}
    if missing := ", ".join(f"{count} {flag}" for flag, count in counts.items() if count):
        warn(f"texts without a score: {missing}; no bin, mean or pair has them")
    warn(overlap_message(row.scorer, row.trained_on, row.n))
    return ExitCode.of(row.texts - row.n)


def _put_profile(name: str, rows: DataFrame) -> None:
    spread = ["label", "n", "mean", "sd", "q05", "median", "q95", "distance_mean"]
    known = rows.assign(missing=rows["texts"] - rows["n"])[[*spread, "missing", "cut", "thin"]]
    show(known, f"implicitness of {name}, by {rows['scorer'].iat[0]}")


@dataclass(frozen=True, kw_only=True)
class HeadChoice:
    """Which recipe is trained on which pairs, and where the files go."""

    file: Path = argument(
        "FILE",
        "Sentence pairs (JSON lines, CSV, Parquet): implicit, explicit, topic, intention, levels; "
        "or pos_implicit, pos_explicit, neg_implicit, neg_explicit, source.",
    )
    out: Path = output("Folder for the files.")
    recipe: str = option("Recipe: a name in configs/recipes/, or a YAML file.", "impscore")
    home: Home = HOME

    def opened(self) -> tuple[tuple[str, RecipeSpec], CachedEncoder]:
        """The recipe with its name, and its encoder."""
        registry = options.registry(self.home)
        name = registry.file("configs/recipes", self.recipe).stem
        spec = registry.load("configs/recipes", self.recipe)
        encoder = CachedEncoder(registry.encoder(spec.encoder), registry.cache / VECTORS)
        return (name, spec), encoder

    def pairs(self) -> tuple[str, list[TrainingPair]]:
        """The name of the file, and its pairs, none with a probe sentence."""
        table, source = tables.read_input(str(self.file), has_column=True)
        found = read_pairs(table, where=source)
        probes.refuse_probes((text for pair in found for text in pair.sentences), where=source)
        return self.file.name, found


def train(
    choice: HeadChoice,
    name: str | None = option("Name of the head. Default: the recipe's."),
    is_json: AsJson = False,
) -> None:
    """Train a head of the metric on sentence pairs; write it and a card of origin and quality.

    Writes NAME.safetensors and NAME.json: give either to --scorer. The same file, recipe and
    machine: the same bytes.
    """
    (known, spec), encoder = choice.opened()
    name = options.plain_name(name or known, option="--name")
    progress = ProgressLine("done")
    head = training.make_head(name, choice.pairs(), spec, encoder=encoder, progress=progress)
    path = save_head(head, choice.out / head.name)
    metrics = head.card.metrics if head.card is not None else {}
    show_json({"head": path, "digest": head.digest, "metrics": metrics}, is_json)
    show_rows(head.name, ("metric", "value"), [*metrics.items()])
    say(f"{head.name}@{head.digest[:8]} in {path}")


def ablate(
    choice: HeadChoice,
    runs: int = option("Trainings of each form and setting, each with another seed.", 3, min=1),
    is_grid: bool = options.switch(
        "--grid", "Train all 120 combinations of both margins and alpha instead."
    ),
    is_json: AsJson = False,
) -> None:
    """Train all twelve forms of the metric, or with --grid all margins that the paper tried.

    Writes ablation.csv, with a row for each training (its metrics on the test pairs and its
    origin); or grid.csv and grid.svg with --grid, and prints the best point.
    """
    (known, spec), encoder = choice.opened()
    if not spec.split[2]:
        raise DataError(f"recipe {known} keeps no pairs to test on; give its split a third share")
    planned = training.trials(spec.settings, is_grid=is_grid)
    named, progress = (known, spec), ProgressLine("done")
    found = training.ablation(choice.pairs(), named, encoder, planned, runs=runs, progress=progress)
    pairs, graded = found.attrs["pairs"], found.attrs["graded"]
    if is_grid:
        found = found.assign(test_pairs=pairs)
        chart = margins(found)
        put = partial(say, "\n".join(chart.notes))
        put_frame(found, choice.out / "grid.csv", put, is_json=is_json, chart=chart)
        return
    each = found.groupby(["setting", "value"], sort=False)
    means = each.size().rename("runs").to_frame().join(each[[*training.METRICS]].mean())
    title = f"Means over the runs, on {pairs} test pairs, {graded} of them with levels"
    put = partial(show, means.reset_index(), title)
    put_frame(found, choice.out / "ablation.csv", put, is_json=is_json)


def probe(
    scorer: str = argument(
        "SCORER",
        "Scorer: a name in configs/scorers/, or the path of a trained head or published weights.",
        SCORER,
    ),
    out: Path | None = output("File for all figures: .csv.", ".csv", default=None),
    home: Home = HOME,
    is_json: AsJson = False,
) -> None:
    """Find which kinds of implicitness a scorer detects, by sentences that ship.

    Prints the AUC of each implicit kind over each plain kind, with 95 % intervals over sets of
    sentences; a * marks those that begin below .7, or do not surely exceed what words alone get.
    The file also has how high each kind scores.
    """
    registry = options.registry(home)
    opened = registry.scorer(scorer)
    cached = CachedScorer(opened, registry.cache / MEASURES, ProgressLine("encoded"))
    found = probes.probe_figures(probes.scores_of(cached), scorer=opened.signature)
    put_frame(found, out, partial(_put_probes, found), is_json=is_json)


def _put_probes(found: DataFrame) -> None:
    areas = found[found["figure"].isin(["auc", "words"])]
    areas = areas.assign(against=areas["against"].where(areas["figure"] == "auc", "words alone"))
    ends = areas[["value", "low", "high"]].map(lambda end: f"{end:.2f}".lstrip("0"))
    weak = areas["is_weak"].map({True: "*", False: ""})
    words = ends["value"] + " " + ends["low"] + "-" + ends["high"] + weak
    crossed = areas.assign(words=words).pivot(index="kind", columns="against", values="words")
    crossed = crossed.loc[areas["kind"].unique(), areas["against"].unique()].reset_index()
    title = f"{found['scorer'].iat[0]} on {found['sets'].iat[0]} sets of probe sentences: AUC of"
    title += f" implicit over plain kinds, 95% interval; *: begins below {probes.WEAK:g}, or words"
    title += " alone may do as well"
    show(crossed, title)


def collect(
    name: str = argument("MAP", "Map: a name in configs/pairs/, or the path of a YAML file."),
    files: list[Path] = argument("FILE", "Tables of the data set: CSV, TSV, JSON lines, Parquet."),
    out: Path = output("File for the sentences: JSON lines.", ".jsonl"),
    limit: options.Limit = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> None:
    """Collect the sentences of a public data set that imply something, as samples.

    `harness build JOB` lets a model write what each says outright; a data set that has such
    counterparts needs no job. `harness impscore train` reads both.
    """
    spec = options.registry(home).load("configs/pairs", name)
    found = sentence_pairs.collect(files, spec, Path(name).stem)
    samples = subsample(found.samples, limit, seed=0)
    names = ("id", "group", "cluster", "fields", "references")
    lines = (json_text({name: getattr(one, name) for name in names}) for one in samples)
    tables.write_named(out, "".join(f"{line}\n" for line in lines).encode())
    counts = {"written": len(samples), "found": len(found.samples), "left_out": found.left_out}
    show_json(counts | {"job": spec.job or None, "licence": spec.licence}, is_json)
    say(f"wrote {len(samples)} of {len(found.samples)} sentences to {out}")
    for reason, count in found.left_out.items():
        warn(f"left out: {count} rows, {reason}")
    warn(f"licence: {spec.licence}; the map was tried on {spec.tried}")
    job = f"build {spec.job} {out} --model MODEL -o pairs.jsonl" if spec.job else ""
    say(f"next: harness {job or f'impscore train {out} -o heads'}")
