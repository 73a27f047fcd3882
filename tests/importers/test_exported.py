"""Runs in Parquet: imported again to the same bytes, or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Toy

from harness.cli import main
from harness.importers.exported import import_run
from harness.storage.runs import RunFolder, read_table

NAMES = ("run.json", "samples.jsonl", "scores.csv", "items.csv", "SHA256SUMS")
Said = dict[bytes, bytes]


def exported(toy: Toy) -> tuple[RunFolder, Path]:
    """The run of a toy, and its file of Parquet."""
    [folder] = toy.runs()
    out = toy.folder / "x.parquet"
    assert main(["export", "parquet", str(folder), "-o", str(out)]) == 0
    return RunFolder(folder), out


def changed(path: Path, change: Callable[[dict[str, list[Any]], Said], None]) -> Path:
    """A file whose columns, or what it says of them, were changed."""
    table = parquet.read_table(path)
    columns, said = table.to_pydict(), dict(table.schema.metadata)
    change(columns, said)
    made = pyarrow.Table.from_pydict(columns, table.schema).replace_schema_metadata(said)
    parquet.write_table(made, path)
    return path


@pytest.mark.parametrize("task", ["toy", "quiz"])
def test_a_run_in_parquet_is_imported_to_the_same_bytes(
    toy: Toy, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = {"number 3": ("500",) * 9, "number 4": ("truncate", "ok")}
    with StubServer(Script(replies={"Judge": ("1",)}, faults=faults)) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        words = ["--model", "random"]
        if task == "toy":
            words = ["--model", "alpha", "--judge", "choice,near"]
        code = toy.main("run", "--task", task, *words)
    folder, path = exported(toy)

    for _ in range(2):
        assert main(["import", str(path), "--results", str(toy.folder / "other")]) == code

    other = toy.folder / "other" / folder.path.relative_to(toy.results)
    assert {name: (other / name).read_bytes() for name in NAMES} == {
        name: (folder.path / name).read_bytes() for name in NAMES
    }


def test_a_run_whose_answers_or_names_were_changed_is_refused_and_not_written(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    def other_answer(columns: dict[str, list[Any]], said: Said) -> None:
        columns["answer"][0] = "yes"

    def fewer(columns: dict[str, list[Any]], said: Said) -> None:
        for cells in columns.values():
            cells.pop()

    def no_steps(columns: dict[str, list[Any]], said: Said) -> None:
        columns["steps"][0] = None

    def far_away(columns: dict[str, list[Any]], said: Said) -> None:
        said[b"harness.run.json"] = said[b"harness.run.json"].replace(b'"oracle"', b'"../../x"')

    def no_run(columns: dict[str, list[Any]], said: Said) -> None:
        said[b"harness.run.json"] = b"{}"

    toy.run("--judge", "near", "--variant", "base")
    for change, fact in (
        (other_answer, "its 12 answers are not those that were exported"),
        (fewer, "its 11 answers are not those that were exported"),
        (no_steps, "rows 1 to 12: no answers as `export parquet` writes them"),
        (far_away, "its run.json names another run than it is of"),
        (no_run, "its run.json is damaged"),
    ):
        path = changed(exported(toy)[1], change)
        assert main(["import", str(path), "--results", str(toy.folder / "other")]) == 2
        assert fact in capsys.readouterr().err
    assert not (toy.folder / "other").exists()


def test_a_run_does_not_replace_the_same_one_with_other_verdicts(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run("--variant", "base")
    folder, path = exported(toy)
    (folder.path / "samples.jsonl").write_text("")

    assert toy.main("import", str(path)) == 2

    assert "the same run with other answers or verdicts" in capsys.readouterr().err


def test_a_run_of_another_version_is_scored_by_this_one(toy: Toy) -> None:
    def earlier(columns: dict[str, list[Any]], said: Said) -> None:
        said[b"harness.run.json"] = said[b"harness.run.json"].replace(b'"0.2.0"', b'"0.1.9"')
        said[b"harness.samples.jsonl"] = b"of other keys"

    toy.run("--variant", "base")
    folder, path = exported(toy)

    done = import_run(toy.folder / "other", changed(path, earlier))

    assert read_table(done.folder.scores) == read_table(folder.scores)


def test_a_table_of_answers_in_parquet_is_read_by_a_map(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run("--variant", "base")
    _, path = exported(toy)
    parquet.write_table(parquet.read_table(path).replace_schema_metadata(None), path)
    drawn = "only: {column: decoding, value: T0}\nanswer: {kind: text, column: answer}\n"
    sample = "sample: {id: sample.id}\nvariant: {column: variant}\n"
    spec = toy.write("map.yaml", f"about: Records.\nformat: parquet\n{sample}{drawn}")
    words = ("import", str(path), "--task", "toy", "--model", "mine")

    assert toy.main(*words) == 2
    assert "format: parquet" in capsys.readouterr().err
    assert toy.main(*words, "--map", str(spec)) == 0

    [made] = toy.results.glob("runs/toy/mine/*")
    row, *_ = read_table(made / "scores.csv")
    assert (row.score.value, row.score.n) == (1.0, 6)


def test_options_that_a_run_has_or_other_answers_need_are_named(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run("--variant", "base")
    _, path = exported(toy)

    assert toy.main("import", str(path), "--task", "toy", "--model", "mine") == 2
    assert "leave out --task, --model and --map" in capsys.readouterr().err
    assert toy.main("import", "docs/examples/option_probabilities.csv", "--task", "quiz") == 2
    assert "say --task and --model" in capsys.readouterr().err
