"""JSON of strangers that nests without end: one message and exit code 2, wherever it is read."""

from pathlib import Path

import pytest
from support.toy import Lines, Toy

from harness.cli import main

DEPTH = 100_000


def nested(kind: str = "[") -> str:
    """A value that nests DEPTH deep."""
    return "[" * DEPTH + "]" * DEPTH if kind == "[" else '{"a": ' * DEPTH + "1" + "}" * DEPTH


@pytest.mark.parametrize("key", ["fields", "provenance", "unheard", "id"])
def test_a_sample_that_nests_is_told(toy: Toy, capsys: Lines, key: str) -> None:
    line = f'{{"group": "a", "references": {{}}, "{key}": {nested("{")}}}'
    toy.write("tasks/samples/toy.jsonl", line)
    assert toy.run() == 2

    assert capsys.readouterr().err.splitlines()[-1].startswith("harness: ")


def test_a_run_folder_that_nests_is_damaged(toy: Toy, capsys: Lines) -> None:
    toy.run()
    [folder] = toy.runs()
    text = f'{{"task": {nested("{")}, "sample": {nested()}}}\n'
    (folder / "run.json").write_text(text)

    assert toy.main("read", str(folder)) == 2

    assert "repeat the run" in capsys.readouterr().err


def test_a_stored_call_that_nests_is_a_damaged_record(toy: Toy, capsys: Lines) -> None:
    toy.run()
    [segment] = toy.results.glob("calls/*/*.jsonl")
    line = f'{{"key": "k", "time": 1, "response": {nested()}, "x": {nested()}}}\n'
    segment.write_text(line + segment.read_text("utf-8"), "utf-8")

    assert toy.run() == 2

    assert f"{segment}:1: damaged record" in capsys.readouterr().err


IMPORT = "import {} --task quiz --model alpha"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (IMPORT, '[{{"all_responses": {0}}}]'),
        (IMPORT, '{{"doc_id": 1, "doc": {0}, "arguments": {0}, "resps": {0}, "filter": "none"}}'),
        (
            IMPORT,
            '{{"doc_id": 1, "doc": {{"id": {0}}}, "arguments": [], "resps": [], "filter": "n"}}',
        ),
        (IMPORT, "{0}"),
        (IMPORT, '{{"a": {0}}}'),
        ("run --task hate_speech --model oracle --data {}", '{{"text": "Hello.", "more": {0}}}'),
        (
            "sheet read-ratings {} -o out.csv",
            '[{{"data": {{"sample_id": {0}}}, "annotations": {0}}}]',
        ),
    ],
)
def test_a_file_that_nests_is_told(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: Lines, command: str, text: str
) -> None:
    monkeypatch.chdir(toy.home)  # the home folder of the working folder is used
    path = Path("file.json" if command.startswith("sheet") else "file.jsonl")
    path.write_text(text.format(nested()) + "\n", "utf-8")

    assert main(command.format(path).split()) == 2

    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("harness: ")
    assert ("nests too deep" in said) or "hate_speech" not in command
