"""JSON of strangers that nests without end: one message and exit code 2, wherever it is read."""

from pathlib import Path

import pytest
from support.toy import Lines, Toy

from harness.cli import main

DEPTHS = (150, 100_000)


def nested(depth: int, kind: str = "[") -> str:
    """A value that nests so deep."""
    return "[" * depth + "]" * depth if kind == "[" else '{"a": ' * depth + "1" + "}" * depth


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("key", ["fields", "provenance", "unheard", "id"])
def test_a_sample_that_nests_is_told(toy: Toy, capsys: Lines, *, depth: int, key: str) -> None:
    line = f'{{"group": "a", "references": {{}}, "{key}": {nested(depth, "{")}}}'
    toy.write("tasks/samples/toy.jsonl", line)

    assert toy.run() == 2

    assert capsys.readouterr().err.splitlines()[-1].startswith("harness: ")


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_table_whose_cells_nest_is_told(tmp_path: Path, capsys: Lines, depth: int) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(f'{{"text": "Hello.", "more": {nested(depth)}}}\n', "utf-8")

    code = main(["run", "--task", "hate_speech", "--model", "oracle", "--data", str(path)])

    assert code == 2
    assert "nests more than 100 deep" in capsys.readouterr().err


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_run_folder_that_nests_is_damaged(toy: Toy, capsys: Lines, depth: int) -> None:
    toy.run()
    [folder] = toy.runs()
    (folder / "run.json").write_text(
        f'{{"task": {nested(depth, "{")}, "sample": {nested(depth)}}}\n'
    )

    assert toy.main("read", str(folder)) == 2

    assert "repeat the run" in capsys.readouterr().err


@pytest.mark.parametrize("depth", [100_000])
def test_a_stored_call_that_nests_is_a_damaged_record(toy: Toy, capsys: Lines, depth: int) -> None:
    toy.run()
    [segment] = toy.results.glob("calls/*/*.jsonl")
    line = f'{{"key": "k", "time": 1, "response": {nested(depth)}, "x": {nested(depth)}}}\n'
    segment.write_text(line + segment.read_text("utf-8"), "utf-8")

    assert toy.run() == 2

    assert f"{segment}:1: damaged record" in capsys.readouterr().err


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "text",
    [
        '[{{"all_responses": {0}}}]',
        '{{"doc_id": 1, "doc": {0}, "arguments": {0}, "resps": {0}, "filter": "none"}}',
        '{{"doc_id": 1, "doc": {{"id": {0}}}, "arguments": [], "resps": [], "filter": "none"}}',
        "{0}",
        '{{"a": {0}}}',
    ],
)
def test_an_import_that_nests_is_told(toy: Toy, capsys: Lines, *, depth: int, text: str) -> None:
    path = toy.folder / "log.jsonl"
    path.write_text(text.format(nested(depth)), "utf-8")

    assert toy.main("import", str(path), "--task", "quiz", "--model", "alpha") == 2

    assert capsys.readouterr().err.splitlines()[-1].startswith("harness: ")


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_export_of_ratings_that_nests_is_told(tmp_path: Path, capsys: Lines, depth: int) -> None:
    path = tmp_path / "export.json"
    text = f'[{{"data": {{"sample_id": {nested(depth)}}}, "annotations": {nested(depth)}}}]'
    path.write_text(text, "utf-8")
    out = ["-o", str(tmp_path / "out.csv")]

    assert main(["sheet", "read-ratings", str(path), *out]) == 2

    assert capsys.readouterr().err.splitlines()[-1].startswith("harness: ")
