"""The rule by hand: tokens written out as pieces of text, or as the offsets a tokenizer gives."""

import pytest
from support.each import each

from harness.models.boundary import choice_starts

Spans = list[tuple[int, int]]


def spans(pieces: str) -> Spans:
    found: Spans = []
    for piece in pieces.split("|"):
        start = found[-1][1] if found else 0
        found.append((start, start + len(piece)))
    return found


@each(
    ("context", "rows", "first", "spanned"),
    [
        ("Answer:", ["Answer|:| 1", "Answer|:| He| is"], 2, 0),
        ("Answer: ", ["Answer|:| 1", "Answer|:| 2"], 2, 1),
        ("She is un", ["She| is| un|able", "She| is| unhappy"], 2, 3),
        ("abcd", ["a|bc|dx", "a|b|cd|y"], 1, 3),
        ("abcdef", ["a|b|cd|ef|x", "a|bc|de|fy", "a|b|c|d|e|f|z"], 1, 5),
        ("So:", ["So|:| He| wants| tea", "So|:| He| wants| tea| now"], 2, 0),
        *(("So:", ["So|:| tea", "So|:| tea"], 2, 0), ("a", ["ab", "ac"], 0, 1)),
        *(("", ["1", "2|3"], 0, 0), ("Answer: ", ["Answer|:| 1"], 2, 1)),
        ("Answer:\n", ["Answer|:\n|1", "Answer|:\n\n|He"], 1, 2),
    ],
)
def test_choices_begin_behind_the_last_tokens_that_all_of_them_share(
    context: str, rows: list[str], first: int, spanned: int
) -> None:
    starts = choice_starts([spans(row) for row in rows], len(context))
    assert starts == ((first,) * len(rows), spanned)
    assert len({tuple(row.split("|")[:first]) for row in rows}) == 1


@each(
    ("offsets", "boundary", "first", "spanned"),
    [
        *(([(0, 6), (6, 7), (8, 9)], 7, 2, 0), ([(0, 6), (6, 7), (8, 9)], 8, 2, 1)),
        *(([(0, 6), (8, 8), (8, 9)], 6, 1, 0), ([(0, 1), (1, 2), (1, 2), (1, 2)], 1, 1, 0)),
        ([(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)], 2, 4, 0),
        *(([(0, 1), (1, 2), (1, 3)], 2, 1, 1), ([(0, 1), (1, 3), (2, 3), (2, 3)], 2, 1, 1)),
        *(([(0, 0), (0, 1)], 0, 1, 0), ([(0, 3), (3, 4), (3, 4)], 3, 1, 0)),
    ],
)
def test_no_character_is_split_whatever_offsets_leave_out_or_repeat(
    offsets: Spans, boundary: int, first: int, spanned: int
) -> None:
    assert choice_starts([offsets], boundary) == ((first,), spanned)


def test_choices_begin_where_their_tokens_differ_though_offsets_do_not() -> None:
    # "e" and "s", and "e" with an accent that opens the choice: one token, said to end before it.
    offsets = [[(0, 1), (1, 2)], [(0, 1), (2, 3)]]
    assert choice_starts(offsets, 1, tokens=["es", "\u00e9s"]) == ((0, 0), 1)


def test_a_choice_without_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match="no token ends beyond character 7"):
        choice_starts([spans("Answer|:| 1"), spans("Answer|:")], 7)
