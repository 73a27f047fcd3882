"""Run folders that were changed or damaged by hand: reported, rebuilt, never believed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support import stored_tables
from support.each import each, rest_slow
from support.stub_server import StubServer
from support.toy import FILES, Lines, Toy

from harness.cli import main

SUMS = "SHA256SUMS"


def made(toy: Toy) -> None:
    toy.write("configs/judges/far.yaml", FILES["configs/judges/near.yaml"])
    assert toy.run("--judge", "near", "--judge", "far") == 0


@pytest.fixture
def judged(toy: Toy) -> Path:
    toy.take(made)
    [folder] = toy.runs()
    return folder


def edit_verdicts(folder: Path, judge: str = "near", value: float = 0.25) -> None:
    stored_tables.edit(
        folder,
        "verdicts",
        lambda rows: [row | {"value": value} if row["judge"] == judge else row for row in rows],
    )


BYTES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "run cut": ("run.json", lambda old: old[:300]),
    "run empty": ("run.json", lambda old: b""),
    "run of another": ("run.json", lambda old: b"[]"),
    "judge gone": ("run.json", lambda old: old.replace(b'"name": "far"', b'"name": "gone"')),
    "recipe": ("run.json", lambda old: old.replace(b"|char-ngrams", b"")),
    "planned": ("run.json", lambda old: old.replace(b'"planned": 24', b'"planned": 5')),
    "answers cut": ("answers.parquet", lambda old: old[:-40]),
    "answers empty": ("answers.parquet", lambda old: b""),
    "scores": ("scores.csv", lambda old: old.replace(b",1.0,", b",0.5,")),
    "scores of words": ("scores.csv", lambda old: b"\xff\xfe"),
    "sums": (SUMS, lambda old: b"\x00not sums"),
}
GONE = {
    "answers gone": "answers.parquet",
    "verdicts gone": "verdicts.parquet",
    "scores gone": "scores.csv",
}


def damage(folder: Path, kind: str) -> None:
    if kind in BYTES:
        name, change = BYTES[kind]
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        return
    match kind:
        case "row gone":
            stored_tables.edit(folder, "answers", lambda rows: rows[:3] + rows[4:])
        case "row twice":
            stored_tables.edit(folder, "answers", lambda rows: [rows[0], *rows])
        case "rows in another order":
            stored_tables.edit(folder, "answers", lambda rows: rows[::-1])
        case "verdicts":
            edit_verdicts(folder)
        case "verdicts of no number":
            edit_verdicts(folder, value=float("inf"))
        case "answer":
            stored_tables.replace_text(folder, "answers", "answer", lambda text: f"Not {text}")
        case "reference":
            stored_tables.replace_text(folder, "samples", "cluster", lambda text: f"{text}x")
        case _:
            (folder / GONE[kind]).unlink()


DAMAGED = (
    *("run cut", "run empty", "run of another", "judge gone", "recipe", "planned"),
    *("answers cut", "answers empty", "answers gone", "row gone", "row twice"),
    *("rows in another order", "verdicts", "verdicts of no number", "answer", "reference"),
    "verdicts gone",
)


@pytest.mark.parametrize(
    "kind",
    rest_slow(
        [*DAMAGED, "scores", "scores gone", "scores of words", "sums"], kept=slice(None, None, 5)
    ),
)
def test_a_repeat_rebuilds_the_folder(toy: Toy, judged: Path, capsys: Lines, kind: str) -> None:
    before = toy.bytes()
    damage(judged, kind)
    capsys.readouterr()

    assert toy.run("--judge", "near", "--judge", "far") == 0

    assert toy.bytes() == before
    assert "changed since" in (err := capsys.readouterr().err) or "damaged" in err or "read" in err


@pytest.mark.parametrize("kind", rest_slow(["verdicts", "answers cut", "verdicts gone"], kept=1))
def test_verdicts_of_another_judge_than_is_named_are_left_out_until_it_judges_again(
    toy: Toy, judged: Path, capsys: Lines, kind: str
) -> None:
    before = toy.bytes()
    damage(judged, kind)

    assert toy.run("--judge", "far") == 0

    assert "judge near: its verdicts are left out" in capsys.readouterr().err
    assert "near" not in (judged / "scores.csv").read_text("utf-8")
    assert toy.main("judge", str(judged), "--judge", "near") == 0
    assert toy.bytes() == before


def test_edited_verdicts_that_were_asked_are_read_anew(toy: Toy, stub: StubServer) -> None:
    assert toy.run("--judge", "choice", model="alpha") == 0
    [folder] = toy.runs()
    before, asked = toy.bytes(), stub.stats()["requests"]
    stored = stored_tables.rows(folder, "verdicts")
    edit_verdicts(folder, "choice", 0.0)

    assert toy.run("--judge", "near", model="alpha") == 0
    assert toy.run("--judge", "choice", model="alpha") == 0

    assert stub.stats()["requests"] == asked
    assert [n for n in before if "scores" in n and toy.bytes()[n].count(b"choice") == 0] == []
    after = stored_tables.rows(folder, "verdicts")
    known = [(row["row"], row["value"], row["keys"]) for row in stored]
    assert [(r["row"], r["value"], r["keys"]) for r in after if r["judge"] == "choice"] == known


@pytest.mark.parametrize("kind", ["verdicts", "answer"])
def test_reading_a_run_anew_mends_it(toy: Toy, judged: Path, capsys: Lines, kind: str) -> None:
    before = toy.bytes()
    damage(judged, kind)

    assert toy.main("read", str(judged)) == 0

    assert toy.bytes() == before
    count = 24 if kind == "verdicts" else 0
    assert f"{count} verdicts changed; no model was called" in capsys.readouterr().out


@pytest.mark.parametrize("kind", rest_slow(DAMAGED, kept=slice(None, None, 3)))
@pytest.mark.parametrize("command", ["judge", "read", "compare", "agree"])
def test_changes_are_refused(
    toy: Toy, judged: Path, capsys: Lines, *, command: str, kind: str
) -> None:
    if command == "read" and kind in ("verdicts", "verdicts of no number", "answer"):
        return  # read mends these
    damage(judged, kind)
    ratings = toy.folder / "ratings.csv"
    rows = "".join(f"toy,s{n},oracle,ann,1,base\n" for n in range(3))
    ratings.write_text("task,sample_id,model,rater,value,scale\n" + rows, "utf-8")
    words = {
        "judge": ["judge", str(judged), "--judge", "near", "--home", str(toy.home)],
        "read": ["read", str(judged), "--home", str(toy.home)],
        "compare": ["compare", str(judged)],
        "agree": ["agree", "--ratings", str(ratings)],
    }
    before = toy.bytes()

    assert main([*words[command], "--results", str(toy.results)]) == 2

    assert "repeat the run to rebuild it" in capsys.readouterr().err
    assert toy.bytes() == before


@pytest.mark.parametrize(
    "kind", rest_slow(["scores", "sums", "scores gone", "scores of words"], kept=2)
)
def test_changed_scores_are_computed_anew(toy: Toy, judged: Path, capsys: Lines, kind: str) -> None:
    main(["leaderboard", "--results", str(toy.results)])
    whole = (toy.results / "leaderboard.csv").read_bytes()
    damage(judged, kind)
    capsys.readouterr()

    code = main(["leaderboard", "--results", str(toy.results)])

    told = capsys.readouterr().err
    assert "SHA256SUMS" in told if kind == "sums" else "computed from its verdicts" in told
    assert code == (1 if kind == "sums" else 0)
    table = (toy.results / "leaderboard.csv").read_bytes()
    assert table == whole or (kind == "sums" and b"near" not in table)


@pytest.mark.parametrize("kind", rest_slow(DAMAGED, kept=slice(None, None, 6)))
def test_the_leaderboard_leaves_out_what_it_cannot_believe_and_keeps_the_rest(
    toy: Toy, judged: Path, capsys: Lines, kind: str
) -> None:
    toy.run(model="literal")
    damage(judged, kind)
    (judged / "scores.csv").write_text("x", "utf-8")
    capsys.readouterr()

    assert main(["leaderboard", "--results", str(toy.results)]) == 1

    assert capsys.readouterr().err.count(f"{judged}") == 1  # one warning says all
    table = (toy.results / "leaderboard.csv").read_text("utf-8")
    assert "literal" in table
    assert "oracle" not in table


def test_scores_stand_where_verdicts_were_edited(toy: Toy, judged: Path, capsys: Lines) -> None:
    edit_verdicts(judged)

    assert main(["leaderboard", "--results", str(toy.results)]) == 0

    assert "verdicts.parquet: changed since" in capsys.readouterr().err
    assert toy.run(model="literal") == 0  # which is to be ranked with it
    assert main(["leaderboard", "--results", str(toy.results)]) == 1
    assert capsys.readouterr().err.count("verdicts.parquet: changed since") == 1
    assert main(["report", "--results", str(toy.results)]) == 2
    assert capsys.readouterr().err.count("verdicts.parquet: changed since") == 1


def test_no_table_is_believed_without_sums_of_a_run(toy: Toy, judged: Path, capsys: Lines) -> None:
    toy.run(model="literal")
    (judged / SUMS).unlink()
    damage(judged, "scores")
    capsys.readouterr()

    assert main(["leaderboard", "--results", str(toy.results)]) == 1

    assert f"{judged}" in (told := capsys.readouterr().err)
    assert "no SHA256SUMS in its folder" in told
    assert "oracle" not in (toy.results / "leaderboard.csv").read_text("utf-8")
    assert toy.main("read", str(judged)) == 2
    assert toy.run("--judge", "near", "--judge", "far") == 0
    assert (judged / SUMS).is_file()


def test_the_sums_are_those_of_the_usual_tool(judged: Path) -> None:
    pairs = [line.split("  ") for line in (judged / SUMS).read_text().splitlines()]
    lines = {name: digest for digest, name in pairs}

    assert set(lines) == {
        *("run.json", "samples.parquet", "answers.parquet", "verdicts.parquet", "scores.csv")
    }
    assert all(hashlib.sha256((judged / n).read_bytes()).hexdigest() == lines[n] for n in lines)


def test_a_text_in_place_of_ratings_is_told_shortly(toy: Toy, judged: Path, capsys: Lines) -> None:
    path = toy.folder / "README.md"
    path.write_text("# Pragmatics\n\nA text, and more.\n", "utf-8")
    capsys.readouterr()

    assert main(["agree", "--ratings", str(path), "--results", str(toy.results)]) == 2

    told = capsys.readouterr().err
    assert "no column 'task', 'sample_id', 'model', 'rater', 'value', 'scale'; name another" in told
    assert "# Pragmatics" not in told


def column(table: str, name: str, cell: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / f"{table}.parquet"
        rows = pq.read_table(path)
        made = rows.set_column(rows.column_names.index(name), name, [[cell] * len(rows)])
        pq.write_table(made, path)

    return change


def key(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = (path := folder / "run.json").read_text("utf-8")
        path.write_text(found.replace(old, new), "utf-8")

    return change


@each(
    ("change", "fact"),
    [
        (key('"name": "oracle"', '"name": "../../../.."'), "`model.name` is no name of a file"),
        (key('"kind": "scripted"', '"kind": "a\\u0000"'), "`model.kind` is no name of a file"),
        (key('"task": "toy"', f'"task": "{"t" * 999}"'), "`run.task` is no name"),
        (key('"asks": null', '"asks": "/tmp"'), "`judges far` is no name of a file"),
        (key('"digest": "', '"digest": "../'), "`digest` is no sha256"),
        (column("answers", "variant", 1), "column 'variant' is int64, not string"),
        (column("answers", "variant", "\0"), "column 'variant' has '\\x00'"),
        (column("answers", "earlier", "[1]"), "damaged (Expected `object`"),
        (column("verdicts", "reason", "tired"), "column 'reason' has 'tired'"),
    ],
)
def test_what_others_wrote_is_checked_where_it_is_read(
    toy: Toy, judged: Path, capsys: Lines, change: Callable[[Path], None], fact: str
) -> None:
    before = {path: path.read_bytes() for path in judged.iterdir()}
    change(judged)
    stored_tables.renew_sums(judged)

    code, told = toy.main("read", str(judged)), capsys.readouterr().err

    for path, data in before.items():
        path.write_bytes(data)
    assert (code, fact in told) == (2, True), told
