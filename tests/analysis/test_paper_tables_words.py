"""A table for a paper says in words what its numbers are of, and fits the page or says so."""

from pathlib import Path

from support.paper_tables import cells
from support.run_tables import run_on_disk

from harness.analysis.tables.build import TableInput, adapted, build
from harness.analysis.tables.pivot import PaperTable
from harness.present.document import to_latex
from harness.registry import Registry
from harness.specs.layouts import CellStyle
from harness.storage.find_runs import run_folders

SHIPPED = Registry.open(Path(__file__).parents[2])


def made(results: Path, columns: str = "judge", shows: tuple[str, ...] = ("value",)) -> PaperTable:
    layout = adapted(None, columns=[columns], cell=shows)
    [table] = build(layout, TableInput(run_folders(results)))
    return table


def wide(columns: int) -> PaperTable:
    cell = {"value": 0.5, "low": 0.25, "high": 0.75, "n": 8}
    names = tuple((f"column {n}",) for n in range(columns))
    style, made = CellStyle(shows=("value", "interval")), cells([cell] * columns)
    return PaperTable("Scores", ("model",), names, (("ant",),), (0,), made, style)


def test_captions_and_labels_name_each_table(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", {"near": "1110"})
    text = to_latex([made(tmp_path, "group")])
    assert r"\caption{Scores: accuracy on toy by near; data: toy, released}" in text
    assert r"\label{tab:scores}" in text

    text = to_latex([wide(2), wide(2)])
    assert r"\label{tab:scores}" in text
    assert r"\label{tab:scores-2}" in text


def test_the_ceiling_is_the_first_of_the_controls(tmp_path: Path) -> None:
    for name in ("literal", "oracle", "zebra"):
        run_on_disk(tmp_path, name, {"near": "1110"})
    assert made(tmp_path).rows == (("zebra",), ("oracle",), ("literal",))


def test_one_n_and_the_reasons_stand_below(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", {"near": "1110"})
    table = made(tmp_path, shows=("value", "n"))
    assert [note for note in table.notes if note.startswith("n =")] == ["n = 4."]
    assert "n=" not in to_latex([table]).partition(r"\bottomrule")[0]

    run_on_disk(tmp_path / "few", "ant", {"near": "11"})
    table = made(tmp_path / "few", shows=("value", "interval"))
    assert "No interval: too few independent items (ant, near)." in table.notes


def test_a_table_that_is_too_wide_is_made_as_wide_as_the_line() -> None:
    text = to_latex([wide(5)])
    assert "0.500 {[}0.250, 0.750{]}" in text
    assert text.count(r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%") == 1


def test_a_legend_explains_the_values_alone_that_a_table_has(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", {"near": "1110"})
    layout = SHIPPED.load("configs/layouts", "intent-levels")

    where = {"task": ("toy",), "metric": ("accuracy",)}
    [table] = build(adapted(layout, where=where), TableInput(run_folders(tmp_path)))
    assert "base: the plain prompt." in table.notes
    assert not any("counterfactual" in note for note in table.notes)
