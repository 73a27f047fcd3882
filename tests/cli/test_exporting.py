"""`harness export`: runs in the forms of other programs; what is missing is no number there."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy, taking

from harness.cli import main
from harness.importers.formats.inspect_log import recognises
from harness.storage.runs import read_table


def made(toy: Toy) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        StubServer(Script(faults={"number 3": ("500",) * 9})) as stub,
    ):
        patch.setenv("HARNESS_SERVER_URL", stub.url)
        assert toy.run("--variant", "base", model="alpha") == 1


judged = taking(made)


def exported(toy: Toy, kind: str, *, name: str = "toy/alpha", to: str = "x.json") -> Path:
    out = toy.folder / "out" / to
    assert main(["export", kind, name, "-o", str(out), "--results", str(toy.results)]) == 0
    return out


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


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
    assert recognises(json.dumps(log))


def test_a_record_of_every_eval_ever_has_headlines_and_what_is_missing(judged: Toy) -> None:
    out = exported(judged, "every-eval-ever", to="eee")

    [path] = out.glob("data/toy/openai/alpha/*.json")
    [result] = read(path)["evaluation_results"]
    details = result["score_details"]
    rows = read_table(judged.runs()[0] / "scores.csv")
    [row] = [row for row in rows if row.signature == details["details"]["signature"]][:1]
    assert details["details"]["missing_failed"] == "2"
    assert (details["score"], details["uncertainty"]["num_samples"]) == (row.score.value, 10)


def test_exports_have_the_same_bytes_and_one_ending(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")

    first, second = (exported(toy, "inspect", name="@last", to=f"{n}.json") for n in range(2))
    assert first.read_bytes() == second.read_bytes()
    known = ["--results", str(toy.results)]
    assert main(["export", "inspect", "@last", "-o", "x.csv", *known]) == 2
    assert "-o x.csv: end its name in .json" in capsys.readouterr().err
