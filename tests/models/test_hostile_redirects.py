"""A server that sends calls on to another one: nothing is sent there, and its name is told."""

import re
from pathlib import Path

import pytest
from support.batch_bench import Bench, Kind
from support.batch_bench import request as asked
from support.each import each
from support.hosted import KEY, hosted
from support.hostile import Heard, HostileServer, Listener, right
from support.sketches import resolved
from support.stub_script import Reply
from support.toy import Lines, Toy

from harness.core import Model
from harness.errors import ModelError
from harness.parts import Mode

STATUSES = [301, 302, 303, 307, 308]
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "embeddings": "/v1/embeddings",
    "echo": "/v1/completions",
}


def model(api: str, url: str) -> Model:
    if api in ("embeddings", "echo"):
        return hosted("chat", url, choices="echo" if api == "echo" else "none")
    return hosted(api, url)  # type: ignore[arg-type]  # an Api


@pytest.mark.parametrize(("api", "path"), PATHS.items())
@each("status", [302, 307])
def test_a_redirect_is_refused_whatever_is_asked(api: str, path: str, status: int) -> None:
    with Listener(right) as other:

        def send_on(heard: Heard) -> Reply:
            target = f"{other.url}/chat/completions/{KEY}?k=v".replace("://", "://me:word@")
            return Reply(status, b"", {"Location": target}) if heard.path == path else right(heard)

        with Listener(send_on) as server:
            mode = {"embeddings": Mode.EMBED, "echo": Mode.CHOOSE}.get(api, Mode.GENERATE)
            choices = (" one", " two") if api == "echo" else ()
            asking = asked("words", mode=mode, choices=choices)
            with pytest.raises(ModelError) as told:
                list(resolved(model(api, server.url)).answer([asking]))

    assert other.heard == []
    message = str(told.value)
    assert f"answered {status} and sends calls on to {other.url}/chat/completions" in message
    assert ("word@" in message, KEY in message) == (False, False)
    assert "set base_url" in message


@each("status", STATUSES)
def test_a_redirect_of_the_list_of_models_is_refused(status: int) -> None:
    with Listener(right) as other:
        away = Reply(status, b"", {"Location": f"{other.url}/models"})
        with Listener(lambda _: away) as server, pytest.raises(ModelError, match="sends calls on"):
            list(resolved(model("chat", server.url)).answer([asked("words")]))

    assert other.heard == []


@each("target", ["", "//", "/v1/elsewhere", "ftp://x/y", "http://[::1", "\x7f"])
def test_a_redirect_to_nowhere_is_refused_as_well(target: str) -> None:
    away = Reply(307, b"", {"Location": target} if target else {})
    with Listener(lambda _: away) as server, pytest.raises(ModelError, match="sends calls on to"):
        list(resolved(model("anthropic", server.url)).answer([asked("words")]))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("what", ["POST", "GET"])
def test_a_redirect_of_a_batch_is_refused(kind: Kind, what: str, tmp_path: Path) -> None:
    with Listener(right) as other:

        def send_on(heard: str, reply: Reply) -> Reply:
            is_meant = "batches" in heard and heard.startswith(what)
            return Reply(307, b"", {"Location": f"{other.url}/batches"}) if is_meant else reply

        with HostileServer(aside=send_on) as server, pytest.raises(ModelError) as told:
            Bench(kind, server, tmp_path).answers([asked("words")])

    assert other.heard == []
    assert f"sends calls on to {other.url}/batches" in str(told.value)


def test_results_of_a_batch_are_fetched_from_the_server_alone(tmp_path: Path) -> None:
    with Listener(right) as other:

        def point_away(heard: str, reply: Reply) -> Reply:
            away = f'"results_url": "{other.url}/results"'.encode()
            body = re.sub(rb'"results_url": "[^"]*"', away, reply.body, count=1)
            return Reply(reply.status, body, reply.headers)

        with HostileServer(aside=point_away) as server:
            [response] = Bench("anthropic", server, tmp_path).answers([asked("words")]).values()

    assert response.texts
    assert other.heard == []


def test_a_run_that_is_sent_on_ends_in_one_message(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Reply(308, b"", {"Location": "https://mirror.example/v1/chat/completions"})
    with Listener(lambda heard: right(heard) if heard.method == "GET" else away) as server:
        monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
        assert toy.run("--variant", "base", model="alpha") == 2

    assert "sends calls on to https://mirror.example/v1" in (err := capsys.readouterr().err)
    assert "Traceback" not in err
