"""A server that is not there; what a later step knows of it."""

import socket

import pytest
from support.stub_script import Script
from support.stub_server import StubServer

from harness.core import Request
from harness.errors import ModelError
from harness.models.openai.model import OpenAIModel
from harness.parts import UNCHARGED, Decoding, Message
from harness.specs.models import OpenAISpec


def model_at(url: str, **more: object) -> OpenAIModel:
    given = {"model": "stub-model", "key_env": None, "base_url": url, "concurrency": 8, **more}
    return OpenAIModel("mine", OpenAISpec(**given), {})  # type: ignore[arg-type]


def asked(model: OpenAIModel, count: int) -> list[Request]:
    model.resolve()
    words = [(Message("user", f"question {number}"),) for number in range(count)]
    return [Request("s", "base", "answer", model.identity, one, Decoding(0, 8)) for one in words]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def test_a_server_that_only_fails_ends_the_run_soon() -> None:
    with StubServer(Script(shares={"500": 1.0})) as server:
        model = model_at(server.url, attempts=1)
        with pytest.raises(ModelError, match="the last 20 requests failed one after the other"):
            list(model.answer(asked(model, 200)))

        assert server.stats()["requests"] < 40


@pytest.mark.slow
def test_fewer_calls_are_in_flight_after_a_server_rejected_many() -> None:
    in_flight: dict[int, int] = {}

    def reply(prompt: str) -> str:
        in_flight[int(prompt.split()[1])] = server.stats()["in_flight"]
        return "yes"

    rejected = Script(faults={"question 3": ("429",)}, delay_s=0.05)  # 300 to 399, and a few before
    with StubServer(rejected, reply=reply) as server:
        model = model_at(server.url, concurrency=64)
        found = list(model.answer(asked(model, 500)))

    assert [response.texts for response in found] == [("yes",)] * 500
    before, after = (max(in_flight[n] for n in range(*ends)) for ends in ((200, 300), (450, 500)))
    assert after <= 40 < before <= 64


def test_no_server_at_the_address_is_said_before_anything_is_asked() -> None:
    model = model_at(f"http://127.0.0.1:{free_port()}/v1")

    with pytest.raises(
        ModelError, match=r"no server at http://127\.0\.0\.1.*set base_url$"
    ) as caught:
        list(model.answer(asked(model, 3)))
    assert "ssl" not in str(caught.value)


def test_a_call_that_reaches_no_server_costs_nothing() -> None:
    model = model_at(f"http://127.0.0.1:{free_port()}/v1", attempts=1)
    model._is_checked = True
    [response] = model.answer(asked(model, 1))

    assert response.usage == UNCHARGED
    assert "no reply (Cannot connect to host 127.0.0.1:" in str(response.failure)
