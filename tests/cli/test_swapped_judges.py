"""What `leaderboard` prints of what judges owe to what was swapped."""

import json
import re

import pytest
from support.toy import Toy

from harness.cli import main


@pytest.fixture
def judged(toy: Toy) -> Toy:
    """Two controls read by two judges, one of them also swapped, in clusters of two."""
    path = toy.home / "tasks/samples/toy.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    paired = [row | {"cluster": f"d{place // 2}"} for place, row in enumerate(rows)]
    path.write_text("\n".join(map(json.dumps, paired)), "utf-8")
    near = (toy.home / "configs/judges/near.yaml").read_text("utf-8")
    toy.write("configs/judges/turned.yaml", near.replace("accept: right", "accept: wrong"))
    for model in ("oracle", "literal"):
        judges = [f"--judge={name}" for name in ("near", "near:swapped", "turned")]
        assert toy.run("--variant", "base", *judges, model=model) == 0
    return toy


def printed(toy: Toy, title: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The cells of the only table with a title, its head first."""
    capsys.readouterr()
    assert main(["leaderboard", "--all", "--results", str(toy.results)]) == 0
    [table] = [part for part in capsys.readouterr().out.split("\n\n") if part.startswith(title)]
    return [re.split(" {2,}", line) for line in table.splitlines()[1:]]


def test_the_sensitivity_of_a_judge_is_printed_for_each_model(
    judged: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *lines = printed(judged, "sensitivity to emphasis, near minus near:swapped", capsys)

    assert head == ["model", "near", "near:swapped", "difference"]
    assert sorted(line[:2] for line in lines) == [["literal", "0.000"], ["oracle", "1.000"]]
    assert all(float(line[3]) == float(line[1]) - float(line[2]) for line in lines)
