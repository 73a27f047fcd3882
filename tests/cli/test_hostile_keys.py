"""A key that was written where the name of its variable belongs is not put on any screen."""

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
        ["check", "model", "mine"],
        ["list", "models"],
        ["show", "mine"],
        ["show", "models", "mine"],
    ],
)
def test_a_key_as_key_env_is_hidden(
    toy: Toy, capsys: Lines, key: str, arguments: list[str]
) -> None:
    text = f"kind: openai\nmodel: m\nbase_url: http://127.0.0.1:9/v1\nkey_env: {key}\n"
    toy.write("configs/models/mine.yaml", text)

    assert toy.main(*arguments) != 70

    out, err = capsys.readouterr()
    assert out + err != ""
    assert key not in out + err
