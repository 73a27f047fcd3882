"""`harness export`: runs in the forms of other programs; what is missing is no number there."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec import convert
from pyarrow.parquet import ParquetFile
from pyarrow.parquet import read_table as read_table_of_parquet
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Toy, isolated

from harness.cli import main
from harness.core import Sample
from harness.parts import Reason, Superseded, Usage
from harness.storage.parquet import ROWS, read_records, write_records
from harness.storage.runs import RunFolder, SampleRecord, StepRecord, read_table


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The run of `judged`, made once: its failed calls wait before they are tried again."""
    with (
        pytest.MonkeyPatch.context() as patch,
        StubServer(Script(faults={"number 3": ("500",) * 9})) as stub,
    ):
        made = isolated(tmp_path_factory.mktemp("made"), patch)
        patch.setenv("HARNESS_SERVER_URL", stub.url)
        assert made.run("--variant", "base", model="alpha") == 1
    return made


@pytest.fixture
def judged(toy: Toy, made: Toy) -> Toy:
    """A run of a served model, of which the third item has no answer."""
    toy.take(made)
    return toy


def exported(toy: Toy, kind: str, *, name: str = "toy/alpha", to: str = "x.json") -> Path:
    """The path of what was written."""
    out = toy.folder / "out" / to
    assert main(["export", kind, name, "-o", str(out), "--results", str(toy.results)]) == 0
    return out


def read(path: Path) -> dict[str, Any]:
    """An object of JSON."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def test_records_in_parquet_are_those_of_the_run(judged: Toy) -> None:
    path = exported(judged, "parquet", to="x.parquet")

    found = read_table_of_parquet(path).to_pylist(maps_as_pydicts="strict")
    [folder] = judged.runs()
    assert [record_of(row) for row in found] == RunFolder(folder).read_rows()
    assert any(row["answer"] is None for row in found)


def record_of(row: dict[str, Any]) -> SampleRecord:
    """The record in a row of Parquet, which is null also where a line has no such key."""
    usages = [step["usage"] for step in row["steps"]]
    usages += [usage for verdict in row["verdicts"].values() for usage in verdict["usages"]]
    for usage in usages:
        for name in ("unanswered", "superseded"):
            if usage[name] is None:
                del usage[name]
        for earlier in usage.get("superseded", ()):
            earlier["usage"] = json.loads(earlier["usage"])
    return convert(row, SampleRecord)


def test_parquet_is_read_by_pandas_with_nothing_where_a_value_is_missing(judged: Toy) -> None:
    frame = pd.read_parquet(exported(judged, "parquet", to="x.parquet"))

    assert list(frame.columns) == [field.name for field in fields(SampleRecord)]
    assert frame.answer.isna().sum() == 2
    assert frame.verdicts[frame.answer.isna()].iloc[0][0][1]["value"] is None


def test_records_are_written_in_parts_and_superseded_calls_as_text(tmp_path: Path) -> None:
    earlier = Superseded(Usage(3, 2, 0.5), Reason.FAILED)
    step = StepRecord("answer", "k", (), usage=Usage(1, 1, superseded=(earlier,)))
    row = SampleRecord(Sample("s", {"a": "x"}), "base", "T0", (step,), None)
    out = tmp_path / "deep" / "x.parquet"

    write_records(out, (row for _ in range(ROWS + 1)))

    table = read_table_of_parquet(out)
    assert ParquetFile(out).num_row_groups == 2
    assert record_of(table.to_pylist(maps_as_pydicts="strict")[-1]) == row
    assert [*read_records(out)] == [[row] * ROWS, [row]]
    assert [path.name for path in out.parent.iterdir()] == ["x.parquet"]


def test_another_ending_than_that_of_parquet_is_refused(
    judged: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    out = judged.folder / "x.csv"

    assert (
        main(["export", "parquet", "toy/alpha", "-o", str(out), "--results", str(judged.results)])
        == 2
    )
    assert "end its name in .parquet" in capsys.readouterr().err


def test_a_log_of_inspect_has_every_answer_and_no_score_where_none_is(judged: Toy) -> None:
    log = read(exported(judged, "inspect"))

    lost = [sample for sample in log["samples"] if "error" in sample]
    assert len(log["samples"]) == 12
    assert len({sample["id"] for sample in log["samples"]}) == 12
    assert [sample["scores"] for sample in lost] == [{}, {}]
    assert {sample["error"]["message"][:7] for sample in lost} == {"failed:"}
    assert {sample["metadata"]["missing"]["near"] for sample in lost} == {"failed"}
    [score] = log["results"]["scores"]
    assert (score["scored_samples"], score["unscored_samples"]) == (10, 2)
    [metric] = score["metrics"].values()
    rows = read_table(judged.runs()[0] / "scores.csv")
    wanted = {row.score.value for row in rows if row.signature == metric["metadata"]["signature"]}
    assert metric["value"] in wanted
    assert metric["metadata"]["n"] == 10


def test_the_results_of_lm_eval_have_a_task_a_variant_and_a_filter_a_judge(toy: Toy) -> None:
    toy.run("--variant", "all")

    found = read(exported(toy, "lm-eval", name="toy/oracle"))

    assert list(found["results"]) == ["toy_base", "toy_think"]
    assert found["results"]["toy_base"]["acc,near"] == 1.0
    assert found["results"]["toy_base"]["acc_stderr,near"] == "N/A"
    assert found["n-samples"]["toy_base"] == {"original": 6, "effective": 6}
    assert found["intervals"]["toy_base"]["acc,near"]["high"] == 1.0
    for part in ("configs", "versions", "n-shot", "higher_is_better", "group_subtasks"):
        assert found[part].keys() == found["results"].keys()


def test_a_record_of_every_eval_ever_goes_with_its_verdicts(judged: Toy) -> None:
    out = exported(judged, "every-eval-ever", to="eee")

    [path] = out.glob("data/toy/openai/alpha/*.json")
    record = read(path)
    detail = record["detailed_evaluation_results"]
    lines = (out / detail["file_path"]).read_text("utf-8").splitlines()
    verdicts = [json.loads(line) for line in lines]
    [result] = record["evaluation_results"]
    assert len(verdicts) == detail["total_rows"] == 10
    assert result["score_details"]["details"]["missing_failed"] == "2"
    assert {v["evaluation_result_id"] for v in verdicts} == {result["evaluation_result_id"]}
    assert {v["evaluation_id"] for v in verdicts} == {record["evaluation_id"]}
    scores = [v["evaluation"]["score"] for v in verdicts]
    assert result["score_details"]["score"] == pytest.approx(sum(scores) / len(scores))


def test_exporting_twice_gives_the_same_bytes_and_other_endings_are_refused(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run("--variant", "base")

    for kind in ("inspect", "lm-eval"):
        first, second = (exported(toy, kind, name="@last", to=f"{kind}{n}.json") for n in range(2))
        assert first.read_bytes() == second.read_bytes()
    known = ["--results", str(toy.results)]
    assert main(["export", "inspect", "@last", "-o", "x.csv", *known]) == 2
    assert "ends in .eval or .json" in capsys.readouterr().err
