"""What a server says a call has used: never less than nothing, never more than any call can."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.batch_bench import Bench, Kind
from support.batch_bench import request as asked
from support.each import each
from support.hosted import Api, hosted
from support.hostile import Change, HostileServer
from support.toy import PRICES, Toy

from harness.cli import main
from harness.core import Response
from harness.models.client.cached import Budget
from harness.parts import Mode, Usage

ABSURD = [-1, -90_000, 10**9 + 1, 10**30, 2**64, True, 7.0, 0.5, float("nan"), float("inf"), "12"]
ABSURD += [[3], {"count": 3}]
FIELDS: dict[Api, tuple[str, str]] = {
    "chat": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
}
UNTOLD = Usage()


def answered(
    api: Api,
    field: str,
    values: Sequence[object],
    **changes: Any,  # noqa: ANN401 - of a request
) -> list[Response]:
    left = iter(values)
    with HostileServer(lambda body: told(field, next(left))(body)) as stub:
        hostile = hosted(api, stub.url, key_env=None, attempts=1)
        hostile.resolve()
        return list(hostile.answer(asked(f"words {at}", **changes) for at in range(len(values))))


def told(field: str, value: object) -> Change:
    return lambda body: body | {"usage": body["usage"] | {field: value}}


@each(("api", "at"), [(api, at) for api in FIELDS for at in (0, 1)])
def test_an_absurd_count_of_tokens_is_untold_and_the_answer_stays(api: Api, at: int) -> None:
    found = answered(api, FIELDS[api][at], ABSURD)
    embedded = answered("chat", "prompt_tokens", ABSURD, mode=Mode.EMBED)

    assert [response.usage for response in found if response.texts] == [UNTOLD] * len(ABSURD)
    assert [r.usage.prompt_tokens for r in embedded if r.vectors] == [None] * len(ABSURD)


@each(
    ("api", "details"),
    [("chat", "completion_tokens_details"), ("responses", "output_tokens_details")],
)
def test_an_absurd_count_of_reasoning_is_untold_alone(api: Api, details: str) -> None:
    values = [{"reasoning_tokens": value} for value in (-5, 10**10, True, 1.0, "3")]
    usages = [response.usage for response in answered(api, details, values)]
    assert [(usage.is_known, usage.reasoning_tokens) for usage in usages] == [(True, None)] * 5


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_an_absurd_count_in_a_batch_is_untold(kind: Kind, tmp_path: Path) -> None:
    fields = FIELDS["chat" if kind == "openai" else kind]
    with HostileServer(told(fields[1], -(10**6))) as stub:
        [response] = Bench(kind, stub, tmp_path).answers([asked("words")]).values()

    assert response.texts is not None
    assert response.usage == UNTOLD


def test_no_cost_below_zero_is_given_back_to_a_budget() -> None:
    budget = Budget(1.0)
    budget.record_stored("a", -5.0)
    budget.record("b", -5.0)
    budget.record("c", float("nan"))

    assert budget.spent_usd == 0.0


def test_a_run_with_negative_tokens_ends_and_says_no_cost_and_so_does_the_leaderboard(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.write("configs/prices.yaml", PRICES)
    with HostileServer(told("prompt_tokens", -900_000)) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        code = toy.run("--variant", "base", "--budget", "5", model="alpha")

    assert code == 0
    assert main(["leaderboard", "--results", str(toy.results)]) == 0
    assert toy.main("show", toy.runs()[0].name) == 0
    assert "cost: -" not in (shown := capsys.readouterr().out)
    assert '"cost_usd": -' not in shown
