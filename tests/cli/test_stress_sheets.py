"""People mark stressed words on sheets, which are read back as samples of emphasized_talk."""

import csv
import json
from pathlib import Path

import pytest
from support.each import each
from support.toy import Lines

from harness.cli import main
from harness.data.annotation import marked_span
from harness.errors import DataError

TURNS = (
    ("kite", "Did you fly the red kite on Monday?"),
    ("formula", "=1+1 is what she wrote,  twice."),
)
MARKS = {
    "ann": [
        ("Did *you* fly the red kite on Monday?", "Somebody else was expected to.", "", ""),
        ("=1+1 is what *she* wrote, twice.", "Not he.", "=1+1 is what she wrote, *twice*.",
         "Again."),
    ],
    "bob": [
        ("Did *you*  fly the red kite on Monday? ", "I thought Nora did.",
         "Did you fly the *red* kite on Monday?", "There is another kite."),
        ("", "", "=1+1 is what *she* wrote, twice.", "Not he."),
    ],
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [
        {
            "id": name,
            "group": "all",
            "fields": {"context": "0: Hello.\n1: Hello.", "speaker": "0", "turn": turn},
            "references": {},
        }
        for name, turn in TURNS
    ]
    Path("turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["sheet", "stress", "turns.jsonl", "--raters", "ann,bob", "-o", "stress.csv"]
    assert main(words) == 0
    return tmp_path


def fill(rater: str, marks: list[tuple[str, str, str, str]]) -> None:
    """Fill a sheet in as a spreadsheet program saves it."""
    path = Path(f"stress-{rater}.csv")
    head, *rows = csv.reader(path.read_text("utf-8-sig").splitlines())
    rows.sort(reverse=True)  # in the order of the turns; each rater has another
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [head, *([*r[:4], *m] for r, m in zip(rows, marks, strict=True))]
        )


def back() -> int:
    sheets = ["stress-ann.csv", "stress-bob.csv"]
    return main(["sheet", "read-stress", *sheets, "--turns", "turns.jsonl", "-o", "samples.jsonl"])


def test_marked_sheets_become_samples_of_the_form_of_the_task(place: Path, capsys: Lines) -> None:
    sheet = Path("stress-ann.csv").read_text("utf-8-sig")
    assert sheet.startswith("row,context,speaker,turn,stressed 1,meaning 1,stressed 2,meaning 2\n")
    assert "'=1+1 is what" in sheet
    assert "I booked *that* seat" in Path("stress.guide.txt").read_text()
    assert back() == 2
    assert "no stress is marked" in capsys.readouterr().err
    assert not Path("samples.jsonl").exists()
    for rater, marks in MARKS.items():
        fill(rater, marks)

    assert back() == 0

    assert "wrote 4 samples to samples.jsonl; 1 have several meanings" in capsys.readouterr().out
    made = [json.loads(line) for line in Path("samples.jsonl").read_text().splitlines()]
    parts = [tuple(one["fields"][name] for name in ("before", "emphasis", "after")) for one in made]
    assert parts == [
        ("Did ", "you", " fly the red kite on Monday?"),
        ("Did you fly the ", "red", " kite on Monday?"),
        ("=1+1 is what ", "she", " wrote,  twice."),
        ("=1+1 is what she wrote,  ", "twice", "."),
    ]
    assert made[0]["references"]["implication"] == [
        "Somebody else was expected to.",
        "I thought Nora did.",
    ]
    assert made[2]["references"]["implication"] == ["Not he."]
    assert [line["cluster"] for line in made] == ["kite"] * 2 + ["formula"] * 2


@each(
    ("marked", "why"),
    [
        ("Did you fly the red kite on Monday?", "no one part between two asterisks"),
        ("*Did* you *fly* the red kite on Monday?", "no one part between two asterisks"),
        ("Did ** you fly the red kite on Monday?", "no one part between two asterisks"),
        ("Did you *fly* the kite on Monday?", "is not the turn 'Did you fly the red"),
        ("Did you fly the r*ed* kite on Monday?", "stresses a part of a word"),
        ("Did you fly the *re*d kite on Monday?", "stresses a part of a word"),
    ],
)
def test_a_mark_that_fits_no_turn_is_refused(marked: str, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        marked_span(marked, TURNS[0][1], place="s.csv:2, column 'stressed 1'")
    assert str(caught.value).startswith("s.csv:2, column 'stressed 1': ")


def test_a_stress_without_a_meaning_is_told_with_its_line(place: Path, capsys: Lines) -> None:
    fill("ann", [("Did *you* fly the red kite on Monday?", "", "", ""), ("", "", "", "")])
    assert back() == 2
    assert "stress-ann.csv:2: meaning 1 is blank" in capsys.readouterr().err
