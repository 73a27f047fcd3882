"""The commands for moderation: rates by the columns of the data, and the texts that err."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from harness.analysis import error_table
from harness.analysis import rates as rated
from harness.analysis.boards.ranked import CONTROL
from harness.analysis.flags import PROBABILITY, RateQuery, flags
from harness.cli import options
from harness.cli.options import AsJson, Only, Where, one_of, option, output
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.present.screen import PAGE, cell, intervals, p_value, say, show, show_json, warn
from harness.stats.estimate import NoValue
from harness.storage.files import write_whole
from harness.storage.find_runs import find_run, find_runs
from harness.storage.frames import frame_csv, plain_rows
from harness.storage.signature import short_labels
from harness.storage.tables import TABLE_ENDINGS, extended, output_format, write_named

SHOWN = 0.1  # gaps whose corrected p is below this are printed without --all
WORDS = {"tpr": "TPR", "fpr": "FPR", "precision": "precision"}


@dataclass(frozen=True, kw_only=True)
class PointChoice:
    """The judge and variants, and from which score on a text counts as flagged."""

    judge: str = option("Judge whose verdicts count.", "gold")
    variant: str | None = option("Variants, comma-separated. Default: all.")
    positive: str | None = option("Labels to detect, comma-separated. Default: the task's.")
    score: str | None = option(
        "Score for --threshold and --fpr: probability (the default), implicitness, or a further "
        "number of the answers, such as a category of a moderation endpoint."
    )
    threshold: float | None = option("Flag texts whose score is this or more.")
    fpr: float | None = option(
        "Choose the least threshold that keeps the FPR this low on half of the benign originals, "
        "which are then not measured, or see --chosen-on."
    )
    chosen_on: str | None = option("Run on other texts, where --fpr chooses the threshold.")
    seed: options.Seed = 0

    def query(self, results: Path, by: tuple[str, ...] = ()) -> RateQuery:
        """The query of these options."""
        given = "--score" if self.score else "--chosen-on" if self.chosen_on else ""
        if given and self.threshold is None and self.fpr is None:
            raise SpecError(f"{given}: give --threshold or --fpr with it")
        return RateQuery(
            by=by,
            judge=self.judge,
            variants=options.names(self.variant),
            positive=options.names(self.positive, "--positive"),
            score=self.score or PROBABILITY,
            threshold=self.threshold,
            fpr=self.fpr,
            chosen_on=find_run(results, self.chosen_on) if self.chosen_on else None,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class RateChoice:
    """Which runs, and by which columns."""

    runs: options.RunNames
    by: str | None = option("Columns of the data, comma-separated; one+other crosses two.")
    least: options.Least = 10
    out: Path | None = output("Folder. Default: RESULTS/rates/.", default=None)


def rates(
    choice: RateChoice,
    point: PointChoice,
    where: Annotated[Where, Only("data table results home")],
    is_json: AsJson = False,
) -> None:
    """Show hit rate (TPR), false alarm rate (FPR) and precision by columns of the data.

    Gaps between groups have intervals that keep originals whole. Those of TPR and FPR have p
    values, and Holm's method corrects all of these together. Nothing is asked.

    \b
    Examples:
      harness rates 3f9a --by target,source
      harness rates 3f9a --by target --fpr 0.05
    """
    by, space = options.names(choice.by, "--by"), where.workspace()
    query = replace(point.query(where.results, by), least=choice.least)
    folders = find_runs(where.results, choice.runs)
    if len(folders) > len(choice.runs):  # by a tag, which controls may have as well
        folders = [one for one in folders if one.read().model.kind != CONTROL] or folders
    tables = [error_table.read_rate_texts(space, one, query, where.table) for one in folders]
    rows, found = pandas.concat([rated.rates(*table) for table in tables]), rated.gaps(tables)
    path = (choice.out or where.results / "rates") / rated.rates_name(rows)
    files = {path.with_name(f"{path.name}.csv"): rows}
    if len(found):
        files[path.with_name(f"{path.name}-gaps.csv")] = found
    for file, frame in files.items():
        (write_named if choice.out else write_whole)(file, frame_csv(frame).encode())
    show_json({"rates": plain_rows(rows), "gaps": plain_rows(found)}, is_json)
    _put(rows, found, has_fpr=query.fpr is not None)
    for note in rated.missing_notes(tables):
        say(note)
    if (found["note"] == NoValue.TOO_FEW).any():
        say(f"no interval: fewer than {choice.least} originals on a side (--least)")
    say(f"wrote {' and '.join(map(str, files))}")


def _put(rows: DataFrame, found: DataFrame, *, has_fpr: bool) -> None:
    """Print the rates; gaps of groups that may be chance with --all alone."""
    is_seen = (found["p_holm"] < SHOWN) | PAGE.is_whole
    called = short_labels(dict.fromkeys(rows["signature"], ""))
    for signature, own in rows.groupby("signature", sort=False):
        label, first = called[signature], own.iloc[0]
        if first["threshold"] == first["threshold"]:
            say(f"{label}: {rated.point_words(first)}")
            if ((own["note"] == rated.NONE_FLAGGED) & (own["column"] == "")).any():
                say(f"{label}: no text is flagged: none scores so high")
        for column, of_column in own.groupby("column", sort=False):
            by = f" by {column}" if column else ", all texts"
            _put_rates(f"{label}{by}", of_column, column or "texts")
            is_own = (found["signature"] == signature) & (found["column"] == column) & is_seen
            if is_own.any():
                _put_gaps(f"{label}: gaps by {column}", found[is_own])
    every = found[found["column"] == rated.MODELS]
    for row in every[every["gap"].isna()].itertuples():
        say(f"{row.group} and {row.against} are not compared: {row.note.partition('; ')[2]}")
    if has_fpr and not len(every) and rows["signature"].nunique() > 1:
        say("models are not compared: no two were asked the same of one data set")
    if len(models := every[every["gap"].notna()]):
        _put_gaps(f"TPR of models {models['note'].iat[0].partition(';')[0]}", models)
    if left := int((~is_seen & (found["column"] != rated.MODELS)).sum()):
        say(f"{left} more gaps have no Holm-corrected p below {SHOWN:g} (--all)")
    if tests := int(found["p"].notna().sum()):
        say(
            f"p match the intervals; Holm-corrected over {tests} tests; gaps of precision have none"
        )


def _put_rates(title: str, rows: DataFrame, heading: str) -> None:
    ends = [f" ({low:.2f}-{high:.2f})" * (low == low) for low, high in intervals(rows)]
    cells = rows["value"].map(cell) + [end.replace("0.", ".") for end in ends]
    cells += (" " + rows["n"].astype(str)).where(rows["n"] > 0, "")
    table = rows.assign(cell=cells).pivot(index="group", columns="rate", values="cell")
    table = table.loc[rows["group"].unique(), list(WORDS)].reset_index(names=heading)
    show(table.rename(columns=WORDS), f"{title}: rate (95% interval) n")


def _put_gaps(title: str, found: DataFrame) -> None:
    shown = {"rate": found["rate"].map(WORDS), "gap": found["group"] + " - " + found["against"]}
    shown |= {"less": found["gap"], "p": found["p"], "Holm": found["p_holm"]}
    table = pandas.DataFrame(shown)
    table.insert(3, "interval", intervals(found))
    show(table.rename(columns={"gap": "groups", "less": "gap"}), title, p=p_value, Holm=p_value)


def export_errors(
    run: options.RunName,
    *,
    kind: str = option("missed, false-alarm or all.", "all"),
    out: Path = output(options.TABLE_FILE, *TABLE_ENDINGS),
    point: PointChoice,
    where: Annotated[Where, Only("data table results home")],
) -> None:
    """Write the texts that a run missed or flagged falsely, with all columns of the data.

    One row for each error, in the words of your file, behind them what the run says of it.
    """
    kind = one_of("--kind", kind, *error_table.KINDS)
    target, folder = output_format(out), find_run(where.results, run)
    texts = flags(folder, point.query(where.results))
    missing = int(texts["flagged"].isna().sum())
    errors = error_table.run_errors(folder, texts, kind)
    counted = f"{len(texts) - missing} answer{'s' * (len(texts) - missing != 1)}"
    if errors.empty:
        say(f"no {'error' if kind == 'all' else kind} among {counted}; nothing written")
        return
    originals = error_table.originals_of(where.workspace(), folder, where.table)
    table, added = error_table.error_table(errors, originals)
    sources = originals.files if originals else ()
    write_named(out, extended(table, added, target), sources=sources)
    kinds = errors["error"].value_counts()
    said = " and ".join(f"{kinds[one]} {one}" for one in error_table.KINDS if one in kinds)
    say(f"wrote {said} among {counted} to {out}")
    if missing:
        warn(f"{missing} answers are missing or have no score: they are no errors and not written")
