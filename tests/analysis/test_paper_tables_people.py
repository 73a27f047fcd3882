"""Tables with people's ratings: their means beside judges, and statistics of agreement."""

from dataclasses import replace
from pathlib import Path

import pandas
import pytest
from msgspec import structs
from support.paper_tables import of_rows, values
from support.rated_runs import ANN, BOB, FAR, MODELS, NEAR, ratings, runs
from support.run_tables import score_rows

from harness.analysis.tables.build import TableInput, build
from harness.data.ratings import ratings_text
from harness.errors import SpecError
from harness.present.document import screen_cells
from harness.specs.layouts import CellStyle, RunsLayout
from harness.storage.runs import RunFolder

BESIDE = RunsLayout(
    about="People and judges",
    rows=("model",),
    columns=("judge",),
    where={"judge": ("people", "near", "far")},
    people="mean_rating",
    agreement=("spearman_system", "spearman_system_p"),
    names={"people": "people (MOS)"},
)


def given(folder: Path, *, is_rated: bool = True, kind: str = "scripted") -> TableInput:
    folders = []
    for made in runs(near=NEAR, far=FAR):
        run = replace(made, file=replace(made.file, model=replace(made.file.model, kind=kind)))
        place = RunFolder(folder / "runs" / "toy" / run.file.model.name / run.file.model.name)
        place.write(run.file, run.rows, score_rows(run.file, run.rows))
        folders.append(place)
    path = folder / "ratings.csv"
    path.write_text(ratings_text(pandas.DataFrame(ratings(scale="base", ann=ANN, bob=BOB))))
    return TableInput(folders, path if is_rated else None)


def test_people_are_a_column_and_their_agreement_rows_below(tmp_path: Path) -> None:
    [table] = build(BESIDE, given(tmp_path))

    assert table.headings == ("people (MOS)", "near", "far")
    rows = {name: list(own) for (name,), own in values(table).items()}
    assert list(rows) == [*MODELS, "spearman_system", "spearman_system_p"]
    # The means of both raters over four samples, by hand.
    assert [rows[model][0] for model in MODELS] == [17 / 8, 2.0, 26 / 8]
    assert [rows[model][1] for model in MODELS] == [2.0, 1.5, 3.0]
    # Near has the order of people, cat before ant before bee; far's has nothing to do with it.
    assert rows["spearman_system"] == [None, pytest.approx(1.0), pytest.approx(0.0)]
    assert "0.000" in screen_cells(table)[1][3]
    assert rows["spearman_system_p"][1] == pytest.approx(1 / 3)
    assert table.blocks == (1, 1, 1, 2, 2)
    assert any(note.startswith("n = 4") for note in table.notes), table.notes
    assert any("a statistic of judges (spearman_system" in note for note in table.notes)


@pytest.mark.slow
def test_people_and_judges_rank_the_models_that_are_no_controls(tmp_path: Path) -> None:
    style = CellStyle(shows=("value", "rank"))

    [table] = build(structs.replace(BESIDE, cell=style), given(tmp_path, kind="vllm"))
    ranks = {n: [cell.rank for cell in own] for (n,), own in [*of_rows(table).items()][:3]}
    any_ = ["1-3", "1-3"]
    assert ranks == {"ant": ["2", *any_], "bee": ["3", *any_], "cat": ["1", *any_]}
    assert any("ranked by its mean alone" in note for note in table.notes)
    [table] = build(structs.replace(BESIDE, cell=style), given(tmp_path))
    assert table.cells["rank"].isna().all()


def test_without_ratings_the_column_says_what_to_give(tmp_path: Path) -> None:
    [table] = build(BESIDE, given(tmp_path, is_rated=False))
    assert [value for value, *_ in values(table).values()] == [None, None, None]
    assert any("No ratings: see --ratings" in note for note in table.notes)


def test_statistics_of_agreement_are_a_table_by_judge(tmp_path: Path) -> None:
    layout = RunsLayout(
        about="Agreement",
        rows=("judge",),
        columns=("statistic",),
        where={"statistic": ("pearson_dataset", "kendall_document")},
    )

    [table] = build(layout, given(tmp_path))
    assert table.rows == (("far",), ("near",))
    assert table.headings == ("pearson_dataset", "kendall_document")
    assert "4 documents, 3 systems, 2 raters; mean over raters" in table.notes[-1]
    assert table.cells["value"].between(-1, 1).all()
    with pytest.raises(SpecError, match="--ratings"):
        build(layout, given(tmp_path, is_rated=False))
