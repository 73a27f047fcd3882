"""Models with a key in place of its variable, or with no address: told, the key unseen."""

import pytest
from support.each import each
from support.toy import Lines, Toy

KEYS = ["sk-live-2718281828", "hf_Abcdefghijklmn", "deadbeefcafe0123deadbeef"]


@each("key", KEYS)
@each(
    "arguments",
    [
        ["run", "--task", "toy", "--model", "mine"],
        ["run", "--task", "toy", "--model", "mine", "--dry-run"],
        ["run", "--task", "toy", "--model", "oracle", "--judge", "choice/mine"],
        *(["check", "model", "mine"], ["list", "models"], ["show", "mine"]),
        ["show", "models", "mine"],
    ],
)
def test_a_key_in_key_env_is_hidden(
    toy: Toy, capsys: Lines, key: str, arguments: list[str]
) -> None:
    text = f"kind: openai\nmodel: m\nbase_url: http://127.0.0.1:9/v1\nkey_env: {key}\n"
    toy.write("configs/models/mine.yaml", text)

    assert toy.main(*arguments) != 70

    out, err = capsys.readouterr()
    assert out + err != ""
    assert key not in out + err


@pytest.mark.parametrize("url", ["http://[::1", "http://h:abc/v1", f"http://{'a' * 5_000}/v1"])
def test_a_wrong_address_is_told_once(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: Lines, url: str
) -> None:
    monkeypatch.setenv("HARNESS_SERVER_URL", url)
    assert toy.run(model="alpha") == 2
    assert "is no server address" in capsys.readouterr().err
