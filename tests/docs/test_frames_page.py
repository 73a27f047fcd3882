"""The page of the tables of a run names every column that the schema has, with its type."""

from pathlib import Path

import pytest

from harness.storage.schema import STORED

PAGE = (Path(__file__).parents[2] / "docs/frames.md").read_text("utf-8")
KINDS = {
    **{"name": "text, few values", "text": "text", "whole": "whole number", "number": "number"},
    **{"texts": "list of texts", "numbers": "list of numbers", "wholes": "list of whole numbers"},
}


@pytest.mark.parametrize("table", STORED)
def test_the_page_has_the_columns_of_the_schema(table: str) -> None:
    part = PAGE.split(f"\n## {table}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    found = {name.strip("`"): kind for name, kind, *_ in rows}

    wanted = {name: KINDS[kind] for name, kind in STORED[table].items()}
    assert {name: kind for name, kind in found.items() if name.islower()} == wanted
