"""Texts labelled step by step: sheets out, labels in, and their agreement."""

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.toy import Lines, csv_rows

from harness.analysis.sheets import labels_sheet
from harness.cli import main
from harness.data.annotation import read_labels
from harness.present.document import form
from harness.registry import Registry, shipped_home
from harness.specs.sheets import AnnotationSpec

LAYERS = ("hateful_layer", "target", "implicit_layer", "subtlety_layer", "implicit_props_layer")


def ishate() -> AnnotationSpec:
    registry = Registry((shipped_home(),), {}, Path("cache"))
    spec: AnnotationSpec = registry.load("configs/annotations", "ishate")
    return spec


def filled(sheet: Path, labels: list[tuple[str, ...]]) -> None:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    rows.sort()  # each rater has an order of their own
    with sheet.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [head, *([*row[:2], *own] for row, own in zip(rows, labels, strict=True))]
        )


@pytest.fixture
def sheets(tmp_path: Path) -> list[Path]:
    posts = tmp_path / "posts.csv"
    posts.write_text("text\n" + "".join(f"=post number {n}\n" for n in range(8)), "utf-8")
    out = tmp_path / "sheet.csv"
    options = ("--steps", "ishate", "--raters", "ann,bob", "-o", str(out))
    assert main(["sheet", "labels", str(posts), *options]) == 0
    return [tmp_path / "sheet-ann.csv", tmp_path / "sheet-bob.csv"]


NON = ("Non-HS", "", "", "", "")
PLAIN = ("HS", "Women", "Explicit HS", "Non-Subtle", "")
IRONY = ("HS", "Women", "Implicit HS", "Subtle", "Irony; context")


def test_a_sheet_is_blind_and_has_a_column_for_each_step(sheets: list[Path]) -> None:
    head, *rows = sheets[0].read_text("utf-8-sig").splitlines()

    assert head == ",".join(("row", "text", *LAYERS))
    assert len(rows) == 8
    assert all(",'=post number" in row and row.endswith(",,,,,") for row in rows)
    guide = (sheets[0].parent / "sheet.guide.txt").read_text("utf-8")
    assert "Only where implicit_layer is Implicit HS" in guide
    key = (sheets[0].parent / "sheet.key.csv").read_text("utf-8")
    assert sorted(int(line.split(",")[1]) for line in key.splitlines()[1:]) == [*range(2, 10)]


def test_in_label_studio_a_step_shows_up_once_it_is_to_be_taken() -> None:
    sheet = labels_sheet(ishate(), [(2, "Hm.")], 0)
    root = ElementTree.fromstring("".join(form("config.xml", sheet=sheet)))

    found = {view[1].get("name"): view for view in root.findall("View")}
    shown = {n: (v.get("whenTagName"), v.get("whenChoiceValue")) for n, v in found.items()}
    assert shown == {
        "target": ("hateful_layer", "HS"),
        "implicit_layer": ("hateful_layer", "HS"),
        "subtlety_layer": ("hateful_layer", "HS"),
        "implicit_props_layer": ("implicit_layer", "Implicit HS"),
    }
    assert [one.get("name") for one in root.findall("Choices")] == ["hateful_layer"]
    assert found["implicit_props_layer"][1].get("choice") == "multiple"


def test_filled_sheets_have_an_agreement(sheets: list[Path], tmp_path: Path, capsys: Lines) -> None:
    filled(sheets[0], [PLAIN, PLAIN, PLAIN, IRONY, IRONY, IRONY, IRONY, NON])
    filled(sheets[1], [PLAIN, PLAIN, PLAIN, PLAIN, IRONY, IRONY, IRONY, NON])
    out = tmp_path / "labels.csv"

    words = ["sheet", "read-labels", *map(str, sheets), "--steps", "ishate", "-o", str(out)]
    assert main(words) == 0

    rows = csv_rows(out)
    assert [row["coder"] for row in rows] == ["ann"] * 8 + ["bob"] * 8
    assert rows[3]["implicit_props_layer"] == "Irony; Context"
    capsys.readouterr()
    assert main(["table", "ishate-agreement", "--data", str(out)]) == 0
    # kappa of the seven that both call hateful: (6/7 - 24/49) / (25/49)
    assert "0.720" in capsys.readouterr().out


def test_who_cannot_decide_the_first_step_of_the_paper_takes_no_other(
    tmp_path: Path, capsys: Lines
) -> None:
    sheet = tmp_path / "sheet-ann.csv"
    for subtle, code in (("", 0), ("Subtle", 2)):
        sheet.write_text(
            f"row,implicit_layer,subtlety_layer,implicit_props_layer\nr1,Undecided,{subtle},\n"
        )
        words = [str(sheet), "--steps", "ishate-paper", "-o", str(tmp_path / f"{code}.csv")]
        assert main(["sheet", "read-labels", *words]) == code
    assert "only where implicit_layer is Explicit HS or Implicit HS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("Non-HS", "", "Implicit HS", "", ""), "is taken only where hateful_layer is HS"),
        (("HS", "Women", "Implicit", "Subtle", ""), "did you mean Implicit HS"),
        (("HS", "Women", "Explicit HS", "Subtle", "Irony"), "implicit_layer is Implicit HS"),
    ],
)
def test_a_label_that_cannot_be_is_an_error_with_its_line(
    sheets: list[Path], labels: tuple[str, ...], said: str, tmp_path: Path, capsys: Lines
) -> None:
    filled(sheets[0], [NON, labels, *[NON] * 6])
    out = str(tmp_path / "labels.csv")

    assert main(["sheet", "read-labels", str(sheets[0]), "--steps", "ishate", "-o", out]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert "sheet-ann.csv:3" in message


def test_blank_steps_are_missing(sheets: list[Path], tmp_path: Path, capsys: Lines) -> None:
    blank = ("HS", "Women", "Implicit HS", "Subtle", "")
    filled(sheets[0], [NON, blank, ("", "", "", "", ""), *[NON] * 5])
    out = str(tmp_path / "labels.csv")

    assert main(["sheet", "read-labels", str(sheets[0]), "--steps", "ishate", "-o", out]) == 1

    found = read_labels(ishate(), sheets[0])
    assert found.implicit_layer[0] == ""
    assert found.implicit_props_layer[1] is None
    assert set(found.loc[2, [*LAYERS]]) == {None}
    assert "1 of hateful_layer" in capsys.readouterr().err


def test_label_studio_s_csv_export_is_read(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    cells = ["7", "ann", "r1", "Hm.", "HS", "Women", "Implicit HS", "Subtle"]
    several = '{"choices":["Irony","Context"]}'
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "annotator", "row", "text", *LAYERS), (*cells, several)])

    found = read_labels(ishate(), path)

    assert (found.coder.tolist(), found.message_id.tolist()) == (["ann"], ["r1"])
    assert found.implicit_props_layer.tolist() == ["Irony; Context"]
