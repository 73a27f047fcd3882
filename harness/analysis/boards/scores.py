"""Runs to one frame of scores, each score once, and the headlines among them."""

import csv
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import StringIO
from typing import Any, get_args

import numpy as np

from harness.errors import LEFT_OUT, HarnessError, StoreError
from harness.lazy import DataFrame, Series, pandas
from harness.parts import Reason
from harness.pipeline.choice_scores import AUC, FALSE_ALARMS, FAVOURITE, HITS, PRECISION, RECALL
from harness.pipeline.plan import AnswerMode
from harness.pipeline.score import ALL, all_scores, rows_of, written_words
from harness.pipeline.score import HEADLINES as HEADLINES
from harness.specs.judges import GoldSpec
from harness.specs.models import CLASSIFIERS
from harness.stats.clustered import clustered_mean, fair_coins
from harness.stats.comparison import most_over_constant
from harness.stats.estimate import NoValue
from harness.storage.cells import formula_text, long_cells
from harness.storage.frames import Row as Row
from harness.storage.frames import frame_csv
from harness.storage.runs import COLUMNS, SCORES, RunFolder, table_text
from harness.storage.signature import Signature, clean_signature

_log = logging.getLogger(__name__)
BOARD_COLUMNS = (
    *COLUMNS,
    *("run", "data", "limit", "seed", "prompts", "version", "judge_version"),
    *("rank", "rank_best", "rank_worst", "rank_items"),
)
"""The columns of leaderboard.csv."""
DIGITS = 6  # of a number in leaderboard.csv; the scores.csv of a run has all, and is read again
_FACTS = (
    *("data", "limit", "seed", "prompts", "version", "judge_version"),
    *("kind", "tested", "recipe", "alike", "answers"),
)
_NORMALISED = frozenset(get_args(GoldSpec.__annotations__["normalisation"]))
_NUMBERS = ("value", "low", "high", "chance", "cost_usd")
_COUNTS = ("n", "clusters", *(f"missing_{reason}" for reason in Reason))
_PLACE = ("task", "judge", "variant", "decoding", "model", "is_part", "group", "metric")


def score_text(folder: RunFolder, *, is_every: bool = False) -> str | None:
    """The headline scores of a run, or every one, as scores.csv has them.

    They are computed from its verdicts if scores.csv has changed. None, after a warning, if the
    verdicts have changed as well.
    """
    try:
        return table_text(all_scores(folder)) if is_every else folder.scores_text()
    except StoreError as error:
        fact = str(error).partition(";")[0]
    try:
        text = table_text(rows_of(folder.read(), folder.tables(), is_every=is_every))
    except HarnessError as error:
        _log.warning("%s: the run is left out", error, extra=LEFT_OUT)
        return None
    _log.warning("%s; its scores are computed from its verdicts", fact)
    return text


def warn_of_changed(folders: Iterable[RunFolder], texts: Mapping[str, str | None]) -> None:
    """Warn of each changed file of the runs that have a text, which is of their whole scores."""
    words = "%s: changed since it was written; its stored scores are shown; repeat the run"
    for folder in (folder for folder in folders if texts[folder.key] is not None):
        for name in (name for name in folder.changed() if name != SCORES):
            _log.warning(words, folder.path / name)


def words_of(folders: Iterable[RunFolder]) -> dict[str, str]:
    """The `written_words` of all runs that can be read."""
    found = dict[str, str]()
    for folder in folders:
        with suppress(StoreError):  # it is said where its verdicts are read
            found |= written_words(folder.read())
    return found


def board_scores(
    texts: Mapping[str, str | None], words: Mapping[str, str] | None = None
) -> DataFrame:
    """The scores of some runs, each once: `texts` has what `score_text` gives by the run's name.

    The columns are those of scores.csv, then `run`, `missing` (the sum over reasons), and what the
    signature says: `tested` is the model with its version, `recipe` all but the model (rows of one
    recipe share a board), `alike` what headlines share, `answers` the way in which choices were
    answered, if a board may have several: it is no part of their recipe, for what was chosen can be
    compared, and `words_of` the runs says what asks the same. Runs without a text have no scores.
    """
    known = {run: text.partition("\n")[2] for run, text in texts.items() if text}
    kinds: dict[str, Any] = dict.fromkeys(COLUMNS, "category")
    kinds |= dict.fromkeys(_NUMBERS, "object") | dict.fromkeys(_COUNTS, "int64")
    body = StringIO("".join(known.values()))
    frame = pandas.read_csv(body, names=[*COLUMNS], dtype=kinds, na_filter=False, low_memory=False)
    numbers = list(_NUMBERS)  # as Python reads them, to the last digit
    frame[numbers] = frame[numbers].replace("", "nan").astype("float64")
    with long_cells(max(map(len, known.values()), default=0)):
        sizes = [sum(1 for _ in csv.reader(StringIO(text, newline=""))) for text in known.values()]
    runs = pandas.Series(list(known), dtype=object).repeat(sizes).astype("category")
    frame["run"] = runs.reset_index(drop=True)
    frame["group"] = frame["group"].cat.rename_categories(formula_text)
    frame["is_part"] = frame["group"] != ALL
    frame = frame.sort_values("n", ascending=False, kind="stable")
    frame = frame.drop_duplicates(["signature", "group", "metric"]).sort_index()
    frame = frame.sort_values([*_PLACE], kind="stable", ignore_index=True).drop(columns="is_part")
    frame["missing"] = frame[[f"missing_{reason}" for reason in Reason]].sum(axis=1)
    signatures = frame["signature"].cat
    made = [_facts(text, words or {}) for text in signatures.categories]
    facts = pandas.DataFrame(made, columns=["signature", *_FACTS])
    facts = facts.astype("category").take(signatures.codes).set_axis(frame.index)
    return pandas.concat([frame.drop(columns="signature"), facts], axis=1)


def shown_decoding(decoding: str, signature: str) -> str:
    """How the answers of a signature were drawn, for the screen: of classifiers `label`."""
    return "label" if Signature.parse(signature).kind in CLASSIFIERS else decoding


def _facts(text: str, words: Mapping[str, str]) -> tuple[str, ...]:
    signature = clean_signature(text)
    made, fields = Signature.parse(signature), signature.split("|")
    # All of a recipe but the temperatures of the decoding.
    drawn = f",n{made.repeats},s{made.seed}"
    asked, decoded, answers = fields[0], fields[4], ""
    if made.decoding in [*AnswerMode] and made.way in _NORMALISED:
        asked, decoded = f"{made.task}:{words.get(made.prompts, made.prompts)}", drawn
        answers = shown_decoding(made.decoding, signature)
    return (
        *(signature, made.data, made.limit, made.seed, made.prompts),
        *(f"{made.kind}@{made.version}", made.judge.partition(":")[2], made.kind, fields[3]),
        "|".join([asked, *fields[1:3], decoded, *fields[5:]]),
        "|".join([*fields[:2], drawn, *fields[5:]]),
        answers,
    )


def prompt_names(scores: DataFrame, folders: Iterable[RunFolder]) -> "Series[Any]":
    """What the prompts of each of some `board_scores` are called.

    Where a variant has several, the tags of their runs if each has one of its own, else digests;
    None where it has not. If no variant has several, digests.
    """
    tags = {one.key: one.tag or "no tag" for one in folders}
    own = scores[["task", "variant", "prompts"]].astype(object)
    own["tag"] = scores["run"].astype(object).map(tags)
    count = own.drop_duplicates().groupby(["task", "variant"]).agg(["nunique", "size"])
    count = count.set_axis(["prompts", "size", "tag", "_"], axis=1)
    is_mixed = own.set_index(["task", "variant"]).index.isin(count.index[count["prompts"] > 1])
    if not is_mixed.any():
        return own["prompts"]
    is_named = (count["prompts"] == count["size"]) & (count["tag"] == count["size"])
    is_named = is_named[count["prompts"] > 1].all()
    return own["tag" if is_named else "prompts"].where(is_mixed, None)


def headlines(scores: DataFrame) -> DataFrame:
    """The rows of `board_scores` over all decodings together: one a run, variant and judge."""
    chosen = scores[(scores["group"] == ALL) & scores["metric"].isin(HEADLINES)]
    pooled = -chosen["decoding"].astype(object).str.count(r"\+").astype(int)
    chosen = chosen.loc[pooled.sort_values(kind="stable").index]
    key = ["task", "tested", "variant", "judge", "alike"]
    return chosen.drop_duplicates(key).sort_index()


def board_text(rows: DataFrame) -> str:
    """The leaderboard as CSV, for people: floats to 6 digits, what is missing is empty."""
    short = {name: [float(f"{cell:.{DIGITS}g}") for cell in rows[name]] for name in _NUMBERS}
    return frame_csv(rows.assign(**short))


FEWEST_CLUSTERS = 10
"""With fewer independent items an interval says little, and there is no alarm of a run or judge."""
# The share of one place among the choices, and of responses without a preference, that is an
# alarm. Of two places the right choices are at one so often, by chance, with less than RARELY.
ALARMING, ALARMING_TIES, RARELY = 0.9, 0.05, 0.01
# Originals of each of two kinds from which on rates are enough for an alarm, and the share of a
# kind that is nearly all of it.
FEWEST, NEARLY_ALL = 10, 0.95
CEILING, FLOOR = "oracle", "literal"
MARGIN = 0.5  # how far apart the controls are by a fit judge: half of the scale of right and wrong
ALIKE = "identical_scores"
CONSTANT = {
    "always": "nearly every text is flagged, whatever its kind",
    "never": "nearly no text is flagged, whatever its kind",
    "one label": "nearly every text gets one label",
    "one kind": "all texts are of one kind, and a constant answer is always right",
    "beaten": "its accuracy is no better than that of the best constant answer",
}
_ON_PURPOSE = "constant-"
"""How the names of the controls begin that always answer alike: there it is no news."""
_RECALL, _PRECISION = RECALL.format(""), PRECISION.format("")
_RATES = (HITS, FALSE_ALARMS, AUC, _RECALL)
OF_ALARMS = (FAVOURITE, ALIKE, *_RATES)
"""How the metrics begin without which a run has no alarm."""
_RUN = ["signature", "task", "model", "variant", "data", "limit"]


def alarms(scores: DataFrame) -> DataFrame:
    """The runs whose answers do not depend on what is asked, or are as good as a constant answer.

    `finding` is "place", or a key of CONSTANT; the `words` follow the run's name.
    """
    heads, known = headlines(scores), _overall(scores, OF_ALARMS)
    by_run = _by_run(known)
    found = [*_of_places(heads, known)]
    for head in heads[heads["signature"].isin(by_run)].itertuples():
        is_on_purpose = head.kind == "scripted" and head.model.startswith(_ON_PURPOSE)
        own = by_run[head.signature]
        if not is_on_purpose and (finding := _constant(own, head.clusters)):
            found.append((head, finding, _constant_words(head, finding, own)))
    rows = [(*(getattr(head, name) for name in _RUN), *said) for head, *said in found]
    return pandas.DataFrame(rows, columns=[*_RUN, "finding", "words"])


def constant_runs(scores: DataFrame) -> frozenset[str]:
    """The signatures of runs that give every text one label, or nearly all of enough texts."""
    found = alarms(scores)
    constant = set(found.loc[found["finding"].isin(("always", "never", "one label")), "signature"])
    for name, own in _by_run(_overall(scores, (HITS, FALSE_ALARMS, _PRECISION))).items():
        rates = {own[metric].value for metric in (HITS, FALSE_ALARMS) if metric in own}
        values = [row.value for row in own.values() if not np.isnan(row.value)]
        if rates in ({0.0}, {1.0}) or (not rates and len(values) == 1):
            constant.add(name)
    return frozenset(constant)


def _overall(scores: DataFrame, begins: tuple[str, ...]) -> DataFrame:
    """The overall scores of the metrics that begin so."""
    some = [name for name in scores["metric"].cat.categories if name.startswith(begins)]
    chosen = scores[(scores["group"] == ALL) & scores["metric"].isin(some)]
    return chosen.astype({"signature": "object", "metric": "object"})


def _by_run(known: DataFrame) -> dict[str, dict[str, Row]]:
    """Value and counts of each metric, by the signature."""
    found = dict[str, dict[str, Row]]()
    for row in known[["signature", "metric", "value", "n", "clusters"]].itertuples(index=False):
        found.setdefault(row.signature, {})[row.metric] = row
    return found


def _of_places(heads: DataFrame, known: DataFrame) -> list[tuple[Row, str, str]]:
    """The runs that nearly always choose one place, or score all choices the same."""
    is_place = known["metric"].isin((FAVOURITE, ALIKE))
    least = known["metric"].map({FAVOURITE: ALARMING, ALIKE: ALARMING_TIES})
    if not (known["value"] >= least).any():
        return []
    shares = known[is_place].pivot(index="signature", columns="metric", values="value")
    shares = shares.reindex(columns=[FAVOURITE, ALIKE]).set_axis(["share", "same"], axis=1)
    heads = heads.sort_values("n", kind="stable").join(shares, on="signature")
    heads["family"] = [name.rpartition(":")[0] for name in heads["variant"]]
    of_run = ["task", "data", "limit", "tested", "decoding", "seed", "judge", "judge_version"]
    heads = heads.drop_duplicates([*of_run, "family"], keep="last")
    heads = heads[heads["clusters"] >= FEWEST_CLUSTERS]
    has_rates = set(known.loc[~is_place, "signature"])
    found = []
    for row in heads[(heads["share"] >= ALARMING) | (heads["same"] >= ALARMING_TIES)].itertuples():
        facts = []
        if row.share >= ALARMING and row.signature not in has_rates:
            at_one = round(row.share * row.clusters)
            if fair_coins(at_one, row.clusters - at_one) < RARELY:
                facts.append(f"{row.share:.0%} of its choices are at one position")
        if row.same >= ALARMING_TIES:
            facts.append(f"all choices score the same in {row.same:.0%} of its responses")
        words = "its accuracy depends on where the right choices are placed, not on understanding"
        found += [(row, "place", f"{' and '.join(facts)}; {words}")] if facts else []
    return found


def _constant(own: Mapping[str, Row], clusters: int) -> str | None:
    """Which constant answer the rates of one run look like: a key of CONSTANT, or None."""
    kinds, is_of_classes = _kinds(own)
    counts = sorted((row.clusters if row.n > 0 else 0 for row in kinds.values()), reverse=True)
    first, second = [*counts, 0, 0][:2]
    if first < FEWEST or 0 < second < FEWEST:
        return None
    if second == 0:
        return "one kind"
    shares = sorted(_known(row) for row in kinds.values() if row.clusters >= FEWEST)
    if is_of_classes and shares[-1] >= NEARLY_ALL and shares[-2] <= 1 - NEARLY_ALL:
        return "one label"
    if not is_of_classes and shares[0] >= NEARLY_ALL:
        return "always"
    if not is_of_classes and shares[-1] <= 1 - NEARLY_ALL:
        return "never"
    right = [1 - _known(r) if n == FALSE_ALARMS else _known(r) for n, r in kinds.items()]
    sizes = [row.n for row in kinds.values()]
    return "beaten" if most_over_constant(sizes, right, clusters) < 0 else None


def _kinds(own: Mapping[str, Row]) -> tuple[dict[str, Row], bool]:
    """The rates of a run, each of the texts of one kind, and whether they are of classes."""
    rates = {metric: own[metric] for metric in (HITS, FALSE_ALARMS) if metric in own}
    classes = {metric: row for metric, row in own.items() if metric.startswith(_RECALL)}
    return rates or classes, not rates


def _known(row: Row) -> float:
    return 0.0 if np.isnan(row.value) else float(row.value)


def _constant_words(head: Row, finding: str, own: Mapping[str, Row]) -> str:
    kinds, is_of_classes = _kinds(own)
    most, total = max(kinds, key=lambda name: kinds[name].n), sum(row.n for row in kinds.values())
    constant = three(kinds[most].n / total if total else 0.0)
    named = (("TPR", HITS), ("FPR", FALSE_ALARMS), ("AUC", AUC))
    known = [(name, own[metric].value if metric in own else None) for name, metric in named]
    shown = "" if is_of_classes else ", ".join(f"{n} {three(rate)}" for n, rate in known) + "; "
    label = f" {most.removeprefix(_RECALL)}" if is_of_classes else ""
    fact = f"accuracy {three(head.value)}, constant answer{label} {constant}"
    return f"{CONSTANT[finding]} ({shown}{fact})"


def judge_fitness(boards: DataFrame, verdicts: DataFrame) -> DataFrame:
    """Whether each judge gives right answers, of oracle, better verdicts than literal ones.

    `finding`: fit, unfit, weak, cannot tell, few or unread; `low` to `high`, the 95 % interval of
    their gap on the same items, NaN without one; `words`, which follow the judge's name.
    """
    first, second = (
        boards[boards["model"] == model].drop_duplicates("recipe", keep="last")
        for model in (CEILING, FLOOR)
    )
    recipes = [one for one in first["recipe"] if one in set(second["recipe"])]
    sides = [side.set_index("recipe").loc[recipes] for side in (first, second)]
    gaps = _gaps(sides, verdicts)
    found = []
    for recipe, ceiling, floor in zip(recipes, *(side.itertuples() for side in sides), strict=True):
        ends = gaps.get(recipe, (np.nan, np.nan))
        finding = _fitness(ceiling, floor, *ends)
        facts = (ceiling.task, ceiling.variant, ceiling.judge, finding, *ends)
        found.append((*facts, _fitness_words(finding, ceiling, floor, *ends)))
    columns = ["task", "variant", "judge", "finding", "low", "high", "words"]
    return pandas.DataFrame(found, columns=columns)


def _gaps(sides: list[DataFrame], verdicts: DataFrame) -> dict[str, tuple[float, float]]:
    """The interval of the gap of each recipe; a gap that is always the same is its own."""
    known = verdicts[verdicts["value"].notna()]
    names = known["signature"].astype(object)
    first, second = (
        known.assign(recipe=names.map({row.signature: row.Index for row in side.itertuples()}))
        for side in sides
    )
    keys = ["recipe", "sample", "variant", "decoding"]
    both = first.dropna(subset="recipe").merge(second[[*keys, "value"]], on=keys).sort_values(keys)
    gaps, found = (both["value_x"] - both["value_y"]).to_numpy(), {}
    clusters = both["cluster"].astype("category").cat.codes.to_numpy()
    for recipe, places in both.groupby("recipe").indices.items():
        gap = clustered_mean(gaps[places], clusters[places])
        low, high = (gap.value if gap.why is NoValue.CONSTANT else e for e in (gap.low, gap.high))
        if low is not None and high is not None:
            found[str(recipe)] = low, high
    return found


def _fitness(ceiling: Row, floor: Row, low: float, high: float) -> str:
    chance = ceiling.chance
    if np.isnan(ceiling.score) or np.isnan(floor.score):
        return "unread"
    if min(ceiling.clusters, floor.clusters) < FEWEST_CLUSTERS:
        return "few"
    if np.isnan(low):
        return "cannot tell"
    if np.isnan(chance):
        unfit = "unfit" if high <= 0 else "cannot tell"
        return "fit" if low > 0 else unfit
    # A constant over several clusters is its own interval.
    ends = [
        (one.score, one.score) if np.isnan(one.score_low) else (one.score_low, one.score_high)
        for one in (ceiling, floor)
    ]
    sides = [int(own[0] > chance) - int(own[1] < chance) for own in ends]
    is_sure_wrong = sides[0] < 0 or sides[1] > 0
    if high < MARGIN or is_sure_wrong:
        return "weak" if low > 0 and not is_sure_wrong else "unfit"
    return "fit" if low >= MARGIN and sides[0] > 0 > sides[1] else "cannot tell"


def _fitness_words(finding: str, ceiling: Row, floor: Row, low: float, high: float) -> str:
    both = f"oracle ({three(ceiling.score)}) from literal ({three(floor.score)})"
    both += f", gap {'-' if np.isnan(low) else f'{three(low)} to {three(high)}'}"
    samples = min(ceiling.clusters, floor.clusters)
    lost = [f"{row.model} {missing_words(row) or 'none'}" for row in (ceiling, floor) if not row.n]
    unfit = f"it distinguishes {both} by less than half of its scale, perhaps not at all"
    if low > 0:
        unfit = f"it rates one of them on the wrong side of chance: {both}"
    elif high <= 0:
        unfit = f"it does not distinguish {both}"
    return {
        "unread": f"has given no verdict that could be read: {'; '.join(lost)}",
        "few": f"has read too few samples to know whether it is fit ({samples} of "
        f"{FEWEST_CLUSTERS})",
        "cannot tell": f"may be fit or unfit: too few items to say whether it distinguishes {both}",
        "unfit": f"is unfit here: {unfit}",
        "weak": f"is weak here: it distinguishes {both} by less than half of its scale",
        "fit": f"is fit here: it distinguishes {both}",
    }[finding]


def three(value: float | None) -> str:
    """A number in three decimals, a dash for none."""
    return "-" if value is None or np.isnan(value) else f"{value:.3f}"


def missing_words(row: Row) -> str:
    """How many verdicts are missing for each reason; empty without any."""
    counts = ((getattr(row, f"missing_{reason}"), reason) for reason in Reason)
    return ", ".join(f"{count} {reason}" for count, reason in counts if count)
