"""Replies of hosted models: several as one, and those that hold no answer."""

from collections.abc import Sequence

import pytest

from harness.core import Request, Response
from harness.models.client.replies import no_answer
from harness.models.client.retry import merge
from harness.parts import Decoding, Message, Reason, Usage

ASKED = Request("s", "base", "answer", "m", (Message("user", "Hello"),), Decoding(n=3))


def reply(text: str, stop: str = "stop", usage: Usage | None = None) -> Response:
    return Response(ASKED.key, (text,), stop=stop, usage=usage or Usage(2, 5), served="m-1")


REFUSED = no_answer(ASKED, Reason.REFUSED, "no", usage=Usage(2, 1), served="m-1")
LOST = no_answer(ASKED, Reason.FAILED, "gone", usage=Usage(2, 1), served="m-1")


@pytest.mark.parametrize(
    ("counts", "whole"), [((1, 2, 3), 6), ((1, None, 3), None), ((None, None, None), None)]
)
def test_tokens_of_reasoning_add_up_where_each_reply_says_them(
    counts: tuple[int | None, ...], whole: int | None
) -> None:
    replies = [reply("a", usage=Usage(2, 5, reasoning_tokens=count)) for count in counts]

    assert merge(ASKED, replies).usage == Usage(6, 15, reasoning_tokens=whole)


@pytest.mark.parametrize(
    ("replies", "why"),
    [((REFUSED, REFUSED), "no"), ((reply("a"), LOST), "gone"), ((REFUSED, LOST), "gone")],
)
def test_without_any_answer_or_where_a_reply_never_came_all_are_one_failure(
    replies: Sequence[Response], why: str
) -> None:
    whole = merge(ASKED, replies)

    assert (whole.texts, whole.lost, whole.stop) == (None, (), None)
    assert whole.failure is not None
    assert whole.failure.message == why
