"""The tables of stored runs, as frames."""

import pytest

from harness import evaluate
from harness.errors import SpecError
from harness.storage.find_runs import run_folders
from harness.storage.frames import RUN, load
from harness.storage.runs import COLUMNS, RunFolder
from harness.storage.schema import STORED
from harness.workspace import Workspace


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    results = tmp_path_factory.mktemp("frames") / "results"
    workspace = Workspace.open(results=results)
    for model in ("oracle", "random"):
        evaluate("intent_detection", model, limit=7, workspace=workspace)
    return run_folders(results)


def test_every_table_begins_with_its_run_and_has_its_columns(runs: list[RunFolder]) -> None:
    rows = {name: load(runs, name) for name in ("samples", "answers", "verdicts", "scores")}
    wanted = {name: (*RUN, *STORED[name]) for name in STORED}

    for name in ("samples", "verdicts"):
        assert tuple(rows[name].columns)[: len(wanted[name])] == wanted[name]
    assert rows["samples"].fields[0].keys() == {
        name.removeprefix("field_") for name in rows["samples"] if name.startswith("field_")
    }
    assert tuple(rows["answers"].columns) == (*RUN, "row", *STORED["answers"])
    assert set(rows["scores"].columns) == {*RUN, *COLUMNS}
    assert set(rows["verdicts"].model) == {"oracle", "random"}
    assert len(rows["answers"]) == len(rows["verdicts"]) > len(rows["samples"]) == 14


def test_a_value_is_missing_just_where_there_is_a_reason(runs: list[RunFolder]) -> None:
    wanted = ["sample", "value", "reason", "prob_right", "unheard_of"]
    verdicts = load(runs, "verdicts", wanted)

    assert tuple(verdicts.columns) == (*RUN, *wanted)
    assert (verdicts.value.isna() == verdicts.reason.notna()).all()
    assert verdicts.unheard_of.isna().all()


def test_the_mean_of_the_verdicts_is_the_score(runs: list[RunFolder]) -> None:
    verdicts, scores = load(runs, "verdicts"), load(runs, "scores")
    means = verdicts.groupby(["model", "variant"], observed=True).value.mean()
    whole = scores[(scores.group == "all") & (scores.metric == "accuracy")]
    known = whole.set_index(["model", "variant"]).value

    assert means.to_numpy() == pytest.approx(known[means.index].to_numpy(), rel=1e-12)


def test_no_run_is_an_error() -> None:
    with pytest.raises(SpecError, match="no run"):
        load([], "scores")
