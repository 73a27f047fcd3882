"""Tables of files: counts of rows, agreement of coders, numbers that other commands wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.paper_tables import of_rows, values

from harness.analysis.tables.build import TableInput, build
from harness.errors import DataError, SpecError
from harness.specs.layouts import CodersLayout, CountsLayout, LayerSpec, ValuesLayout

ROWS: list[dict[str, Any]] = [
    {"label": "hateful", "kind": "open", "from": "web", "how": ["irony", "sun"], "made": "orig"},
    {"label": "hateful", "kind": "hidden", "from": "web", "how": ["irony"], "made": "orig"},
    {"label": "hateful", "kind": "hidden", "from": "news", "how": [], "made": "swap"},
    {"label": "none", "kind": None, "from": "news", "how": None, "made": "orig"},
]


def data(folder: Path, rows: list[dict[str, Any]], name: str = "mine.jsonl") -> TableInput:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return TableInput(files=(path,))


def test_one_s_own_table_is_counted_by_its_columns(tmp_path: Path) -> None:
    layout = CountsLayout(about="", rows=("label",), columns=("from",), totals=("row", "column"))
    [table] = build(layout, data(tmp_path, ROWS))
    assert table.headings == ("news", "web", "total")
    assert values(table) == {("hateful",): (1, 2, 3), ("none",): (1, 0, 1), ("total",): (2, 2, 4)}

    layout = CountsLayout(about="", rows=("how",), columns=("from",), totals=("row",))
    [table] = build(layout, data(tmp_path, ROWS))
    assert values(table) == {("irony",): (2,), ("sun",): (1,), ("total",): (2,)}

    layout = CountsLayout(
        about="",
        rows=("name",),
        columns=("split",),
        dims={"name": ("label", "kind")},
        where={"made": ("orig",)},
    )

    [table] = build(layout, data(tmp_path, ROWS))
    assert table.headings == ("mine",)
    assert values(table) == {
        ("hateful",): (2,),
        ("hidden",): (1,),
        ("none",): (1,),
        ("open",): (1,),
    }

    layout = CountsLayout(
        about="", rows=("made",), columns=("label",), share_of="row", always={"made": "orig"}
    )
    [table] = build(layout, data(tmp_path, ROWS))
    assert values(table) == {("orig",): (2 / 3, 1 / 3), ("swap",): (0.75, 0.25)}

    # The base is rows of data, each once, also where a row has several values.
    layout = CountsLayout(
        about="",
        rows=("name",),
        columns=("from",),
        dims={"name": ("label", "kind")},
        share_of="column",
        totals=("column",),
    )
    [table] = build(layout, data(tmp_path, ROWS))
    assert table.headings == ("news", "web", "total")
    assert values(table)["hateful",] == (0.5, 1.0, 0.75)
    assert values(table)["hidden",] == (0.5, 0.5, 0.5)


def test_coders_agree_by_round_on_the_units_that_both_were_asked_about(tmp_path: Path) -> None:
    said = {"ann": "1100", "ben": "1010"}
    words = {"1": "yes", "0": "no", " ": None}
    rows = [
        {"unit": n, "coder": who, "round": min(1 + n // 4, 2), "said": words[mark]}
        for who, marks in said.items()
        for n, mark in enumerate(marks + "1100" + (" 1" if who == "ann" else "  "))
    ]
    layout = CodersLayout(
        about="",
        rows=("round",),
        columns=("statistic",),
        unit="unit",
        coder="coder",
        layers={"said": LayerSpec(column="said", values={"yes": 1.0})},
        where={"statistic": ("kappa", "percent")},
    )

    [table] = build(layout, data(tmp_path, rows))
    # Round 1: two of four alike, as chance gives; round 2: all alike, but for
    # units that one or both left blank.
    assert values(table) == {("1",): (0.0, 0.5), ("2",): (1.0, 1.0)}


def test_numbers_that_share_a_cell_are_averaged(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"form": "a", "x": 0.5},
        {"form": "a", "x": 0.7},
        {"form": "b", "x": None},
    ]
    layout = ValuesLayout(about="", rows=("form",), columns=("measure",), values=("x",))

    [table] = build(layout, data(tmp_path, rows))
    [mean], [none] = of_rows(table).values()
    assert mean.n == 2
    assert mean.value == pytest.approx(0.6)
    assert mean.sd == pytest.approx(0.1414, abs=1e-3)
    assert none.value is None
    assert any("cell is empty" in note for note in table.notes)


def test_rows_of_a_json_result_are_read_by_their_key(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    path.write_text(json.dumps({"rankings": [{"topic": "tea", "scores": [0.5, None]}]}))
    layout = ValuesLayout(
        about="", rows=("topic",), columns=("place",), values=("scores",), records="rankings"
    )

    [table] = build(layout, TableInput(files=(path,)))
    assert (table.headings, values(table)) == (("1", "2"), {("tea",): (0.5, None)})
    with pytest.raises(DataError, match="--json"):
        build(layout, data(tmp_path, [{"topic": "tea"}, {"topic": "rain"}]))


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'labl'.*label"):
        build(CountsLayout(about="", rows=("labl",)), data(tmp_path, ROWS))
    with pytest.raises(SpecError, match="--data FILE"):
        build(CountsLayout(about="", rows=("label",)), TableInput())
