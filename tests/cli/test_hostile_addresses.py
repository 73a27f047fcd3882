"""Addresses that are none: one message and exit code 2, before anything is asked."""

import pytest
from support.each import each
from support.toy import Toy

from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint
from harness.specs.models import OpenAISpec

NONE = [
    *("http://[::1", "http://[::1]x", "http://::1/v1", "http://[zz]/v1", "http://[1.2.3.4]/"),
    *("http://h:abc/v1", "http://h:99999/v1", "http://h:-1/", "http://h:1e3/", "http://h:\u0661/"),
    *(f"http://{'a' * 5_000}/v1", f"http://{'a' * 64}.org", "http://a..b/v1", "http://.a/"),
    *("http://h\n/v1", "http://h/v1\r\nX: 1", "http://h/\x00", "http://h/v1\t", "http://h\x1b[2J/"),
    *("http://h h/v1", "http://h/v 1", "http://\u2028/", "http:///v1", "http://:80", "//h/v1"),
    *("h:8000/v1", "ftp://h/", "file:///etc/passwd", "javascript:alert(1)", "unix:///run/x"),
    *(
        f"http://h/{'a' * 70_000}",
        "http://h\\@evil/",
        "http://%zz/",
        "http://-/",
        "\U0001f600",
        "[",
    ),
]


def test_each_kind_of_address_is_seen(toy: Toy) -> None:
    assert len(set(NONE)) == len(NONE)


@each("url", NONE)
def test_what_is_no_address_is_refused(url: str) -> None:
    spec = OpenAISpec(about="a", model="m", base_url=url, key_env=None)

    with pytest.raises(ModelError) as caught:
        Endpoint.of(spec, {}, name="m")
    assert "is no server address; set base_url" in str(caught.value)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


@each("url", ["http://[::1", "http://bob:hush@[::1", "http://h:x/?key=hush", "bob:hush@h"])
def test_an_address_that_cannot_be_read_shows_no_secret(url: str) -> None:
    spec = OpenAISpec(about="a", model="m", base_url=url, key_env=None)

    with pytest.raises(ModelError) as caught:
        Endpoint.of(spec, {}, name="m")
    assert "hush" not in str(caught.value)


@each(
    "url",
    [
        *("http://localhost:8000/v1", "https://api.example.org", "http://[::1]:8000/v1"),
        *("http://127.0.0.1/", "http://b\u00fccher.example/v1", "HTTP://Host_1.lan:80/v1"),
        *("http://[fe80::1]/v1", "http://h./v1", "http://h/a%20b"),
    ],
)
def test_addresses_of_servers_pass(url: str) -> None:
    spec = OpenAISpec(about="a", model="m", base_url=url, key_env=None)

    assert Endpoint.of(spec, {}, name="m").url == url


@pytest.mark.parametrize("url", ["http://[::1", "http://h:abc/v1", f"http://{'a' * 5_000}/v1"])
def test_a_run_ends_in_one_message(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    monkeypatch.setenv("HARNESS_SERVER_URL", url)

    assert toy.run(model="alpha") == 2

    assert "is no server address" in capsys.readouterr().err
