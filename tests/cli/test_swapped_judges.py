"""What `leaderboard` prints of what judges owe to what was swapped."""

import json
import re

from support.toy import Lines, Toy

from harness.cli import main


def test_the_sensitivity_of_a_judge_is_printed_for_each_model(toy: Toy, capsys: Lines) -> None:
    path = toy.home / "tasks/samples/toy.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    paired = [row | {"cluster": f"d{place // 2}"} for place, row in enumerate(rows)]
    path.write_text("\n".join(map(json.dumps, paired)), "utf-8")
    assert toy.run("--variant", "base", "--judge=near,near:swapped", model="oracle,literal") == 0
    capsys.readouterr()

    assert main(["leaderboard", "--all", "--results", str(toy.results)]) == 0

    title = "sensitivity to emphasis, near minus near:swapped"
    [table] = [part for part in capsys.readouterr().out.split("\n\n") if part.startswith(title)]
    head, *lines = [re.split(" {2,}", line) for line in table.splitlines()[1:]]
    assert head == ["model", "near", "near:swapped", "difference"]
    assert sorted(line[:2] for line in lines) == [["literal", "0.000"], ["oracle", "1.000"]]
    assert all(float(line[3]) == float(line[1]) - float(line[2]) for line in lines)
