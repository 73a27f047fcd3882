"""Rows of comparisons or agreement to sentences, for the screen and the page."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf, sqrt

from harness.analysis.compare import main_differences
from harness.analysis.pairings import Kind, Pairing
from harness.lazy import DataFrame, Series
from harness.pipeline.score import ALL
from harness.stats.clustered import detectable_difference
from harness.stats.scales import POWER, SIGNIFICANT
from harness.storage.frames import Row, records
from harness.storage.signature import JudgeRecipe

_SIDES = ("model_a", "model_b")
PEOPLE = ("alpha_raters", "agreement_pairwise_raters", "noise_ceiling")
"""The statistics of the raters alone, which are the same for every judge of a panel."""
NOISE = 1e-9  # values that differ by less are equal but for rounding
_PASSING = 0.5  # the winning rate of the alternative annotator test (Calderon et al. 2025)


def comparison_findings(rows: DataFrame) -> list[str]:
    """A sentence for each difference over all samples, and all decodings together."""
    found = records(main_differences(rows))
    # What the sentences of one comparison differ in: the gap or the variant, and the judges.
    shown = [
        (
            f"{row.comparison} of {row.model_a}" if _is_gap(row) else row.variant_b,
            f"by {' and '.join(dict.fromkeys((row.judge_a, row.judge_b)))}",
        )
        for row in found
    ]
    varied = [place for place in range(2) if len({parts[place] for parts in shown}) > 1]
    heads = [", ".join(parts[place] for place in varied) + ": " * bool(varied) for parts in shown]
    return [
        head + difference_words(row, _names(row)) for head, row in zip(heads, found, strict=True)
    ]


def with_sides(rows: DataFrame, names: Sequence["str | Series[str]"]) -> DataFrame:
    """The rows with names of two runs, or of each row's, for models, but what is within a run."""
    is_between = (rows["variant_a"] == rows["variant_b"]) & (rows["task_a"] == rows["task_b"])
    shown = {
        side: rows[side].mask(is_between, name) for side, name in zip(_SIDES, names, strict=True)
    }
    return rows.assign(**shown)


def missing_findings(rows: DataFrame) -> list[str]:
    """From how many comparisons verdicts are missing, in one sentence; none if nothing is."""
    lost = rows["missing_a"] + rows["missing_b"]
    some = rows.assign(share=lost / rows["items"])[(rows["group"] == ALL) & (lost > 0)]
    some = some.drop_duplicates(["comparison", "signature_a", "signature_b"])
    worst = some.sort_values("share", ascending=False, kind="stable")[:1]
    said = [
        f"verdicts are missing from {len(some)} comparison{'s' * (len(some) > 1)}, at worst "
        f"{row.missing_a} and {row.missing_b} of {row.items}"
        for row in worst.itertuples()
    ]
    if count := int((some["p_missing"] <= SIGNIFICANT / max(1, len(some))).sum()):
        why = "what a model does not answer may be what it would get wrong"
        where = f"in {count} of these " * (len(some) > 1)
        said.append(f"{where}one side misses more than the other (p_missing): {why}")
    return said


def wrong_findings(pairings: Iterable[Pairing]) -> list[str]:
    """Of how many items missing verdicts count as wrong, in one sentence; none if nothing is."""
    lost = [one.items[["lost_a", "lost_b"]] for one in pairings]
    worst = max(lost, key=lambda side: side.to_numpy().sum() / max(1, len(side)))
    a, b = worst.sum().tolist()
    counts = f"at most {a} of A and {b} of B, of {len(worst)}"
    return [f"missing verdicts count as the least value: {counts}"] if a + b else []


def _is_gap(row: Row) -> bool:
    return bool(row.task_a == row.task_b and row.variant_a != row.variant_b)


def _names(row: Row) -> tuple[str, str]:
    is_choice = row.comparison == Kind.CHOICE_AND_WORDS
    if _is_gap(row) and not is_choice:
        return row.variant_a, row.variant_b
    sides = (row.task_a, row.task_b) if is_choice else (row.model_a, row.model_b)
    return f"A ({sides[0]})", f"B ({sides[1]})"


def difference_words(row: Row, names: tuple[str, str]) -> str:
    """Which of two sides is better and by how much, or that they do not differ significantly."""
    is_above = row.above_chance is not None
    value, p = (row.above_chance, row.p_above_chance) if is_above else (row.value, row.p)
    low, high = (row.above_chance_low, row.above_chance_high) if is_above else (row.low, row.high)
    both, unit = " and ".join(names), " points" * (row.both is not None)
    on, tests = items_words(row), "" if p is None else p_words(p)
    corrected = row.p_holm if (row.tests or 0) > 1 else None
    is_found = p is not None and max(p, corrected or 0.0) <= SIGNIFICANT
    if corrected is not None:
        tests += f"; {p_words(corrected)} corrected for {row.tests} differences"
    if value is None:
        return f"{both} cannot be compared: {row.reason or 'no item that both have'}"
    if low is None or high is None:
        why = (row.reason or "not known").removeprefix("no interval: ")
        if value == 0 and why == "constant":
            return f"{both} have the same verdicts, on {on}"
        size = f"{_shown(row, (abs(value),))[0]}{unit}"
        words = f"{both} are not significantly different: they differ by {size}"
        return f"{words}, on {on} (no interval: {why})"
    if is_found:
        small, large = _shown(row, sorted((abs(low), abs(high))))
        better, worse = names if value > 0 else names[::-1]
        how = "further above chance" if is_above else "better" if unit else "higher"
        words = f"{better} {'is' if unit else 'scores'} {how} than {worse}"
        lost = (row.missing_a or 0) + (row.missing_b or 0)
        worst = row.least if value > 0 else row.most
        if lost and (worst is None or worst * value <= 0):
            words += " on what both answered"
            tests += f"; the {lost} missing verdicts could undo it"
        return f"{words} by {small} to {large}{unit}, on {on} ({tests})"
    least = _least_seen(row, (high - low) / 2, is_above=is_above)
    seen = f"a difference of {_shown(row, (least,))[0]}{unit} would have been seen"
    if least > (most := 1.0 if unit else _width(row)):  # there is none beyond
        seen = f"these are too few to see even one of {'100 points' if unit else f'{most:g}'}"
    low_text, high_text = _shown(row, (low, high))
    more = f"{seen} ({POWER:.0%} power)" if p is None or p > SIGNIFICANT else tests
    above = "above chance " * is_above
    return (
        f"{both} are not significantly different: the difference {above}lies between {low_text} "
        f"and {high_text}{unit}, on {on}; {more}"
    )


def _width(row: Row) -> float:
    """How far apart two ratings of the judge can be; infinite where its scale is not known."""
    fields = (row.signature_a or "").split("|")
    ends = JudgeRecipe(*fields[5:7]).scale if fields[6:] else None
    return ends[1] - ends[0] if ends else inf


def _least_seen(row: Row, reach: float, *, is_above: bool) -> float:
    """The true difference that is found with this power; McNemar's exact p takes an item more."""
    worth, tests = row.worth or row.clusters, row.tests or 1
    is_exact = row.both is not None and not (is_above or row.ties) and row.n == row.clusters
    found = detectable_difference(reach, worth, power=POWER, tests=tests)
    return found + bool(is_exact) / int(row.clusters)


def items_words(row: Row) -> str:
    """How many items a row is of, and what they are worth where clusters are of unequal size."""
    uneven = row.worth is not None and 2 * row.worth < row.clusters
    on = f"{row.clusters} independent items"
    on += f" of unequal size (worth {row.worth:.0f})" if uneven else ""
    return on if row.n == row.clusters else f"{row.n} answers of {on}"


def _shown(row: Row, values: Sequence[float]) -> list[str]:
    """Points of a hundred in as few decimals as say something, or values of the judge's scale."""
    if row.both is None:
        return [signed(value, 2) for value in values]
    points = [100 * value for value in values]
    places = 0 if all(abs(point) >= 1 for point in points) else 1
    return [signed(point, places) for point in points]


def signed(value: float, places: int) -> str:
    """A number in so many decimals; in more where it would be printed as 0 and is not."""
    text = f"{value:.{places}f}"
    return text if float(text) else f"{value:.1g}" if abs(value) > NOISE else f"{0:.{places}f}"


def p_words(p: float) -> str:
    """A p-value in three decimals, such as p .012."""
    return "p <.001" if p < 0.0005 else f"p {p:.3f}".replace("0.", ".", 1)


def agreement_findings(rows: Sequence[Row]) -> list[str]:
    """The raters of a panel once, a sentence for each judge, and which judges differ."""
    judges = [judge_finding(judge, own) for judge, own in by_judge(rows).items()]
    return [raters_finding(rows), *judges, *pairs_finding(rows)]


def raters_finding(rows: Sequence[Row]) -> str:
    """How well the raters of a panel agree, and what r they allow a judge."""
    alpha, equal, ceiling = (_known(rows).get(name) for name in PEOPLE)
    if alpha is None:
        why = next((row.reason for row in rows if row.statistic == PEOPLE[0]), "no rating")
        return f"raters: no agreement is known: {why}"
    facts = [f"alpha {_with_ends(alpha)}"]
    facts += [f"two of them rate {equal.value:.0%} alike"] if equal else []
    if ceiling and ceiling.value >= 0:
        facts.append(
            f"their means have a reliability of {ceiling.value:.2f}, so that a judge without "
            f"errors would reach r {sqrt(ceiling.value):.2f}"
        )
    return f"raters: {'; '.join(facts)}"


def judge_finding(judge: str, rows: Sequence[Row]) -> str:
    """How well one judge agrees with the raters."""
    known = _known(rows)
    if (r := known.get("pearson_dataset")) is None:
        why = next((row.reason for row in rows if row.statistic == "pearson_dataset"), "no verdict")
        return f"{judge}: no correlation with the raters: {why}"
    most, among = known.get("attainable_r"), known.get("agreement_pairwise_raters")
    of = f" of {most.value:.2f} attainable" if most else ""
    facts = [f"r {_with_ends(r)}{of}, on {r.n} cells"]
    if equal := known.get("agreement_pairwise_judge"):
        two = f" (two raters: {among.value:.0%})" if among else ""
        facts.append(f"rates {equal.value:.0%} as a rater does{two}")
    if wins := known.get("annotator_winning_rate"):
        facts.append(_replacing(wins, known["annotator_losing_rate"]))
    return f"{judge}: {'; '.join(facts)}"


def _known(rows: Iterable[Row]) -> dict[str, Row]:
    """The rows of one judge that have a value, by their statistic."""
    return {row.statistic: row for row in rows if row.value is not None}


def _replacing(wins: Row, losses: Row) -> str:
    """Whether a judge may replace a rater by the alternative annotator test, or is not known."""
    near = f"as near to the others as {wins.value:.0%} of raters, give or take {wins.epsilon:g}"
    if wins.value >= _PASSING:
        return f"may replace a rater (at least {near})"
    if losses.value >= _PASSING:
        far = f"farther from the others than {losses.value:.0%} of raters"
        return f"may not replace a rater ({far}, by more than {wins.epsilon:g})"
    return f"these ratings cannot say whether it may replace a rater (surely {near})"


def pairs_finding(rows: Iterable[Row]) -> list[str]:
    """Which judges' correlations differ significantly, and how many pairs do not."""
    tested = [row for row in rows if row.statistic == "difference_pearson" and row.p is not None]
    found = []
    for row in (one for one in tested if one.p_holm <= SIGNIFICANT):
        better, worse = row.judge.split(" vs ")[:: 1 if row.value > 0 else -1]
        size = f"{abs(row.value):.2f} ({p_words(row.p_holm)})"
        found.append(f"{better} agrees better than {worse}: r by {size}")
    if left := [row for row in tested if row.p_holm > SIGNIFICANT]:
        names = left[0].judge.replace(" vs ", " and ")
        pair = f"{names} are" if len(tested) == 1 else f"{len(left)} of {len(tested)} pairs are"
        p = f" ({p_words(left[0].p_holm)})" if len(left) == 1 else ""
        found.append(f"{pair} not significantly different by r{p}")
    return found


def _with_ends(row: Row) -> str:
    ends = "" if row.low is None else f" ({row.low:.2f} to {row.high:.2f})"
    return f"{row.value:.2f}{ends}"


def by_judge(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    """The rows of each judge of a panel; those of two judges are left out.

    A judge of several recipes or snapshots is as many judges, named as signatures name them.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if " vs " not in row.judge and " vs " not in row.model:
            found.setdefault((who(row), row.signature), []).append(row)
    several = Counter(name for name, _ in found)
    return {
        name if several[name] == 1 else signature.split("|")[5]: own
        for (name, signature), own in found.items()
    }


def who(row: Row) -> str:
    """The judge of a row, after the model where a run's model judges."""
    return row.judge if row.model in ("all", row.judge) else f"{row.model}, {row.judge}"
