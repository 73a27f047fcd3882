"""Tables of runs: what shares a table, ranks, bold, and what is missing."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from support.choice_cases import choice_run
from support.choice_cases import task as choices
from support.hate_rows import VARIANT
from support.paired_runs import SMALL
from support.paper_tables import of_rows, values
from support.run_tables import run_on_disk, score_rows
from support.sketches import row

from harness.analysis.tables.build import TableInput, adapted, build
from harness.analysis.tables.pivot import PaperTable
from harness.core import Sample
from harness.errors import SpecError, StoreError
from harness.specs.layouts import CellStyle, LayoutSpec, RunsLayout
from harness.specs.tasks import ClassesSpec
from harness.storage.find_runs import run_folders
from harness.storage.run_tables import VerdictRecord
from harness.storage.runs import RunFolder

PLAIN = RunsLayout(about="Scores", rows=("model",), columns=("judge",))


def made(results: Path, layout: LayoutSpec = PLAIN) -> list[PaperTable]:
    return build(layout, TableInput(run_folders(results)))


def test_models_are_rows_and_judges_columns(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", {"near": "1110", "far": "1100"})
    run_on_disk(tmp_path, "bee", {"near": "1000", "far": "0000"})

    [table] = made(tmp_path)
    assert (table.head, table.headings) == (("model",), ("far", "near"))
    assert values(table) == {("ant",): (0.5, 0.75), ("bee",): (0.0, 0.25)}


def test_bold_is_what_a_paired_test_separates_and_nothing_else(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", {"near": "1" * 29 + "0", "far": "1" * 15 + "0" * 15})
    run_on_disk(tmp_path, "bee", {"near": "1" * 28 + "00", "far": "1" * 14 + "0" * 16})
    run_on_disk(tmp_path, "cow", {"near": "0" * 30, "far": "1" * 13 + "0" * 17})

    [table] = made(tmp_path)
    bold = {name: tuple(cell.is_best for cell in own) for (name,), own in of_rows(table).items()}
    # By far, no two models are told apart: the best of them is not bold.
    assert bold == {"ant": (False, True), "bee": (False, True), "cow": (False, False)}
    assert any("Holm" in note for note in table.notes)


def test_groups_are_tested_on_their_own_samples(tmp_path: Path) -> None:
    # ant is right of all even samples, bee of all odd ones: over all they are alike.
    run_on_disk(tmp_path, "ant", "10" * 15)
    run_on_disk(tmp_path, "bee", "01" * 15)
    layout = RunsLayout(about="By group", rows=("model",), columns=("group",))

    [table] = made(tmp_path, layout)
    assert table.headings == ("even", "odd", "all")
    bold = {name: tuple(cell.is_best for cell in own) for (name,), own in of_rows(table).items()}
    assert bold == {"ant": (True, False, False), "bee": (False, True, False)}


def test_ranks_leave_controls_out_and_controls_stand_below(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "oracle", "1111")
    run_on_disk(tmp_path, "bee", "1000")
    run_on_disk(tmp_path, "ant", "1110")
    style = CellStyle(shows=("value", "rank"))

    [table] = made(tmp_path, adapted(PLAIN, cell=style.shows))
    assert [(name, block, cell.rank) for (name,), block, [cell] in table.lines()] == [
        ("ant", 0, "1-2"),
        ("bee", 0, "1-2"),
        ("oracle", 1, None),
    ]


def test_other_samples_or_variants_make_tables_of_their_own(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", "1110")
    run_on_disk(tmp_path, "bee", "10", limit=2)
    first, second = made(tmp_path)
    assert [values(first), values(second)] == [{("ant",): (0.75,)}, {("bee",): (0.5,)}]
    assert "limit all samples" in first.title
    assert "limit 2 samples" in second.title

    own = tmp_path / "own"
    run_on_disk(own, "ant", "1110")
    run_on_disk(own, "ant", "0000", variant="cot5")
    by_variant = made(own)
    assert [table.title for table in by_variant] == ["Scores; variant base", "Scores; variant cot5"]
    [table] = made(own, RunsLayout(about="Levels", rows=("model",), columns=("level",)))
    assert (table.headings, values(table)) == (("base", "5"), {("ant",): (0.75, 0.0)})


def test_a_task_of_one_judge_that_fits_no_table_has_its_own(tmp_path: Path) -> None:
    for variant in ("cot0", "cot5"):
        run_on_disk(tmp_path, "ant", {"near": "1110", "far": "1100"}, variant=variant)
    labelled(tmp_path, "ant", "nh" * 20, task="quiz")

    tables = made(tmp_path, RunsLayout(about="All", rows=("model",), columns=("task",)))

    *of_toy, of_quiz = [table.headings for table in tables if table.headings]
    assert set(of_toy[:4]) == {("toy",)}
    assert of_quiz == ("quiz",)


def test_an_empty_cell_is_no_zero_and_has_its_reason(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", {"near": "1110", "far": "...."})
    run_on_disk(tmp_path, "bee", {"near": "11.0"})

    [table] = made(tmp_path)
    assert values(table) == {("ant",): (None, 0.75), ("bee",): (None, 2 / 3)}
    [empty] = [note for note in table.notes if note.startswith("Empty cells")]
    assert "all missing: 4 unparsed (ant, far)" in empty
    assert "no run or row has it (bee, far)" in empty
    [partial] = [note for note in table.notes if note.startswith("Missing verdicts")]
    assert "1 unparsed (bee, near)" in partial


def test_the_note_says_the_recipe_in_words(tmp_path: Path) -> None:
    run_on_disk(tmp_path, "ant", "1110")

    [table] = made(tmp_path)
    recipe = table.notes[0]
    for words in ("Task toy", "all samples", "variant base", "decoding T0.3", "seed 0", "near"):
        assert words in recipe
    assert "|" not in recipe
    assert all(len(text.split("|")) == 8 for text in table.signatures)


def test_what_is_not_there_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="harness run"):
        made(tmp_path)
    run_on_disk(tmp_path, "ant", "1110")
    with pytest.raises(SpecError, match=r"modle.*did you mean model"):
        made(tmp_path, RunsLayout(about="", rows=("modle",)))
    with pytest.raises(SpecError, match=r"variant bse.*did you mean base"):
        made(tmp_path, RunsLayout(about="", rows=("model",), where={"variant": ("bse",)}))

    with pytest.raises(SpecError, match="'model' is named twice"):
        adapted(PLAIN, columns=["model"])


def labelled(results: Path, model: str, chosen: str, task: str = "toy") -> None:
    """A run of a model that gives forty texts, half of them hidden, a label each."""
    labels = ("non", "hidden")
    rows = []
    for place, mark in enumerate(chosen):
        gold, given = labels[place % 2], labels[mark == "h"]
        sample = Sample(f"s{place}", {"text": f"t{place}"}, {"labels": labels}, labels, gold)
        detail = {f"chosen_label_{label}": float(label == given) for label in labels}
        verdict = VerdictRecord(float(gold == given), detail=detail)
        rows.append(row(verdict, sample=sample, decoding="logprob", verdicts={"gold": verdict}))
    spec = structs.replace(choices({"base": VARIANT}), classes=ClassesSpec())
    file = replace(choice_run(spec, len(chosen)), model=replace(SMALL, name=model, kind="vllm"))
    file = replace(file, run=replace(file.run, task=task))
    folder = RunFolder(results / "runs" / task / model / model)
    folder.write(file, rows, score_rows(file, rows))


def test_macro_f1_is_tested_by_swapping_samples(tmp_path: Path) -> None:
    labelled(tmp_path, "ant", "nh" * 20)
    labelled(tmp_path, "bee", "nh" * 19 + "nn")
    labelled(tmp_path, "cow", "nn" * 18 + "nh" * 2)
    layout = RunsLayout(
        about="F1",
        rows=("model",),
        columns=("metric",),
        where={"metric": ("recall_hidden", "macro_f1")},
        cell=CellStyle(shows=("value", "rank")),
    )

    [table] = made(tmp_path, layout)
    assert table.headings == ("recall_hidden", "macro_f1")
    cells = {name: own[1] for (name,), own in of_rows(table).items()}
    assert {name: cell.rank for name, cell in cells.items()} == {
        "ant": "1-2",
        "bee": "1-2",
        "cow": "3",
    }
    assert {name: cell.is_best for name, cell in cells.items()} == {
        "ant": True,
        "bee": True,
        "cow": False,
    }
    assert cells["bee"].value == pytest.approx((2 * 19 / 39 + 2 * 20 / 41) / 2)
    assert all(own[0].rank is None for own in of_rows(table).values())
