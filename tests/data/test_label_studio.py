"""Label Studio exports become ratings, and what is sent there is data, never markup."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.sketches import HOSTILE

from harness.data.ratings import (
    Conversion,
    Rating,
    SheetKey,
    Target,
    config_text,
    from_label_studio,
    tasks_text,
)
from harness.errors import DataError

DATA = {"sample_id": "s1", "model": "ant", "task": "toy"}


def result(kind: str, value: object, name: str = "quality") -> dict[str, object]:
    """One answer of an annotation."""
    return {"type": kind, "from_name": name, "value": {kind: value}}


def export(folder: Path, *results: object, by: object = 7, **changes: object) -> Path:
    """An export of one task with one annotation."""
    annotation = {"completed_by": by, "result": results, "was_cancelled": False, **changes}
    path = folder / "export.json"
    path.write_text(json.dumps([{"id": 12, "data": DATA, "annotations": [annotation]}]), "utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("rating", 4, 4.0),
        ("number", 2.5, 2.5),
        ("choices", ["3"], 3.0),
        ("choices", ["yes"], 1.0),
        ("choices", [], None),
        ("choices", "0", 0.0),
    ],
)
def test_ratings_numbers_and_choices_are_values(
    tmp_path: Path, kind: str, value: object, expected: float | None
) -> None:
    found = from_label_studio(export(tmp_path, result(kind, value)), Conversion(words={"yes": 1}))

    assert found == [Rating("toy", "s1", "ant", "7", expected, "quality")]


@pytest.mark.parametrize(
    ("by", "rater"), [(3, "3"), ({"id": 3, "email": "a@b"}, "a@b"), ("x", "x")]
)
def test_the_rater_is_who_completed_it(tmp_path: Path, by: object, rater: str) -> None:
    [found] = from_label_studio(export(tmp_path, result("rating", 1), by=by), Conversion())

    assert found.rater == rater


def test_other_results_and_other_questions_are_left_out(tmp_path: Path) -> None:
    path = export(
        tmp_path, result("textarea", ["hm"]), result("rating", 1, "a"), result("rating", 2)
    )

    found = from_label_studio(path, Conversion(control="quality"))

    assert [rating.value for rating in found] == [2.0]


def test_two_questions_are_two_scales(tmp_path: Path) -> None:
    path = export(tmp_path, result("rating", 1, "a"), result("rating", 2, "b"))

    assert [rating.scale for rating in from_label_studio(path, Conversion())] == ["a", "b"]


def test_a_blind_row_is_restored_by_the_key(tmp_path: Path) -> None:
    path = export(tmp_path, result("rating", 5))
    path.write_text(path.read_text("utf-8").replace(json.dumps(DATA), '{"row": "r1"}'), "utf-8")

    found = from_label_studio(
        path, Conversion(key=SheetKey({"r1": (Target("toy", "s9", "bee", "base"),)}))
    )

    assert found == [Rating("toy", "s9", "bee", "7", 5.0, "base")]


@pytest.mark.parametrize(
    ("results", "changes", "message"),
    [
        ([result("choices", ["a", "b"])], {}, "task 12: choices .* is not one rating"),
        ([result("choices", ["good"])], {}, "task 12: rating 'good' is not a number"),
        ([result("rating", True)], {}, "is not one rating"),
        ([result("rating", 1)], {"by": None}, "completed_by names nobody"),
        ([result("rating", 1)], {"was_cancelled": True}, "no ratings in its 1 tasks"),
        ([result("rating", 1), result("rating", 2)], {}, "already at .*task 12"),
    ],
)
def test_what_is_no_rating_is_refused_by_name(
    tmp_path: Path, results: list[object], changes: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        from_label_studio(export(tmp_path, *results, **changes), Conversion())


@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", '[{"data": {}}]', "<x/>"])
def test_another_format_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "export.json").write_text(text, "utf-8")

    with pytest.raises(DataError, match="not an export of Label Studio"):
        from_label_studio(tmp_path / "export.json", Conversion())


@pytest.mark.parametrize("text", ["<script>x</script>", "a & b", HOSTILE[3], HOSTILE[2]])
def test_no_markup_is_left_in_tasks_and_every_text_comes_back(text: str) -> None:
    made = tasks_text([{"row": "r1", "answer": text}])

    assert not set(b"<>&") & set(made)
    assert json.loads(made) == [{"data": {"row": "r1", "answer": text}}]


@pytest.mark.parametrize("name", ["topic", 'a"b', "<x>", "a&b"])
def test_the_config_is_xml_whatever_a_field_is_called(name: str) -> None:
    root = ElementTree.fromstring(
        config_text([name], answer="answer", marks=dict.fromkeys("012345", ""))
    )

    assert [part.get("value") for part in root.iter("Text")] == [f"${name}", "$answer"]
    assert [part.get("value") for part in root.iter("Choice")] == list("012345")
    assert root.find("Choices").get("toName") == "text2"  # type: ignore[union-attr]  # it is there
