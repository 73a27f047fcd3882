"""What may be told of a server: never its key, never more than a line."""

import pytest

from harness.errors import ModelError
from harness.servers import LONGEST_TOLD, Server

KEY = "sk-a-key-nobody-may-see"
SERVER = Server("https://me:word@host.example:81/v1/?token=t", None, "K", {"K": f" {KEY}\n"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"no such key: {KEY}!", "no such key: [K]!"),
        ("two\nlines\tand \x1b[31mred", "two lines and [31mred"),
        ("a" * 9999, "a" * LONGEST_TOLD + "..."),
        ("a" * (LONGEST_TOLD - 5) + KEY, "a" * (LONGEST_TOLD - 5) + "[K]"),
    ],
)
def test_a_servers_words_are_one_short_line_without_the_key(words: str, told: str) -> None:
    assert SERVER.told(words) == told


def test_an_address_is_told_without_user_password_and_query() -> None:
    assert SERVER.address == "https://host.example:81/v1"
    assert KEY not in repr(SERVER)


def test_the_environment_names_the_server_if_it_names_one() -> None:
    environ = {"URL": "http://other/v1", "NONE": " "}

    found = Server.found("http://host/v1", environ, url_env="URL", key_env=None)
    kept = Server.found("http://host/v1", environ, url_env="NONE", key_env=None)

    assert (found.url, kept.url) == ("http://other/v1", "http://host/v1")


def test_a_missing_key_is_an_error_only_when_it_is_needed() -> None:
    server = Server.found("http://host/v1", {}, url_env=None, key_env="K")

    with pytest.raises(ModelError, match="the environment variable K is not set"):
        assert server.key
