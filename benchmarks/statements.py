"""How often sentences and marks say something where there is nothing, and find what is there.

    python benchmarks/statements.py                      # all, as Markdown tables
    python benchmarks/statements.py words people --runs 100

Each trial draws a setting and data without any effect, writes them as run folders where a command
reads such, and asks the functions behind the command. Then effects are planted of which the
command, or the interval that it prints, says that they would be seen with a power of 80 %. Every
trial is seeded by its name and number.
"""
# ruff: noqa: E402 - of the path that imports need

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, nan, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support import paired_runs

from benchmarks.coverage import Floats, Generator, skewed
from benchmarks.settings import Setting, samples_of, texts, words_runs, written
from harness.analysis import pairings, rates
from harness.analysis.agreement import AgreementSettings, agreement
from harness.analysis.boards.ranked import leaderboard
from harness.analysis.compare import compare, main_differences
from harness.analysis.findings import comparison_findings
from harness.analysis.flags import RateQuery, flags, sample_cells
from harness.analysis.gate import gate
from harness.analysis.panels import JudgeTable, Panel
from harness.pipeline.choice_scores import HITS
from harness.stats.agreement import pearson_moves
from harness.stats.classification import trend
from harness.stats.clustered import ShareRows, detectable_difference, paired_gap, share_gap
from harness.stats.estimate import Clusters, complete
from harness.stats.intervals import Parts
from harness.storage.runs import RunFolder

BETTER = (" is better than ", " scores higher than ", " is further above chance than ")
LEAST = 80
"""The trials that a stratum has at least."""


STRATA: Mapping[str, Callable[[Setting], bool]] = {
    "10 to 25 clusters": lambda one: one.clusters <= 25,
    "26 to 100 clusters": lambda one: 25 < one.clusters <= 100,
    "101 to 400 clusters": lambda one: one.clusters > 100,
    "clusters of one": lambda one: one.sizes == "one",
    "clusters of one size": lambda one: one.sizes == "equal",
    "clusters of 1 to 80": lambda one: one.sizes == "skewed",
    "half in one cluster": lambda one: one.sizes == "half",
    "rate below .15": lambda one: one.rate < 0.15,
    "rate of .15 to .85": lambda one: 0.15 <= one.rate <= 0.85,
    "rate above .85": lambda one: one.rate > 0.85,
    "models alike from .6 on": lambda one: one.alike >= 0.6,
    "two models": lambda one: one.models == 2,
    "five or six models": lambda one: one.models >= 5,
    "10 to 20 % missing": lambda one: one.lost >= 0.1,
}


@dataclass(frozen=True, slots=True)
class Said:
    """How much of what a trial could say it says, and the effect that would have been seen."""

    share: float
    seen: float = nan

    @classmethod
    def any(cls, found: ArrayLike, seen: float = nan) -> "Said":
        """1 if anything is said."""
        return cls(float(np.asarray(found, dtype=bool).any()), seen)


Told = Mapping[str, Said]
"""What a trial says, by the name of the statement; none where there is nothing to say."""


def reach_of(row: Any, worth: float, tests: int = 1) -> float:  # noqa: ANN401 - of any table
    """The effect that the interval of a row would find with a power of .8; NaN without one."""
    if row is None or row.low is None or row.low != row.low:
        return nan
    return detectable_difference((row.high - row.low) / 2, max(worth, 1.5), tests=max(1, tests))


def worth_of(row: Any) -> float:  # noqa: ANN401 - a row of `compare`
    """What the clusters of a row are worth, or their number."""
    return float(row.worth if row.worth == row.worth else row.clusters)


def worth_of_gap(*sides: ShareRows) -> float:
    """What the clusters of the side of a gap that is worth less are worth."""
    parts = [known[1] for side in sides if (known := side.parts()) is not None]
    return min((own.degrees + 1 for own in parts if len(own.sums) > 1), default=nan)


def board_told(folders: Sequence[RunFolder]) -> tuple[tuple[float, float], Any]:
    """On how many boards models differ, and their missing answers, and the first one's verdicts."""
    _, boards, verdicts = leaderboard(folders)
    told = []
    for _, board in boards.groupby("board"):
        known = board[board["rank_best"].notna()]
        is_apart = (known["rank_best"] > 1) | (known["rank_worst"] < len(known))
        told.append((is_apart.any(), board["unlike"].notna().any()))
    names = boards.loc[boards["board"] == 0, "signature"]
    apart, unlike = np.mean(told, axis=0).tolist()
    return (apart, unlike), verdicts[verdicts["signature"].isin([*names])]


def compared(folders: Sequence[RunFolder]) -> tuple[list[bool], Any]:
    """Whether each sentence on two runs says that one is better, and the row of the first."""
    rows = compare(pairings.between(*map(pairings.ComparedRun.read, folders))[0])
    lines = comparison_findings(rows)
    said = [any(part in line for part in BETTER) for line in lines]
    return said, next(main_differences(rows).itertuples())


def words(one: Setting, draw: Generator, folder: Path) -> Told:
    """Boards of models, and the comparison of the first two, with the gaps of their task."""
    folders = words_runs(one, draw, folder)
    (apart, unlike), verdicts = board_told(folders)
    said, row = compared(folders[:2])
    lost = nan
    # McNemar's exact p takes one item more, as the sentence says; swaps of single items too.
    is_exact = row.both is not pandas.NA and row.n == row.clusters and not row.ties
    seen = nan if row.both is pandas.NA else reach_of(row, worth_of(row)) + is_exact / row.clusters
    if one.models == 2:
        sides = [own for _, own in verdicts.sort_values("sample").groupby("run")][:2]
        lacks = [side["value"].isna().to_numpy() for side in sides]
        gap = paired_gap(*lacks, sides[0]["cluster"].cat.codes.to_numpy())
        lost = reach_of(gap, gap.worth or gap.clusters) + (gap.n == gap.clusters) / gap.clusters
    compare_says = Said.any(said, seen)
    return {"board": Said(apart, seen), "unlike": Said(unlike, lost), "compare": compare_says}


def above(one: Setting, draw: Generator, folder: Path) -> Told:
    """A model that chooses of two to four and answers in words, equally far above chance."""
    count = int(one.design("choices").integers(2, 5))
    samples, levels = samples_of(one, "abcd"[:count]), (1 / count, 0.5 if count != 2 else 0.25)
    rates = (one.rate + one.lead / 2, one.rate - one.lead / 2)
    ends = [ndtri(level + (1 - level) * rate) for level, rate in zip(levels, rates, strict=True)]
    letters = np.where(one.latents(draw, 2) < np.array(ends)[:, None], "1", "0")
    first, second = map("".join, np.where(one.lacks(draw, 2), ".", letters))
    known = paired_runs.stored(
        paired_runs.choice_task(),
        {(f"order{at}", "T0.3", "gold"): first for at in range(2)},
        judges=(paired_runs.GOLD,),
        samples=samples,
        name="toy_choices",
    )
    spec = paired_runs.words_task(gaps={})
    acted = paired_runs.stored(spec, {("base", "T0.3", "near"): second}, samples=samples)
    files = known.file, replace(acted.file, chance=levels[1])
    folders = [
        written(folder, file, run.rows, has_scores=False)
        for file, run in zip(files, (known, acted), strict=True)
    ]
    said, row = compared(folders)
    ends = row._replace(low=row.above_chance_low, high=row.above_chance_high)
    return {"above": Said.any(said, reach_of(ends, worth_of(row)))}


def gates(one: Setting, draw: Generator, folder: Path) -> Told:
    """Two equal runs, and one that is truly worse by just as much as is allowed."""
    judges, one = int(one.design("judges").integers(1, 3)), replace(one, models=2)
    most = float(one.design("most").choice([0.02, 0.05, 0.1]))
    least = {"max_missing": 1.0}
    equal = gate(*words_runs(one, draw, folder / "equal", judges), max_drop=most, **least)
    first = equal.iloc[0]
    seen = first.seen if judges == 1 and first.seen == first.seen else nan
    told = {"regression": Said.any(equal.attrs["decision"] == "regression", float(seen or nan))}
    if one.lead == 0 and most < 2 * min(one.rate, 1 - one.rate) - 0.01:
        sides = words_runs(replace(one, lead=most), draw, folder / "drop", judges)
        found = gate(*sides, max_drop=most, **least).attrs["decision"]
        told |= {"drop": Said.any(found == "regression"), "pass": Said.any(found == "pass")}
    return told


def flagged(one: Setting, draw: Generator, folder: Path) -> Told:
    """Rates of two equal models by groups, their TPR at an FPR, slopes, and a board of TPR-FPR."""
    folders = texts(one, draw, folder, 2)
    told = {"informed": Said(board_told(folders)[0][0])}
    query = RateQuery(by=("group",))
    table = [(flags(folders[0], query), query, sample_cells(folders[0]))]
    lost, kinds = (table[0][0][name].to_numpy() for name in ("flagged", "is_positive"))
    sides = [
        ShareRows(np.isnan(lost[own]) * 1.0, np.ones(own.sum()), table[0][0]["cluster"][own])
        for own in (kinds == 1, kinds == 0)
    ]
    gap = share_gap(*sides)
    said = ["unlike" in note for note in rates.missing_notes(table)]
    told["notes"] = Said.any(said, reach_of(gap, worth_of_gap(*sides)))
    found = rates.gaps(table)
    if found["p"].notna().any():
        hits = found[(found["rate"] == HITS) & found["low"].notna()]
        texts_of, cells = table[0][0], table[0][2]
        own = texts_of.assign(at=texts_of["sample"].map(cells["group"]))
        groups = [rates.shares(part, HITS) for _, part in own.groupby("at")]
        worth, tests = worth_of_gap(*groups), int(found["p"].notna().sum())
        seen = reach_of(next(hits.itertuples(), None), worth, tests)
        told["groups"] = Said.any(found["p_holm"] <= 0.05, seen)
    fpr = float(one.design("fpr").choice([0.05, 0.1, 0.2]))
    query = RateQuery(fpr=fpr)
    sides = [flags(own, query) for own in folders]
    has_both = sides[0]["score"].notna() & sides[1]["score"].notna()
    found_texts = sides[0][has_both]
    found = rates.gaps(
        [(own, query, cells) for own, cells in zip(sides, map(sample_cells, folders), strict=True)]
    )
    if found["p"].notna().any():
        # The threshold flags a further benign text with at most this chance; quantiles have no t.
        benign = int((~found_texts["is_positive"]).sum()) + 1
        chance = max(1.0, floor(fpr * benign + 1e-9)) / benign
        tpr = float(ndtr(1 + ndtri(chance)))
        more = tpr + reach_of(next(found.itertuples()), 1e6)
        seen = float(ndtri(more) - ndtri(tpr)) if more < 0.99 else nan
        told["fpr"] = Said.any(found["p_holm"] <= 0.05, seen)
    known = table[0][0][~np.isnan(lost)]
    kinds = [known[known["is_positive"] == kind] for kind in (True, False)[: 1 if one.slope else 2]]
    slopes = [
        trend(*own[["implicitness", "flagged"]].to_numpy().T, Clusters.named([*own["cluster"]]))
        for own in kinds
    ]
    if ps := [slope.p for slope in slopes if slope.p is not None]:
        seen = reach_of(slopes[0], slopes[0].worth or nan)
        told["slope"] = Said(float(np.mean([p <= 0.05 for p in ps])), seen)
    return told


def people(one: Setting, draw: Generator, folder: Path) -> Told:
    """Judges that are equally good, and one that is as good as each rater."""
    del folder
    count, own = one.clusters, one.design("people")
    each = {"one": 1, "equal": own.integers(2, 4), "half": [count - 1, *[1] * (count - 1)]}
    is_known = one.sizes in each
    places = np.repeat(np.arange(count), each[one.sizes]) if is_known else skewed(count, own)
    systems, raters, noise = one.models, int(own.integers(3, 6)), float(own.uniform(0.4, 1.2))
    shape = (len(places), systems)
    truth = draw.normal(size=(count, 1))[places] * 0.5 + draw.normal(size=shape) * sqrt(0.75)
    shared = [own.uniform(0, 0.6) for _ in range(one.judges)]

    def errors(share: float) -> Floats:
        of_all = draw.normal(size=(count, 1))[places]
        return sqrt(share) * of_all + sqrt(1 - share) * draw.normal(size=shape)

    ratings = np.stack([truth + noise * errors(0.1) for _ in range(raters)], axis=2)
    ratings[draw.random(ratings.shape) < one.lost] = nan
    steps = int(own.choice([1, 2, 4]))
    common, good = errors(0.3), 0.3 + 0.6 * one.rate
    judges = {}
    for at, share in enumerate(shared):
        mixed = sqrt(one.alike) * common + sqrt(1 - one.alike) * errors(share)
        r = min(0.99, max(0.0, good + one.closer * (0.5 if at == 0 else -0.5)))
        values = r * truth + sqrt(1 - r * r) * mixed
        judges[f"judge{at}"] = np.where(draw.random(shape) < one.lost / 2, nan, values)
    judges["human"] = truth + noise * errors(0.1)
    panel = Panel(
        **{"task": "toy", "variant": "base", "scale": "", "decodings": ("T0.3",)},
        **{"recipe": "toy|data|base", "given": "ratings", "judges": ()},
        **dict.fromkeys(("offered", "unmatched"), frozenset()),
        rows=tuple((f"d{at:04}", "") for at in range(len(places))),
        clusters=tuple(f"c{place:03}" for place in places),
        systems=tuple(f"m{at}" for at in range(systems)),
        raters=tuple(f"r{at}" for at in range(raters)),
        ratings=np.round(ratings * steps) / steps,
    )
    *tables, rater = (
        JudgeTable(name, "all", f"v|T0.3|{name}:00|way", np.round(values * steps) / steps)
        for name, values in judges.items()
    )
    method = AgreementSettings(draws=50)
    found = agreement(replace(panel, judges=tuple(tables)), method)
    row = next(found[found["statistic"] == "difference_pearson"].itertuples())
    # A lower r than with the truth and of values that are not rounded.
    human, (whole, values) = panel.human, (judges["judge0"], tables[0].values)
    known = ~np.isnan(human), ~np.isnan(whole)
    left = np.corrcoef(human[known[0]], truth[known[0]])[0, 1]
    left *= np.corrcoef(whole[known[1]], values[known[1]])[0, 1]
    tests = int(found.loc[found["statistic"] == row.statistic, "p"].notna().sum())
    seen = reach_of(row, worth_of_judges(panel, tables), tests) / left
    said = ["agrees better" in line for line in found.attrs["sentences"]]
    is_possible = good + seen / 2 < 0.97 and good - seen / 2 > 0
    told = {"judges": Said.any(said, seen if is_possible else nan)}
    line = agreement(replace(panel, judges=(rater,)), method).attrs["sentences"][1]
    if "replace a rater" in line:
        told["replace"] = Said.any("may not replace" in line)
    return told


def worth_of_judges(panel: Panel, tables: Sequence[JudgeTable]) -> float:
    """What the clusters of a panel are worth to the difference of the first two judges' r."""
    first, second = (table.values for table in tables[:2])
    shared = np.where(np.isnan(first) | np.isnan(second), nan, panel.human)
    moves = [pearson_moves(*complete(shared, own)) for own in (first, second)]
    apart = moves[0] - moves[1]
    row, _ = known = np.nonzero(~np.isnan(apart))
    clusters = Clusters.named(np.asarray(panel.clusters)[row].tolist())
    return Parts.of(apart[known], float(apart[known].mean()), clusters).degrees + 1


Scene = Callable[[Setting, Generator, Path], Told]
SCENES: Mapping[str, Scene] = {one.__name__: one for one in (words, above, gates, flagged, people)}


class Statement(NamedTuple):
    """What a scene may say, and what of `Setting` is planted so that it is true, if anything."""

    scene: str
    title: str
    planted: str = ""


STATEMENTS: Mapping[str, Statement] = {
    "board": Statement("words", "`leaderboard`: a rank that another model cannot have", "lead"),
    "unlike": Statement("words", "`leaderboard`: models miss unlike shares", "more_lost"),
    "compare": Statement("words", "`compare`: is better, scores higher; gaps too", "lead"),
    "above": Statement("above", "`compare`: is further above chance", "lead"),
    "regression": Statement("gates", "`compare --gate`: regression", "lead"),
    "drop": Statement("gates", "`compare --gate`: regression of a drop of just --max-drop"),
    "pass": Statement("gates", "`compare --gate`: pass of a drop of just --max-drop"),
    "informed": Statement("flagged", "`leaderboard` by TPR-FPR: a rank that another cannot have"),
    "notes": Statement("flagged", "`rates`: unlike shares are missing", "more_lost"),
    "groups": Statement("flagged", "`rates`: any gap of groups with p <= .05", "lead"),
    "fpr": Statement("flagged", "`rates --fpr`: a gap of models with p <= .05", "shift"),
    "slope": Statement("flagged", "`run`: a slope with p <= .05", "slope"),
    "judges": Statement("people", "`agree`: agrees better", "closer"),
    "replace": Statement("people", "`agree`: as good as a rater, yet may not replace one"),
}


def told_of(name: str, trial: int, part: int, **changes: object) -> tuple[Setting, Told]:
    """A trial: its setting, whatever the part, with some changes, and what it says."""
    one = replace(Setting.drawn(np.random.default_rng([*name.encode(), trial])), **changes)
    draw = np.random.default_rng([*name.encode(), trial, part])
    scene = STATEMENTS[name].scene if name in STATEMENTS else name
    with tempfile.TemporaryDirectory() as folder:
        return one, SCENES[scene](one, draw, Path(folder))


def cell(values: Sequence[float]) -> str:
    """A percentage and its Monte Carlo standard error."""
    error = float(np.std(values)) / sqrt(len(values))
    return f"{100 * float(np.mean(values)):.1f} ±{100 * error:.1f}"


def statements_of(scene: str) -> list[tuple[str, Statement]]:
    """The statements of a scene, with their names."""
    return [(name, own) for name, own in STATEMENTS.items() if own.scene == scene]


def silent(scene: str, runs: int) -> Iterator[str]:
    """The rows of the statements of a scene, of data without an effect."""
    trials = [told_of(scene, trial, 1) for trial in range(runs)]
    for name, (_, title, _) in statements_of(scene):
        known = [(one, told[name].share) for one, told in trials if name in told]
        parts = {
            stratum: own
            for stratum, holds in STRATA.items()
            if len(own := [share for one, share in known if holds(one)]) >= min(LEAST, runs / 12)
        }
        worst = max(parts, key=lambda stratum: float(np.mean(parts[stratum])))
        of = f"{cell(parts[worst])} | {worst} ({len(parts[worst])})"
        yield f"| {title} | {len(known)} | {cell([s for _, s in known])} | {of} |"


DRAWS, TRIES = 4, 2
"""Draws of a setting from which its effect is taken, and trials with that effect."""


def pooled(told: Sequence[Told], name: str, most: float) -> float | None:
    """The effect that draws of one setting would see; None where it is more than there can be.

    The mean of squared errors is unbiased; an error of its own would plant too little where few
    clusters tell it, as a t of four degrees with it sees 68 of 100, and with the true one 79.
    """
    seen = [own[name].seen for own in told if name in own]
    effect = float(np.sqrt(np.mean(np.square(seen)))) if len(seen) == len(told) else nan
    return effect if effect < most else None


def planted(scene: str, runs: int) -> Iterator[str]:
    """The rows of the statements of a scene, of effects that would be seen in four of five.

    The effect is that of draws with such an effect, as errors grow with some.
    """
    found: dict[str, list[float]] = {name: [] for name, own in statements_of(scene) if own.planted}
    small = {"models": 2, "variants": 1, "judges": 2}
    for trial in range(runs):
        drawn = [told_of(scene, trial, 2 + part, **small) for part in range(DRAWS)]
        one, first = drawn[0][0], [told for _, told in drawn]
        for name, shares in found.items():
            field = STATEMENTS[name].planted
            most = {"lead": 2 * min(one.rate, 1 - one.rate), "more_lost": 0.5}.get(field, 4)
            if (seen := pooled(first, name, most)) is None:
                continue
            small_too = small | {field: seen}
            again = [told_of(scene, trial, 10 + part, **small_too)[1] for part in range(DRAWS)]
            if (seen := pooled(again, name, most)) is None:
                continue
            parts = range(20, 20 + TRIES)
            tried = [told_of(scene, trial, part, **small, **{field: seen})[1] for part in parts]
            shares.append(float(np.mean([told[name].share for told in tried if name in told])))
    for name, shares in found.items():
        said = cell(shares) if shares else ""
        yield f"| {STATEMENTS[name].title} | {len(shares)} | {said} |"


def tables(wanted: Sequence[str], runs: int, settings: int) -> Iterator[str]:
    """The lines of both tables, as Markdown."""
    yield "| statement | trials | said, % | worst setting, % | which (trials) |"
    yield "|---|---|---|---|---|"
    for scene in wanted:
        yield from silent(scene, runs)
    yield ""
    yield "| statement | settings | said, % |"
    yield "|---|---|---|"
    for scene in wanted:
        yield from planted(scene, settings)


def main() -> None:
    """Print the tables of the scenes named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENES))
    parser.add_argument("--runs", type=int, default=1000, help="trials without an effect")
    parser.add_argument("--settings", type=int, default=100, help="settings with planted effects")
    args = parser.parse_args()
    if unknown := sorted(set(args.names) - set(SCENES)):
        sys.exit(f"unknown: {', '.join(unknown)}; known: {', '.join(SCENES)}")
    for line in tables(args.names or [*SCENES], args.runs, args.settings):
        print(line, flush=True)


if __name__ == "__main__":
    main()
