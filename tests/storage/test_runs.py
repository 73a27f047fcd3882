"""Run folders: the same bytes twice, whole files or none, found by what people type."""

import csv
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import nextafter, pi
from pathlib import Path
from time import sleep

import pytest
from support.each import each
from support.sketches import HOSTILE, lost, right, row, run_file

from harness.core import Score
from harness.errors import StoreError
from harness.parts import Reason
from harness.storage.files import write_new, write_whole
from harness.storage.find_runs import run_folders
from harness.storage.run_tables import RunTables, StepRecord
from harness.storage.runs import COLUMNS, RunFolder, ScoreRow, read_table, table_text
from harness.storage.tables import write_named

DIGEST = "4f2a" + "0" * 12
ROWS = [
    row(right(1.0, margin=0.1 + 0.2)),
    row(lost(Reason.REFUSED), "s2", answer=None, served="m-2024"),
    row(right(0.0), "s3", steps=(StepRecord("response", "k", (), reason=Reason.EMPTY, note="-"),)),
]

BARE = [replace(one, steps=tuple(replace(step, messages=()) for step in one.steps)) for one in ROWS]
"""The same as it is read: prompts are in the ledger."""
TABLES = ("samples.parquet", "answers.parquet", "verdicts.parquet")


def made(results: Path, *names: str) -> list[Path]:
    paths = [results / "runs" / "toy" / f"model{n}" / name for n, name in enumerate(names)]
    for path in paths:
        RunFolder(path).write(run_file(), [])
    return paths


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "run")
    folder.write(run_file(3), ROWS)

    assert (replace(folder.read(), tables={}), folder.read_rows()) == (run_file(3), BARE)
    assert folder.scores == tmp_path / "deep" / "run" / "scores.csv"


def test_writing_what_was_read_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "first"), RunFolder(tmp_path / "second")
    first.write(run_file(3), ROWS)
    second.write(first.read(), first.read_rows())

    for name in ("run.json", *TABLES):
        assert (second.path / name).read_bytes() == (first.path / name).read_bytes()


def test_the_order_in_which_verdicts_came_changes_no_digest(tmp_path: Path) -> None:
    verdicts = {"near": right(1.0, a=1.0, b=2.0), "far": lost(Reason.EMPTY)}
    other = {"far": lost(Reason.EMPTY), "near": right(1.0, b=2.0, a=1.0)}
    folders = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")

    folders[0].write(run_file(), [row(right(1.0), verdicts=verdicts)])
    folders[1].write(run_file(), [row(right(1.0), verdicts=other)])

    assert folders[0].read().tables == folders[1].read().tables


def test_a_run_is_written_when_nobody_else_writes_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write(run_file(), ROWS[:1])
    with ThreadPoolExecutor() as pool, RunFolder(tmp_path).held():
        pool.submit(folder.write, run_file(3), ROWS)
        sleep(0.05)
        assert len(folder.read_rows()) == 1

    assert len(folder.read_rows()) == 3


@pytest.mark.parametrize("text", HOSTILE[1:])
def test_a_hostile_answer_is_stored_as_it_came(tmp_path: Path, text: str) -> None:
    rows = [row(right(1.0), answer=text), row(right(0.0), "s2")]
    RunFolder(tmp_path).write(run_file(2), rows)
    assert [row.answer for row in RunFolder(tmp_path).read_rows()] == [text, rows[1].answer]


@pytest.mark.parametrize(
    ("name", "damage", "place"),
    [
        ("run.json", b"{", "run.json: damaged"),
        ("run.json", b"{}", "run.json: damaged"),
        ("run.json", None, "run.json: cannot be read"),
        ("answers.parquet", b"{}\n", "answers.parquet: changed since"),
        ("verdicts.parquet", None, "verdicts.parquet: changed since"),
    ],
)
def test_a_damaged_run_names_the_place_and_the_remedy(
    tmp_path: Path, name: str, damage: bytes | None, place: str
) -> None:
    RunFolder(tmp_path).write(run_file(), ROWS)
    (tmp_path / name).unlink() if damage is None else (tmp_path / name).write_bytes(damage)

    with pytest.raises(StoreError, match=f"{place}.*repeat the run to rebuild it"):
        print(RunFolder(tmp_path).read(), RunFolder(tmp_path).read_rows())


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "new" / "scores.csv", b"a long first table\n")
    write_whole(tmp_path / "new" / "scores.csv", b"short\n")
    (tmp_path / "other").touch()

    [path] = (tmp_path / "new").iterdir()
    assert path.read_bytes() == b"short\n"
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode, "others may read it"


def test_the_old_file_stays_where_writing_fails(tmp_path: Path) -> None:
    write_whole(tmp_path / "scores.csv", b"old")
    code = (
        "import pathlib, resource, sys\nfrom harness.errors import StoreError\n"
        "from harness.storage.runs import write_whole\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "try:\n    write_whole(pathlib.Path(sys.argv[1]) / 'scores.csv', b'x' * 5000)\n"
        "except StoreError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    told = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    [path] = tmp_path.iterdir()
    assert path.read_bytes() == b"old"
    assert "cannot be written" in told
    assert "free some space or choose another --results" in told


@pytest.mark.parametrize("taken", ["results", "results/runs", "results/runs/scores.csv/x"])
def test_a_path_that_is_taken_is_the_users_to_mend(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / taken).write_text("notes", "utf-8")

    with pytest.raises(StoreError, match=r"scores\.csv: cannot be written .*--results"):
        write_whole(tmp_path / "results" / "runs" / "scores.csv", b"x")

    assert (tmp_path / taken).read_text("utf-8") == "notes"
    assert not list(tmp_path.rglob(".scores*"))


def test_all_runs_are_listed_in_the_order_of_their_paths(tmp_path: Path) -> None:
    paths = made(tmp_path, "77ab", "4f2a")
    (tmp_path / "runs" / "toy" / "model0" / "begun").mkdir()

    assert [folder.path for folder in run_folders(tmp_path)] == sorted(paths)
    assert run_folders(tmp_path / "none") == []


def test_prompts_are_in_the_ledger_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "toy" / "model" / DIGEST)
    folder.write(run_file(), [row(right(1.0))])

    assert [step.messages for one in folder.read_rows() for step in one.steps] == [()]
    assert folder.read_rows(with_prompts=True) == folder.read_rows()


def test_a_column_that_begins_late_is_empty_before_and_changes_no_digest(tmp_path: Path) -> None:
    first, rest = [row(right(1.0))], [row(right(0.0, odd=0.5), "s2")]
    in_parts, at_once = RunTables(tmp_path), RunTables(tmp_path)

    for part in (first, rest):
        in_parts.add(part)
    at_once.add([*first, *rest])

    assert in_parts.digests == at_once.digests
    folder = RunFolder(tmp_path / "run")
    folder.put(run_file(2), in_parts)
    assert [r.verdicts["near"].detail.get("odd") for r in folder.read_rows()] == [None, 0.5]


@pytest.mark.parametrize("given", ["elsewhere", "kept"])
def test_a_run_placed_as_runs_are_tells_its_results_folder(tmp_path: Path, given: str) -> None:
    [path] = made(tmp_path / "kept", DIGEST)
    assert RunFolder(path).results(tmp_path / given) == tmp_path / "kept"


def test_what_people_work_in_is_never_replaced(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    write_new(sheet, b"row,rating\n")
    write_new(sheet, b"row,rating\n")

    sheet.write_text("row,rating\nr1,5\n")
    with pytest.raises(StoreError, match=r"sheet\.csv: holds something else already"):
        write_new(sheet, b"row,rating\n")

    assert sheet.read_text().endswith("r1,5\n")


def test_a_table_takes_the_place_of_one_of_its_columns_alone(tmp_path: Path) -> None:
    for name, mine, new in [
        ("posts.csv", b"text,label\nNice.,no\n", b"panel,x\n1,2\n"),
        ("posts.tsv", b"text\tlabel\n", b"text,label\n"),
        ("posts.jsonl", b'{"text": "Nice."}\n', b'{"id": "1"}\n'),
        ("posts.parquet", b"text\n", b"PAR1"),
    ]:
        (tmp_path / name).write_bytes(mine)
        with pytest.raises(StoreError, match="is another table already"):
            write_named(tmp_path / name, new)
        assert (tmp_path / name).read_bytes() == mine

    write_named(tmp_path / "posts.csv", iter([b"text,label\n", b"Bad.,yes\n"]))
    write_named(tmp_path / "posts.jsonl", b'{"text": "Bad."}\n')
    assert (tmp_path / "posts.csv").read_bytes() == b"text,label\nBad.,yes\n"
    with pytest.raises(StoreError, match="is the file that is read; choose another -o"):
        write_named(tmp_path / "a" / ".." / "in.csv", b"", sources=[tmp_path / "in.csv"])


SIGNATURE = "toy:9f31c2ab|data:d1f3,all|base|small:scripted@a1|T0.3,n1,s0|near:00|minilm|v0.1.0"


def scored(**changes: object) -> ScoreRow:
    missing = {reason: place for place, reason in enumerate(Reason)}
    score = Score("near", "base", "T0.3", "irony", "accuracy", 0.5, 0.25, 0.75, 4, 3, missing)
    changed = replace(score, **changes)  # type: ignore[arg-type]  # checked where it is built
    return ScoreRow("toy", "small", changed, 0.5, None, SIGNATURE)


def read_back(folder: Path, *rows: ScoreRow) -> list[ScoreRow]:
    path = folder / "scores.csv"
    path.write_bytes(table_text(rows).encode())
    return read_table(path)


def cells(row: ScoreRow) -> dict[str, str]:
    """A row as any program that knows CSV sees it."""
    [found] = csv.DictReader(table_text([row]).splitlines())
    return found


def test_the_columns_are_those_that_scripts_rely_on() -> None:
    assert table_text([]) == (
        "task,model,variant,decoding,group,judge,metric,value,low,high,n,clusters,"
        "missing_failed,missing_refused,missing_filtered,missing_empty,missing_truncated,"
        "missing_unparsed,missing_unsupported,chance,cost_usd,signature\n"
    )


def test_a_missing_number_is_an_empty_cell_and_no_zero(tmp_path: Path) -> None:
    row = replace(scored(value=None, low=None, high=None, n=0, clusters=0), chance=None)
    found = cells(row)

    assert [found[name] for name in ("value", "low", "high", "chance", "cost_usd")] == [""] * 5
    assert (found["n"], found["clusters"]) == ("0", "0")
    assert read_back(tmp_path, row) == [row]


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -1.0, 1 / 3, pi, 0.1 + 0.2, nextafter(0.5, 1), 5e-324, 1e300, -2.5e-8]
)
def test_floats_come_back_to_the_last_bit(tmp_path: Path, value: float) -> None:
    row = replace(scored(value=value, low=value, high=value), chance=value, cost_usd=value)
    assert read_back(tmp_path, row) == [row]
    assert float(cells(row)["value"]) == value


@each("name", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", '=HYPERLINK("x")'])
def test_no_name_is_a_formula(name: str) -> None:
    row = replace(scored(group=name), model=name)
    found = next(csv.DictReader([*table_text([row]).splitlines(keepends=True)]))
    assert (found["model"], found["group"]) == (f"'{name}", f"'{name}")


@pytest.mark.parametrize(
    "name",
    ["a,b", 'say "so"', "'", "two\nlines", "two\r\nlines", "a\rb", "é \u2028 \x85", "\x00", " x "],
)
def test_names_come_back_whatever_they_hold(tmp_path: Path, name: str) -> None:
    row = replace(scored(group=name, judge=name), model=name)
    assert read_back(tmp_path, row, scored()) == [row, scored()]


@pytest.mark.parametrize(
    "damage",
    [
        *((",".join(COLUMNS), ",".join(COLUMNS[1:])), (",4,3,", ",four,3,")),
        *((",0.5,0.25", ",half,0.25"), (",0.5,0.25", ",,0.25")),
        ("near,accuracy,0.5,0.25,0.75,4", "near"),
    ],
)
def test_a_damaged_table_is_an_error_naming_a_file(tmp_path: Path, damage: tuple[str, str]) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(table_text([scored()]).replace(*damage), "utf-8")

    with pytest.raises(StoreError, match=r"scores\.csv: not a table of scores .*repeat the run"):
        read_table(path)
