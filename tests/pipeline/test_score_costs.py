"""What calls came to is added up once a call, and what nobody tells is never zero."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.each import each
from support.run_tables import score_rows, with_costs
from support.sketches import JUDGE, right, row, run_file

from harness.parts import UNCHARGED, Reason, Superseded, Usage
from harness.storage.run_tables import SampleRecord, StepRecord, VerdictRecord
from harness.storage.runs import Costs, JudgeEntry, ScoreRow

ASKING = replace(JUDGE, asks="judge-m")
CENT, TWO, UNKNOWN_USAGE = Usage(10, 5, 0.01), Usage(20, 6, 0.02), Usage(30, None, None)


def steps(**usages: Usage) -> tuple[StepRecord, ...]:
    return tuple(
        StepRecord(name, name, (), text="so", usage=usage) for name, usage in usages.items()
    )


def asked(**usages: Usage) -> VerdictRecord:
    return VerdictRecord(1.0, keys=tuple(usages), usages=tuple(usages.values()))


def answered(
    verdict: VerdictRecord | None = None, name: str = "s1", **usages: Usage
) -> SampleRecord:
    return row(verdict or right(1.0), name, steps=steps(**usages))


def run_costs(rows: Sequence[SampleRecord], judges: Sequence[JudgeEntry]) -> Costs:
    costs = with_costs(run_file(len(rows), judges=tuple(judges)), rows).costs
    assert costs is not None
    return costs


def scored(*rows: SampleRecord, **changes: object) -> list[ScoreRow]:
    return score_rows(run_file(len(rows), **changes), rows)


@each(
    ("usages", "whole", "told"),
    [
        ({"a": CENT, "b": TWO}, (30, 11, 0.03), Usage(30, 11, 0.03)),
        ({"a": CENT, "b": UNKNOWN_USAGE}, (40, None, None), Usage(40, 5, 0.01)),
        ({"a": UNKNOWN_USAGE}, (30, None, None), Usage(30, None, None)),
        ({"a": Usage(3, 4)}, (3, 4, None), Usage(3, 4, None)),
        ({"a": Usage(0, 0, 0.0)}, (0, 0, 0.0), Usage(0, 0, 0.0)),
    ],
)
def test_a_sum_is_whole_only_where_every_call_tells(
    usages: dict[str, Usage], whole: tuple[float | None, ...], told: Usage
) -> None:
    found = run_costs([answered(None, "s1", **usages)], ()).answers
    assert (found.prompt_tokens, found.completion_tokens, found.cost_usd) == whole
    assert (found.calls, found.reported) == (len(usages), told)


def test_calls_that_broke_off_are_counted_and_no_sum_is_whole_beside_them() -> None:
    earlier = (Superseded(replace(UNCHARGED, unanswered=2), Reason.FAILED),)

    one = answered(a=replace(CENT, unanswered=1, superseded=earlier), b=TWO)
    found = run_costs([one], ()).answers

    assert (found.unanswered, found.cost_usd, found.prompt_tokens) == (3, None, None)
    assert found.reported.prompt_tokens == 30
    assert found.reported.cost_usd == pytest.approx(0.03)


def test_calls_that_another_took_the_place_of_were_paid_all_the_same() -> None:
    earlier = (Superseded(TWO, Reason.REFUSED), Superseded(UNKNOWN_USAGE, Reason.FAILED))
    found = run_costs([answered(a=replace(CENT, superseded=earlier))], ()).answers

    assert (found.calls, found.cost_usd, found.prompt_tokens) == (3, None, 60)
    assert found.reported.cost_usd == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("step", "cost"), [(None, 0.03), ("thought", 0.01), ("response", 0.03), ("elsewhere", 0.03)]
)
def test_a_judge_of_an_earlier_step_rests_on_calls_up_to_it(step: str | None, cost: float) -> None:
    one = answered(thought=CENT, response=TWO)
    [found] = scored(one, judges=(replace(JUDGE, step=step),))
    assert found.cost_usd == cost


def test_a_row_costs_its_answers_and_the_questions_of_its_own_judge() -> None:
    verdicts = {"near": asked(q1=CENT, q2=CENT), "other": asked(q3=TWO)}
    one = replace(answered(a=CENT, b=TWO), verdicts=verdicts)
    found = scored(one, judges=(ASKING, replace(ASKING, name="other")))

    assert [r.cost_usd for r in found] == pytest.approx([0.05, 0.05])


def test_a_call_that_cells_share_is_paid_once_in_a_row_and_once_in_a_run() -> None:
    rows = [answered(asked(q=TWO), f"s{n}", neutral=CENT, **{f"own{n}": CENT}) for n in range(3)]
    [found] = scored(*rows, judges=(ASKING,))

    assert found.cost_usd == pytest.approx(0.04 + 0.02)
    assert run_costs(rows, (ASKING,)).total.calls == 5


def test_rows_of_parts_and_of_wholes_each_tell_their_own() -> None:
    one = answered(None, "s1", a=CENT)
    rows = [replace(one, decoding="T0.3"), replace(answered(None, "s2", b=TWO), decoding="T0.5")]
    found = {r.score.decoding: r.cost_usd for r in scored(*rows)}

    assert found == pytest.approx({"T0.3": 0.01, "T0.5": 0.02, "T0.3+0.5": 0.03})


def test_a_row_with_a_call_of_unknown_cost_has_no_cost() -> None:
    [found] = scored(answered(asked(q1=CENT, q2=Usage(4, 5)), a=CENT), judges=(ASKING,))
    assert found.cost_usd is None


def test_a_row_of_one_snapshot_does_not_cost_what_another_did() -> None:
    verdicts = [replace(asked(**{f"q{n}": CENT}), served=f"j-{n}") for n in range(2)]
    rows = [answered(part, f"s{n}", **{f"a{n}": TWO}) for n, part in enumerate(verdicts)]
    found = scored(*rows, judges=(ASKING,))

    assert [r.cost_usd for r in found] == pytest.approx([0.03, 0.03])


def test_a_run_tells_its_answers_from_its_judges_and_counts_what_these_share_once() -> None:
    judges = (ASKING, replace(ASKING, name="other"), replace(JUDGE, name="local"))
    verdicts = {"near": asked(q=CENT), "other": asked(q=CENT, r=TWO), "local": right(1.0)}

    found = run_costs([replace(answered(a=CENT), verdicts=verdicts)], judges)

    assert found.answers.cost_usd == 0.01
    paid = {name: cost.cost_usd for name, cost in found.judges.items()}
    assert paid == {"near": 0.01, "other": 0.03}
    assert found.total.cost_usd == 0.04
