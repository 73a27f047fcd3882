"""What calls were charged adds up, is stored as before, and is read where it was stored before."""

import msgspec
import pytest
from support.each import each

from harness.parts import UNCHARGED, Usage, total_usage

TOLD = Usage(2, 5, reasoning_tokens=1)


@each(
    ("usages", "whole"),
    [
        ([TOLD, TOLD], Usage(4, 10, reasoning_tokens=2)),
        ([TOLD, UNCHARGED], TOLD),
        ([TOLD, Usage(2, 5)], Usage(4, 10)),
        ([TOLD, Usage()], Usage()),
        ([TOLD, Usage(1, 1, unanswered=2), Usage(1, 1, unanswered=1)], Usage(4, 7, unanswered=3)),
        ([], UNCHARGED),
    ],
)
def test_charges_add_up_and_what_one_does_not_tell_the_sum_does_not(
    usages: list[Usage], whole: Usage
) -> None:
    assert total_usage(usages) == whole


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (
            Usage(2, 5),
            '{"prompt_tokens":2,"completion_tokens":5,"cost_usd":null,"reasoning_tokens":null}',
        ),
        (
            Usage(unanswered=2),
            '{"prompt_tokens":null,"completion_tokens":null,"cost_usd":null,'
            '"reasoning_tokens":null,"unanswered":2}',
        ),
    ],
)
def test_a_charge_says_how_many_calls_broke_off_only_where_any_did(usage: Usage, line: str) -> None:
    assert msgspec.json.encode(usage).decode() == line
    assert msgspec.json.decode(line, type=Usage) == usage
