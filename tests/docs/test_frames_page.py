"""The page of the tables of a run names every column that the schema has."""

import re
from pathlib import Path

import pytest

from harness.storage.schema import STORED

PAGE = (Path(__file__).parents[2] / "docs/frames.md").read_text("utf-8")


@pytest.mark.parametrize("table", STORED)
def test_the_page_has_the_columns_of_the_schema(table: str) -> None:
    part = PAGE.split(f"\n## {table}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    found = {re.sub("`", "", name): (about, empty) for name, _, about, empty in rows}

    wanted = {column.name: (column.about, column.empty) for column in STORED[table]}
    assert {name: cells for name, cells in found.items() if name.islower()} == wanted
