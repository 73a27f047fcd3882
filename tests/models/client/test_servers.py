"""Several servers of one model: who gets the calls, what becomes of a dead one; waiting for one."""

import socket
import time
from collections.abc import Sequence
from threading import Thread

import pytest
from support.each import rest_slow
from support.stub_script import Script
from support.stub_server import StubServer

from harness.core import Request, Response
from harness.errors import ModelError, SpecError
from harness.models.client.limiter import FIRST
from harness.models.client.pool import ServerStates
from harness.models.client.retry import RetryPolicy, send_all
from harness.models.openai.model import OpenAIModel
from harness.parts import Decoding, Message
from harness.specs.models import OpenAISpec
from harness.specs.schema import load_spec

KEYS = {"K": "sk-of-the-test-1"}


def model_at(*urls: str, environ: dict[str, str] | None = None, **more: object) -> OpenAIModel:
    """A model behind these servers."""
    given = {"model": "stub-model", "key_env": "K", "base_urls": urls, "concurrency": 8, **more}
    return OpenAIModel("pool", OpenAISpec(**given), KEYS | (environ or {}))  # type: ignore[arg-type]


def asked(model: OpenAIModel, count: int) -> list[Request]:
    """Requests to it."""
    model.resolve()
    words = [(Message("user", f"question {number}"),) for number in range(count)]
    return [Request("s", "base", "answer", model.identity, one, Decoding(0, 8)) for one in words]


def quickly(model: OpenAIModel, requests: Sequence[Request], **policy: float) -> list[Response]:
    """The answers with short waits between attempts."""
    waits = {"first_wait_s": 0.002, "longest_wait_s": 1.0, "aside_s": 0.05, **policy}
    rules = RetryPolicy(concurrency=8, attempts=6, timeout_s=5, **waits)
    return list(send_all(requests, model.connects(), rules))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def requests_of(*stubs: StubServer) -> list[int]:
    return [stub.stats()["requests"] for stub in stubs]


def test_three_servers_get_the_same_number_of_calls() -> None:
    script = Script(delay_s=0.01)
    with StubServer(script) as one, StubServer(script) as two, StubServer(script) as three:
        model = model_at(one.url, two.url, three.url)

        answers = list(model.answer(asked(model, 150)))

        shares = requests_of(one, two, three)
    assert sum(shares) == len(answers) == 150
    assert not any(answer.failure for answer in answers)
    assert min(shares) >= 35


def test_each_server_has_a_limit_of_its_own() -> None:
    with StubServer(Script(delay_s=0.03)) as one, StubServer(Script(delay_s=0.03)) as two:
        model = model_at(one.url, two.url, concurrency=4)

        list(model.answer(asked(model, 60)))

        assert [stub.stats()["in_flight_max"] for stub in (one, two)] == [4, 4]


def test_a_slow_server_gets_less() -> None:
    with StubServer(Script(delay_s=0.4)) as slow, StubServer() as fast:
        model = model_at(slow.url, fast.url)

        list(model.answer(asked(model, 60)))

        few, many = requests_of(slow, fast)
    assert few < many


def test_a_dead_server_is_set_aside_and_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    dead = f"http://127.0.0.1:{free_port()}/v1"
    with StubServer() as alive:
        model = model_at(dead, alive.url)

        answers = quickly(model, asked(model, 100), aside_s=60.0)

        assert requests_of(alive) == [100]
    assert not any(answer.failure for answer in answers)
    [aside] = [record.getMessage() for record in caplog.records if "aside" in record.getMessage()]
    assert aside.startswith(f"{dead}: 5 calls in a row got no reply")
    assert "ssl:" not in aside


def test_a_server_that_was_set_aside_is_tried_with_one_call_by_the_next_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = Script(delay_s=0.05)
    with StubServer(Script(shares={"500": 1.0})) as ill, StubServer(slow) as well:
        model, states = model_at(ill.url, well.url), ServerStates()
        rules = RetryPolicy(8, 6, timeout_s=5, first_wait_s=0.002, aside_s=60.0)
        requests = asked(model, 80)
        first = list(send_all(requests[:40], model.connects(), rules, states))
        failed = ill.stats()["requests"]

        second = list(send_all(requests[40:], model.connects(), rules, states))

        assert ill.stats()["requests"] == failed + 1
    assert states.aside == {ill.url}
    assert not any(answer.failure for answer in (*first, *second))
    # the other one answers: that its calls take longer than many failures is no outage
    warned = [record.getMessage() for record in caplog.records]
    assert [told for told in warned if "in a row" in told and "aside" not in told] == []


def test_the_next_step_begins_with_as_many_calls_at_once_as_a_server_has_borne() -> None:
    with StubServer(Script(delay_s=0.02)) as server:
        model, states = model_at(server.url), ServerStates()
        rules = RetryPolicy(64, 6, timeout_s=5)
        requests = asked(model, 160)
        list(send_all(requests[:80], model.connects(), rules, states))
        borne = states.limiters[server.url].limit

        answers = list(send_all(requests[80:], model.connects(), rules, states))

    assert (borne > FIRST, states.limiters[server.url].limit) == (True, 64)
    assert not any(answer.failure for answer in answers)


def test_a_server_that_comes_back_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    faults = {"": ("500",)}
    with StubServer(Script(faults=faults)) as ill, StubServer(Script(delay_s=0.01)) as well:
        model = model_at(ill.url, well.url)
        requests = asked(model, 200)

        def mend() -> None:
            while "aside" not in caplog.text:
                time.sleep(0.002)
            ill.script = Script()

        mending = Thread(target=mend)
        mending.start()
        answers = quickly(model, requests)
        mending.join()

        assert ill.stats()["answered"] > 10
    assert not any(answer.failure for answer in answers)
    assert f"{ill.url} answers again" in caplog.text


def test_where_all_servers_are_dead_the_outage_ends_the_run() -> None:
    broken = Script(shares={"500": 1.0})
    with StubServer(broken) as one, StubServer(broken) as two:
        model = model_at(one.url, two.url)

        with pytest.raises(ModelError, match="the last 20 requests failed one after the other"):
            quickly(model, asked(model, 200))


def test_no_server_at_any_address_is_told_before_anything_is_asked() -> None:
    model = model_at(*(f"http://127.0.0.1:{free_port()}/v1" for _ in range(2)))

    with pytest.raises(ModelError, match=r"no server at http://127\.0\.0\.1") as caught:
        list(model.answer(asked(model, 3)))
    assert all(server.address in str(caught.value) for server in model.servers)
    assert "set base_urls;" in str(caught.value)
    assert "--wait-for-server SECONDS" in str(caught.value)


def test_a_daily_quota_of_one_server_leaves_the_work_to_the_other() -> None:
    full = Script(shares={"429": 1.0}, retry_after_s=86_400)
    with StubServer(full) as spent, StubServer(Script(delay_s=0.01)) as other:
        model = model_at(spent.url, other.url)

        answers = quickly(model, asked(model, 100))

    assert [answer.failure for answer in answers] == [None] * 100


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (Script(shares={"404": 1.0}), "answered 404"),
        (Script(shares={"401": 1.0}), "check the key in K"),
        (Script(key="another key"), "answered 401"),
        (Script(shares={"400-bad": 1.0}), "others answer what it has refused 5 times in a row"),
    ],
)
@pytest.mark.parametrize("is_first", rest_slow([True, False], kept=1))
def test_a_server_that_refuses_leaves_the_work_to_the_other(
    bad: Script, told: str, is_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with StubServer(bad) as ill, StubServer(Script(delay_s=0.005)) as well:
        urls = (ill.url, well.url) if is_first else (well.url, ill.url)
        model = model_at(*urls, attempts=1)

        answers = list(model.answer(asked(model, 100)))

        assert requests_of(well) == [100]
        assert requests_of(ill)[0] < 40
    assert [answer.failure for answer in answers] == [None] * 100
    [closed] = [text for text in caplog.messages if "only the other servers are asked" in text]
    assert closed.startswith(ill.url)
    assert told in closed


def test_a_server_that_refused_is_not_tried_anew_by_the_next_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with StubServer(Script(key="another key")) as ill, StubServer(Script(delay_s=0.005)) as well:
        model = model_at(ill.url, well.url)
        requests = asked(model, 80)
        first = list(model.answer(requests[:40]))
        refused = ill.stats()["requests"]

        second = list(model.answer(requests[40:]))

        assert requests_of(ill, well) == [refused, 80]
    assert refused > 0
    assert not any(answer.failure for answer in (*first, *second))
    assert len([text for text in caplog.messages if "only the other servers" in text]) == 1


def test_where_the_server_that_is_left_refuses_later_it_ends_the_run() -> None:
    with StubServer(Script(key="another key")) as ill, StubServer() as well:
        model = model_at(ill.url, well.url)
        requests = asked(model, 40)
        assert len(list(model.answer(requests[:20]))) == 20
        well.script = Script(shares={"404": 1.0})

        with pytest.raises(ModelError, match=f"{well.url} answered 404"):
            list(model.answer(requests[20:]))


def test_where_all_servers_refuse_the_model_the_last_one_ends_the_run() -> None:
    with StubServer(Script(shares={"404": 1.0})) as one, StubServer(one.script) as two:
        model = model_at(one.url, two.url)

        with pytest.raises(ModelError, match=r"answered 404: .*check that there is a model"):
            list(model.answer(asked(model, 50)))


def test_what_every_server_refuses_fails_alone_after_one_call_to_each() -> None:
    script = Script(faults={"question 7": ("400-long",) * 9}, delay_s=0.005)
    with StubServer(script) as one, StubServer(script) as two:
        model = model_at(one.url, two.url)
        requests = asked(model, 100)

        answers = {answer.key: answer.failure for answer in model.answer(requests)}

        assert sum(requests_of(one, two)) == 111
    failed = [n for n, request in enumerate(requests) if answers[request.key]]
    assert failed == [7, *range(70, 80)]


def test_the_key_is_masked_whichever_server_tells_it() -> None:
    told = Script(shares={"401": 1.0}, models_status=404)
    with StubServer(told) as one, StubServer(told) as two:
        model = model_at(one.url, two.url)

        with pytest.raises(ModelError, match=r"no such key: \[K\]"):
            list(model.answer(asked(model, 20)))


def test_how_many_servers_there_are_and_where_changes_no_key() -> None:
    near = model_at("http://localhost:8000/v1", "http://localhost:8001/v1")
    far = model_at("http://gpu1:8000/v1", "http://gpu2:8000/v1", "http://gpu3:8000/v1")
    alone = model_at("http://gpu1:8000/v1")

    assert {request.key for m in (near, far, alone) for request in asked(m, 1)} == {
        asked(near, 1)[0].key
    }


def test_a_variable_may_name_several_servers() -> None:
    given = {"SERVERS": "http://a:1/v1, http://b:2/v1"}

    model = model_at(base_url_env="SERVERS", base_url="http://localhost:9/v1", environ=given)

    assert [server.url for server in model.servers] == ["http://a:1/v1", "http://b:2/v1"]
    assert "host=" not in asked(model, 1)[0].model


def test_auto_takes_the_one_model_that_all_servers_list() -> None:
    other = Script(models=({"id": "another"},))
    with StubServer() as one, StubServer() as two, StubServer(other) as three:
        same, mixed = (model_at(one.url, two, model="auto") for two in (two.url, three.url))

        same.resolve()

        assert same.model == "stub-model"
        with pytest.raises(ModelError, match="the id of theirs differs: another, stub-model"):
            mixed.resolve()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"base_url": "http://a/v1", "base_urls": ["http://b/v1"]}, "not both"),
        ({"base_urls": ["http://b/v1", "http://b/v1"]}, "names a server twice"),
    ],
)
def test_servers_that_cannot_be_meant_are_refused(keys: dict[str, object], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        load_spec({"kind": "openai", "model": "m", **keys}, OpenAISpec, where="m.yaml")


def test_a_server_that_starts_late_is_waited_for() -> None:
    port = free_port()
    model = model_at(f"http://127.0.0.1:{port}/v1", model="auto")
    model.patience_s = 20

    def later() -> None:
        time.sleep(0.2)
        with StubServer(port=port) as stub:
            while stub.stats()["requests"] < 3:
                time.sleep(0.01)

    starting = Thread(target=later)
    starting.start()
    answers = list(model.answer(asked(model, 3)))
    starting.join()

    assert [answer.failure for answer in answers] == [None] * 3


def test_a_server_that_never_starts_is_given_up_in_time() -> None:
    model = model_at(f"http://127.0.0.1:{free_port()}/v1")
    requests = asked(model, 3)
    model.patience_s = 0.2

    with pytest.raises(ModelError, match=r"answered within 0\.2 s: .* --wait-for-server"):
        list(model.answer(requests))
