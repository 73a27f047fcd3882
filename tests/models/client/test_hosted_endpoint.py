"""What may be told of a server: never its key, never more than a line."""

import json

import pytest
from msgspec import structs
from support.each import each

from harness.errors import ModelError
from harness.models.client.endpoint import LONGEST_QUOTE, Endpoint
from harness.specs.models import AnthropicSpec, ModerationSpec, OpenAISpec

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
    assert SERVER.read(json.dumps(body).encode()) == kept


@pytest.mark.parametrize(
    ("key", "is_kept"), [("EMPTY", True), ("password", True), ("pass-word1", False), ("", True)]
)
def test_a_key_that_may_be_a_word_changes_no_answer(key: str, is_kept: bool) -> None:
    server = Endpoint("http://host/v1", None, "K", {"K": key})
    assert (server.read(b'"EMPTY, a password, pass-word1"') != "EMPTY, a password, [K]") == is_kept


def test_an_address_is_reported_without_user_password_and_query() -> None:
    assert SERVER.address == "https://host.example:81/v1"
    assert KEY not in repr(SERVER)


def test_the_environment_names_the_server_if_it_names_one() -> None:
    environ = {"URL": "http://other/v1", "NONE": " "}
    found = Endpoint.of(structs.replace(SPEC, base_url_env="URL"), environ, name="m")
    kept = Endpoint.of(structs.replace(SPEC, base_url_env="NONE"), environ, name="m")

    assert (found.url, kept.url) == ("http://other/v1", "http://host/v1")


BAD = [
    *("http://[::1", "http://[::1]x/v1", "http://::1/v1", "http://[zz]/v1", "http://[1.2.3.4]/"),
    *("http://h:abc/v1", "http://h:99999/v1", "http://h:-1/", "http://h:1e3/", "http://h:\u0661/"),
    *(f"http://{'a' * 5_000}/v1", f"http://{'a' * 64}.org", "http://a..b/v1", "http://.a/"),
    *(
        *("http://h\n/v1", "http://h/v1\r\nX: 1", "http://h/\x00", "http://h\tx/v1"),
        "http://h\x1b[2J/",
    ),
    *("http://h h/v1", "http://h/v 1", "http://\u2028/", "http:///v1", "http://:80", "//h/v1"),
    *("h:8000/v1", "ftp://h/", "file:///etc/passwd", "javascript:alert(1)", "http://h:0/v1", "["),
    *(f"http://h/{'a' * 70_000}", "http://h\\@evil/", "http://%zz/", "http://-/", "\U0001f600"),
    *("http://me:word@[::1", "http://me:word@h:x/v1?token=word", "me:word@h", "http://\u202eh/v1"),
]
BAD += [f"http://{who}@host/v1" for who in ("me:word", "me", ":word")]
ENDS = ["?key=word", "?word", "#word", "/?", "?", "/v1;a?b=word&c", "#"]
BAD += [f"http://h/v1{end}" for end in ENDS]


@each("url", BAD)
@pytest.mark.parametrize("is_own", [True, False])
def test_an_address_that_is_none_or_more_is_a_mistake_in_one_line(url: str, is_own: bool) -> None:
    changes = {"base_url_env": "URL"} if is_own else {"base_url": url}
    with pytest.raises(ModelError) as told:
        Endpoint.of(structs.replace(SPEC, **changes), {"URL": url}, name="m")

    message = str(told.value)
    assert "set base_url" in message
    assert "key_env" in message
    assert "word" not in message.replace("a password", "")
    assert message.isprintable()
    assert len(message) < 700


@each(
    "key",
    [
        *(
            *("sk-proj-AbCd1234", "sk-ant-api03-xyz_1", "hf_AbCdEfGhIjKlMnOp"),
            "gsk_abc123def456ghi789",
        ),
        *("AIzaSyD1234567890abcdefg", "xai-0123456789", "AKIAIOSFODNN7EXAMPLE", "Bearer abc.def"),
        *("0123456789abcdef0123456789abcdef", "deadbeefcafe0123deadbeefcafe0123", "k" * 200, "k y"),
    ],
)
def test_a_key_written_as_key_env_is_never_reported(key: str) -> None:
    message = ""
    try:
        spec = OpenAISpec(model="m", base_url="http://h/v1", key_env=key)
        _ = Endpoint.of(spec, {}, name="mine").key
    except (ValueError, ModelError) as error:
        message = str(error)

    assert "key_env" in message
    assert key not in message


@each("kind", [OpenAISpec, AnthropicSpec, ModerationSpec])
def test_no_kind_of_server_takes_a_key_for_a_variable(kind: type[OpenAISpec]) -> None:
    with pytest.raises(ValueError, match="never write the key itself") as told:
        kind(model="m", key_env="sk-planted-271828")
    assert "271828" not in str(told.value)


@each("name", ["OPENAI_API_KEY", "MY_KEY", "K", "HF_TOKEN", "OPENROUTER_API_KEY", "KEY_2"])
def test_a_usual_variable_is_named_where_it_is_not_set(name: str) -> None:
    server = Endpoint.of(structs.replace(SPEC, key_env=name), {}, name="m")
    with pytest.raises(ModelError, match=f"variable {name} is not set"):
        _ = server.key


@each(
    "url",
    [
        *("http://localhost:8000/v1", "https://api.example.org", "http://[::1]:8000/v1"),
        *("http://127.0.0.1/", "http://b\u00fccher.example/v1", "HTTP://Host_1.lan:80/v1"),
        *("http://[fe80::1]/v1", "http://h./v1", "http://h/a%20b"),
    ],
)
def test_addresses_of_servers_pass(url: str) -> None:
    assert Endpoint.of(structs.replace(SPEC, base_url=url), {}, name="m").url == url
