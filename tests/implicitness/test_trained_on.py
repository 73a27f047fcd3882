"""Tables of training texts become fingerprints."""

import json
from pathlib import Path

import pytest

from harness.errors import DataError
from harness.implicitness.open import trained_on
from harness.text.dedup import fingerprint

RELEASED = "pos_implicit,pos_explicit,neg_implicit,neg_explicit,source\nA b.,C d.,A b.,E f.,x y\n"


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("all_data.csv", RELEASED, ["A b.", "C d.", "E f."]),
        ("a.txt", "One.\n\nTwo.\n", ["One.", "Two."]),
        ("a.tsv", "text\tlabel\nOne.\tyes\n", ["One."]),
        ("a.jsonl", json.dumps({"implicit": "A.", "levels": ["B.", "C."]}), ["A.", "B.", "C."]),
    ],
)
def test_the_texts_of_a_table_are_those_in_its_columns_of_texts(
    tmp_path: Path, name: str, content: str, texts: list[str]
) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    assert trained_on(tmp_path / name) == frozenset(map(fingerprint, texts))


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("none.csv", None, r"none\.csv: no such file"),
        ("a.csv", "words\nOne.\n", "no texts in any column of pos_implicit, .*, text; call it"),
        ("a.csv", "text\n \n", "no texts in any column"),
        ("a.json", '[{"text": "a"}]', r"a\.json: begins with '\['"),
    ],
)
def test_a_file_without_texts_is_reported(
    tmp_path: Path, name: str, content: str | None, error: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, "utf-8")

    with pytest.raises(DataError, match=error):
        trained_on(tmp_path / name)
