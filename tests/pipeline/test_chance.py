"""A task's chance level is of being right: no rating and no judge of one's own inherits it."""

from dataclasses import replace

import pytest
from support.each import each
from support.run_tables import score_rows
from support.sketches import JUDGE, rows, run_file
from support.toy import Lines, Toy

from harness.storage.runs import JudgeEntry, RunFolder, read_table

JUDGES = """
from harness.core import Verdict
from harness.judges.custom import ComputedJudge


class Own(ComputedJudge):
    metric = "accuracy"{more}

    def read(self, cases):
        return [Verdict(case.response.key, self.name, 1.0) for case in cases]
"""


@each(
    ("judge", "chance"),
    [
        (JUDGE, 0.5),
        (JudgeEntry("stars", "mean_rating", "stars:00|rubric"), None),
        (JudgeEntry("nearness", "mean_f1", "nearness:00|minilm"), None),
        (replace(JUDGE, chance=None), None),
        (replace(JUDGE, chance=0.2), 0.2),
    ],
)
def test_chance_is_of_being_right_by_a_judge(judge: JudgeEntry, chance: float | None) -> None:
    file = run_file(2, judges=(replace(judge, name="near"),))
    [score] = score_rows(file, rows([1.0, 0.0]))
    assert (file.chance, score.chance) == (0.5, chance)


PAIRS = "{about: By pairs., kind: contrast, encoder: {kind: char-ngrams}, reference: right}"


@pytest.mark.parametrize(
    ("more", "chance"), [("", None), ("\n    chance = 0.25", 0.25), ("\n    chance = 0", 0.0)]
)
def test_a_judge_of_ones_own_says_its_own_chance_and_one_of_pairs_has_a_half(
    toy: Toy, more: str, chance: float | None
) -> None:
    toy.write("configs/judges/own.py", JUDGES.format(more=more))
    toy.write("configs/judges/own.yaml", "{about: mine, kind: python, entry: 'own.py:Own'}")
    toy.write("configs/judges/pairs.yaml", PAIRS)
    task = (toy.home / "tasks/toy.yaml").read_text("utf-8")
    toy.write("tasks/toy.yaml", f"{task}\nchance: 0.2\n")

    toy.run("--variant", "base", "--judge", "own,near,pairs")

    table = read_table(RunFolder(toy.runs()[0]).scores)
    found = {row.score.judge: row.chance for row in table if row.score.metric == "accuracy"}
    assert found == {"own": chance, "near": 0.2, "pairs": 0.5}


def test_a_chance_that_is_no_number_is_refused(toy: Toy, capsys: Lines) -> None:
    toy.write("configs/judges/own.py", JUDGES.format(more='\n    chance = "half"'))
    toy.write("configs/judges/own.yaml", "{about: mine, kind: python, entry: 'own.py:Own'}")

    assert toy.run("--variant", "base", "--judge", "own") == 2
    assert "`chance` is 'half'; give the number" in capsys.readouterr().err
