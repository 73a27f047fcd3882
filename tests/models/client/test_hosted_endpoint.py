"""What may be told of a server: never its key, never more than a line."""

import pytest
from msgspec import structs
from support.each import each

from harness.errors import ModelError
from harness.models.client.hosted import LONGEST_QUOTE, Endpoint, is_permission_error
from harness.specs.models import OpenAISpec

KEY = "sk-a-key-nobody-may-see"
SPEC = OpenAISpec(model="m", base_url="http://host/v1", key_env="K")
SERVER = Endpoint("https://me:word@host.example:81/v1/?token=t", None, "K", {"K": f" {KEY}\n"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"no such key: {KEY}!", "no such key: [K]!"),
        ("two\nlines\tand \x1b[31mred", "two lines and [31mred"),
        ("a" * 9999, "a" * LONGEST_QUOTE + "..."),
        ("a" * (LONGEST_QUOTE - 5) + KEY, "a" * (LONGEST_QUOTE - 5) + "[K]"),
    ],
)
def test_a_servers_words_are_one_short_line_without_the_key(words: str, told: str) -> None:
    assert SERVER.quote(words) == told


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (f"it is {KEY}, {KEY}", "it is [K], [K]"),
        ({f"a {KEY}": [{"b": KEY}, 1, 0.5, None]}, {"a [K]": [{"b": "[K]"}, 1, 0.5, None]}),
        ([True, "no key"], [True, "no key"]),
    ],
)
def test_what_is_kept_of_a_reply_holds_no_key(body: object, kept: object) -> None:
    assert SERVER.mask(body) == kept


@pytest.mark.parametrize(
    ("key", "is_kept"), [("EMPTY", True), ("password", True), ("pass-word1", False), ("", True)]
)
def test_a_key_that_may_be_a_word_changes_no_answer(key: str, is_kept: bool) -> None:
    server = Endpoint("http://host/v1", None, "K", {"K": key})

    assert (server.mask("EMPTY, a password, pass-word1") != "EMPTY, a password, [K]") == is_kept


@each(
    ("status", "words", "is_right_alone"),
    [
        (403, "no", True),
        (401, "Missing scopes: api.model.read", True),
        (401, "You have insufficient Permissions", True),
        (401, "Incorrect API key provided", False),
        (404, "no permission", False),
    ],
)
def test_a_key_that_lacks_a_right_is_told_from_a_wrong_one(
    status: int, words: str, is_right_alone: bool
) -> None:
    assert is_permission_error(status, words) == is_right_alone


def test_an_address_is_told_without_user_password_and_query() -> None:
    assert SERVER.address == "https://host.example:81/v1"
    assert KEY not in repr(SERVER)


def test_the_environment_names_the_server_if_it_names_one() -> None:
    environ = {"URL": "http://other/v1", "NONE": " "}

    found = Endpoint.of(structs.replace(SPEC, base_url_env="URL"), environ, name="m")
    kept = Endpoint.of(structs.replace(SPEC, base_url_env="NONE"), environ, name="m")

    assert (found.url, kept.url) == ("http://other/v1", "http://host/v1")


def test_a_missing_key_is_an_error_only_when_it_is_needed() -> None:
    server = Endpoint.of(SPEC, {}, name="m")

    with pytest.raises(ModelError, match="the environment variable K is not set"):
        assert server.key


@pytest.mark.parametrize("who", ["me:word", "me", ":word"])
def test_an_address_with_a_user_or_a_password_is_refused_without_telling_it(who: str) -> None:
    with pytest.raises(ModelError, match=r"http://host/v1 holds .*set base_url .*key_env") as told:
        Endpoint.of(structs.replace(SPEC, base_url=f"http://{who}@host/v1"), {}, name="m")

    assert "word" not in str(told.value).replace("password", "")
