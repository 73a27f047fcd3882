"""What an engine reads of choices, against a model whose log-probabilities are set by hand."""

from collections.abc import Sequence

import pytest
from support.each import each

from harness.models.local import vllm_model
from harness.models.local.tokenization import ChoiceTokens
from harness.models.local.vllm_model import ScoringPrompt, scoring_prompts, total_logprobs

Rows = Sequence[tuple[int, ...]]


def tokens(rows: Rows, first: int) -> ChoiceTokens:
    return ChoiceTokens(tuple(rows), (first,) * len(rows), 0)


def logprob(before: Sequence[int], token: int) -> float:
    """A made-up model: what comes next depends on all that precedes it."""
    return -token - sum(place * each for place, each in enumerate(before)) / 1000


def told(reading: ScoringPrompt) -> vllm_model.Logprobs:
    prompt = reading.prompt
    own = [logprob(prompt[:at], prompt[at]) for at in range(1, len(prompt))]
    nexts = {token: logprob(prompt, token) for token in reading.nexts}
    return own if reading.is_scored else [], nexts


def by_hand(row: tuple[int, ...], first: int) -> float:
    return sum(logprob(row[:at], row[at]) for at in range(first, len(row)))


ONE_TOKEN = [(7, 8, 1), (7, 8, 2), (7, 8, 3)]
SPACE_APART = [(7, 8, 5, 1), (7, 8, 5, 2)]
TEXTS = [(7, 8, 5, 1, 6), (7, 8, 5, 1, 9, 4), (7, 8, 3)]


@pytest.mark.parametrize(
    ("rows", "first", "expected"),
    [
        (ONE_TOKEN, 2, [ScoringPrompt((7, 8), (1, 2, 3), is_scored=False)]),
        (SPACE_APART, 2, [ScoringPrompt((7, 8, 5), (1, 2), is_scored=True)]),
        (
            TEXTS,
            2,
            [
                ScoringPrompt((7, 8, 5, 1), (6,), is_scored=True),
                ScoringPrompt((7, 8, 5, 1, 9), (4,), is_scored=True),
                ScoringPrompt((7, 8), (3,), is_scored=False),
            ],
        ),
        ([(7, 1), (7, 1)], 1, [ScoringPrompt((7,), (1,), is_scored=False)]),
    ],
)
def test_choices_that_differ_in_their_last_token_share_one_prompt(
    rows: Rows, first: int, expected: list[ScoringPrompt]
) -> None:
    assert scoring_prompts(tokens(rows, first)) == expected


@each(
    ("rows", "first"),
    [(ONE_TOKEN, 2), (ONE_TOKEN, 1), (SPACE_APART, 2), (TEXTS, 2), (TEXTS, 1), ([(7, 2)] * 2, 1)],
)
def test_sums_are_those_of_each_row_by_itself(rows: Rows, first: int) -> None:
    choices = tokens(rows, first)
    asked = scoring_prompts(choices)
    found = total_logprobs(choices, asked, map(told, asked))

    assert found == pytest.approx([by_hand(row, first) for row in rows])


def test_more_choices_than_an_engine_takes_at_once_are_asked_in_several_readings() -> None:
    choices = tokens([(7, number) for number in range(vllm_model.MOST_NEXTS + 2)], 1)
    asked = scoring_prompts(choices)

    assert [len(each.nexts) for each in asked] == [vllm_model.MOST_NEXTS, 2]
    found = total_logprobs(choices, asked, map(told, asked))
    assert found == [by_hand(row, 1) for row in choices.rows]


def test_too_few_log_probabilities_of_a_prompt_are_refused() -> None:
    choices = tokens(SPACE_APART, 2)
    asked = scoring_prompts(choices)

    with pytest.raises(ValueError, match="1 log-probabilities of a prompt are needed, got 0"):
        total_logprobs(choices, asked, [([], told(one)[1]) for one in asked])
