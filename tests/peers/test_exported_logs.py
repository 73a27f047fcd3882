"""What this program exports, opened by the program that it is for. Needs inspect_ai."""

from pathlib import Path

import pytest
from support.toy import Toy

from harness.cli import main
from harness.storage.runs import RunFolder

QUIET = pytest.mark.filterwarnings("ignore::ResourceWarning")  # unclosed streams of anyio
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default"), QUIET]


def test_inspect_opens_a_log_of_ours(toy: Toy, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    toy.run("--variant", "base")
    out = tmp_path / "logs" / "toy.json"

    assert main(["export", "inspect", "@last", "-o", str(out), "--results", str(toy.results)]) == 0

    log = read_eval_log(str(out))
    assert log.status == "success"
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert {sample.output.completion for sample in log.samples or ()} == {
        f"yes {n}" for n in range(6)
    }
    assert {sample.scores["near"].value for sample in log.samples or () if sample.scores} == {1.0}
    assert log.results is not None
    assert log.results.scores[0].metrics["accuracy"].value == 1.0


def test_a_log_of_ours_is_imported_with_the_same_answers(toy: Toy, tmp_path: Path) -> None:
    toy.run("--variant", "base", "--limit", "4")
    toy.edit("tasks/toy.yaml", "- {temperature: 0.5, max_tokens: 20}", "")
    toy.run("--variant", "base")
    out = tmp_path / "toy.json"
    assert main(["export", "inspect", "@last", "-o", str(out), "--results", str(toy.results)]) == 0

    assert toy.main("import", str(out), "--task", "toy", "--model", "again") == 0

    def answers(model: str) -> set[tuple[str, str | None]]:
        paths = toy.results.glob(f"runs/toy/{model}/*")
        folder = RunFolder(max(paths, key=lambda path: RunFolder(path).written))
        return {(row.sample.id, row.answer) for row in folder.read_rows()}

    assert answers("again") == answers("oracle")
