"""Boards: ranks on the items that all models have, groups, controls, and labelled tasks."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec import structs
from pandas import DataFrame, Series
from support import paired_runs
from support.choice_cases import choice_run, chosen, sample, shared, variants
from support.choice_cases import task as choices
from support.each import each
from support.hate_rows import VARIANT, constant, labelled, run_of, text
from support.paired_runs import SMALL, stored, words_task
from support.report_runs import Sketch, write_runs
from support.run_tables import score_rows

from harness.analysis.boards.ranked import board_rows, standings, verdicts_of
from harness.analysis.boards.ranked import leaderboard as leaderboards
from harness.analysis.boards.scores import BOARD_COLUMNS, board_scores, board_text, score_text
from harness.analysis.boards.views import board_notes, ranks_if_wrong
from harness.cli import main
from harness.library import leaderboard
from harness.parts import Reason
from harness.pipeline.plan import as_written
from harness.present.page.page import page_data
from harness.specs.tasks import ClassesSpec, DataSpec
from harness.stats.missing import mean_bounds
from harness.storage.find_runs import run_folders
from harness.storage.frames import records
from harness.storage.run_tables import SampleRecord, StepRecord
from harness.storage.runs import DataEntry, RunFile, RunFolder


def kept(results: Path, file: RunFile, rows: Sequence[SampleRecord], *, model: str) -> RunFolder:
    """A run of a model in a folder of its own; the controls are scripted."""
    kind = "scripted" if model in ("oracle", "literal") else "vllm"
    file = replace(file, model=replace(SMALL, name=model, kind=kind))
    folder = RunFolder(results / "runs" / file.run.task / model / f"{model}-{file.digest[:8]}")
    folder.write(file, rows, score_rows(file, rows))
    return folder


def said(results: Path, *, run: str = "toy", **letters: str) -> list[RunFolder]:
    """Runs of models whose verdicts are letters: right, wrong, tie, missing."""
    made = []
    for model, line in letters.items():
        one = stored(words_task(gaps={}), {("base", "T0.3", "near"): line}, name=run)
        made.append(kept(results, one.file, one.rows, model=model))
    return made


def scores_of(folders: Sequence[RunFolder]) -> DataFrame:
    return board_scores({folder.path.name: score_text(folder) for folder in folders})


def board(folders: list[RunFolder]) -> list[Any]:
    return records(board_of(folders))


def board_of(folders: Sequence[RunFolder]) -> DataFrame:
    scores = scores_of(folders)
    return standings(scores, verdicts_of(folders, scores))


def ranks(made: list[Any]) -> dict[str, tuple[int | None, ...]]:
    return {row.model: (row.rank, row.rank_best, row.rank_worst) for row in made}


def test_models_that_nothing_tells_apart_may_have_each_others_ranks(tmp_path: Path) -> None:
    made = board(said(tmp_path, ant="1" * 29 + "0", bee="1" * 28 + "00", cow="0" * 30))
    assert ranks(made) == {"ant": (1, 1, 2), "bee": (2, 1, 2), "cow": (3, 3, 3)}
    assert (made[0].rank_items, made[0].rank_clusters) == (30, 30)


def test_models_are_ranked_on_the_items_that_all_have(tmp_path: Path) -> None:
    few = said(tmp_path / "few", ant="1" * 30, bee="1" * 28 + "..")
    assert board_notes(board_of(few)) == []  # two of thirty may be chance
    # bee lacks the ten hard items, and looks the better one: .95 of 20 against .7 of 30.
    made = board(said(tmp_path, ant="1" * 20 + "1" + "0" * 9, bee="1" * 19 + "0" + "." * 10))

    values = {row.model: (row.value, row.shared) for row in made}
    assert values == {"ant": (0.7, 1.0), "bee": (0.95, 0.95)}
    assert ranks(made) == {"ant": (1, 1, 2), "bee": (2, 1, 2)}
    assert made[0].rank_items == 20


def test_a_model_with_few_verdicts_takes_no_items_from_the_others(tmp_path: Path) -> None:
    made = board(said(tmp_path, ant="1" * 30, bee="0" * 30, cow="1" + "." * 29))
    assert ranks(made) == {"ant": (1, 1, 1), "bee": (2, 2, 2), "cow": (None,) * 3}
    assert made[0].rank_items == 30


def test_models_that_answer_in_two_ways_are_ranked_together_if_they_were_asked_the_same(
    tmp_path: Path,
) -> None:
    spec, words = choices(variants("base")), [{"base": letter * 64} for letter in "abc"]

    def run(model: str, right: bool, **asked: dict[str, str]) -> RunFolder:
        way = "logprob" if asked.get("written") else "written"
        made = shared(1.0, 0.0, 0.0, value=float(right))
        rows = [chosen(made, "base", sample(name=f"s{n}")) for n in range(20)]
        file = choice_run(spec if way == "logprob" else as_written(spec), 20, **asked)
        return kept(tmp_path, file, [replace(row, decoding=way) for row in rows], model=model)

    folders = [
        run("ant", True, variants=words[0], written=words[1]),
        run("bee", False, variants=words[1]),
        run("cow", False, variants=words[2]),
    ]
    made = records(leaderboards(folders)[1])
    assert ranks(made) == {"ant": (1, 1, 1), "bee": (2, 2, 2), "cow": (1, None, None)}
    found = [(row.model, row.answers, row.rank_items) for row in made if row.variant == "base"]
    assert found == [("ant", "logprob", 20), ("bee", "written", 20), ("cow", "written", None)]


def test_controls_are_shown_and_not_ranked(tmp_path: Path) -> None:
    made = board(said(tmp_path, oracle="1" * 20, ant="10" * 10))
    assert [(row.model, row.rank) for row in made] == [("oracle", None), ("ant", 1)]


def test_decodings_of_one_sample_are_swapped_together(tmp_path: Path) -> None:
    folders = []
    for model, line in (("ant", "1" * 5), ("bee", "0" * 5)):
        ways = {("base", f"T0.{n}", "near"): line for n in (3, 5)}
        one = stored(words_task(gaps={}), ways)
        folders.append(kept(tmp_path, one.file, one.rows, model=model))

    # Five clusters have 32 swaps, so that p is 2 of 32; ten would tell the models apart.
    made = board(folders)
    assert (made[0].rank_items, made[0].rank_clusters) == (10, 5)
    assert ranks(made) == {"ant": (1, 1, 2), "bee": (2, 1, 2)}


def test_without_stored_verdicts_ranks_are_by_value_alone(tmp_path: Path) -> None:
    folders = said(tmp_path, ant="1" * 20, bee="0" * 20)

    made = records(standings(scores_of(folders), verdicts_of([], scores_of([]))))
    assert ranks(made) == {"ant": (1, None, None), "bee": (2, None, None)}
    assert made[0].rank_items is None


def flagged(*said: float) -> list[SampleRecord]:
    """Thirty hateful texts and ninety others, flagged with these rates."""
    return [
        text(f"{kind}{n}", is_hateful=kind == "h", at=0.5, said=float(n < rate * count))
        for kind, count, rate in (("h", 30, said[0]), ("b", 90, said[1]))
        for n in range(count)
    ]


def test_a_detector_is_ranked_by_both_rates_and_not_by_accuracy(tmp_path: Path) -> None:
    # Hardly flagging is right of 93 texts in 120; the other finds most and is right of 87.
    rows = {"seldom": flagged(0.1, 0.0), "finder": flagged(0.9, 1 / 3)}
    folders = [kept(tmp_path, run_of(own), own, model=name) for name, own in rows.items()]

    made = board(folders)
    assert {row.ranked_by for row in made} == {"tpr_less_fpr"}
    assert ranks(made) == {"finder": (1, 1, 1), "seldom": (2, 2, 2)}
    assert [(row.tpr, row.fpr) for row in made] == [(0.9, pytest.approx(1 / 3)), (0.1, 0.0)]
    accuracies = [row.score for row in made]
    assert accuracies[0] < accuracies[1] == pytest.approx(93 / 120)


def test_the_rate_that_a_detector_is_ranked_by_has_an_interval(tmp_path: Path) -> None:
    rows = {"never": flagged(0.0, 0.0), "finder": flagged(0.9, 1 / 3)}
    folders = [kept(tmp_path, run_of(own), own, model=name) for name, own in rows.items()]

    finder, never = board(folders)
    assert finder.value == pytest.approx(0.9 - 1 / 3)
    assert finder.low is not None
    assert finder.high is not None
    # Two independent shares: .1 x .9 x .9 / 30 and so on, give or take what few clusters add.
    reach = 1.98 * (0.9 * 0.1 / 30 + 1 / 3 * 2 / 3 / 90) ** 0.5
    assert (finder.high - finder.low) / 2 == pytest.approx(reach, rel=0.05)
    # Newcombe's: neither rate of a constant answer is known exactly.
    ends = [1.96**2 / (n + 1.96**2) for n in (30, 90)]
    assert (never.low, never.value, never.high) == pytest.approx((-ends[1], 0, ends[0]), abs=1e-3)
    [alone] = board(folders[1:])
    assert (alone.low, alone.high) == (finder.low, finder.high)


def test_a_classifier_is_ranked_by_macro_f1_and_not_by_accuracy(tmp_path: Path) -> None:
    golds = ["non"] * 60 + ["open"] * 25 + ["hidden"] * 15
    near = [gold if n % 5 == 0 else golds[(n * 7) % 100] for n, gold in enumerate(golds)]
    lazy = ["non"] * 60 + ["open"] * 3 + ["non"] * 37

    made = board(classified(tmp_path, golds, lazy=lazy, reader=near))
    assert {row.ranked_by for row in made} == {"macro_f1"}
    assert [row.model for row in made] == ["reader", "lazy"]
    assert all(row.shared == pytest.approx(row.value) for row in made)
    accuracies = [row.score for row in made]
    assert accuracies[0] < accuracies[1] == 0.63


def classified(folder: Path, golds: Sequence[str], **said: Sequence[str]) -> list[RunFolder]:
    """The runs of some models, each with the labels that it gives to texts of some labels."""
    task = structs.replace(choices({"base": VARIANT}), classes=ClassesSpec())
    runs = []
    for model, labels in said.items():
        rows = [labelled(f"s{n}", *pair) for n, pair in enumerate(zip(golds, labels, strict=True))]
        runs.append(kept(folder, choice_run(task, len(rows)), rows, model=model))
    return runs


GOLDS = ["non"] * 8 + ["open"] * 3 + ["hidden"]


@pytest.mark.slow
@each(
    ("golds", "bad"),
    [
        (GOLDS, ["open"] * 8 + ["non"] * 4),  # worse than a constant answer
        (["non"] * 12, ["non"] * 11 + ["open"]),  # all of one kind, where a constant is perfect
        (["open"] * 12, ["non"] * 6 + ["hidden"] * 6),  # nothing right
    ],
)
def test_a_constant_classifier_is_never_first(golds: list[str], bad: list[str]) -> None:
    with TemporaryDirectory() as name:
        for label in ("non", "hidden"):
            folder = Path(name) / label
            made = board(classified(folder, golds, constant=[label] * 12, bad=bad))

            assert [row.model for row in made] == ["bad", "constant"]
            assert ranks(made) == {"bad": (1, None, None), "constant": (None,) * 3}
            assert made[1].is_constant


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_constant_detector_is_never_first(tmp_path: Path, rate: float) -> None:
    rows = {"constant": flagged(rate, rate), "wrong": flagged(0.1, 0.9)}
    folders = [kept(tmp_path, run_of(own), own, model=name) for name, own in rows.items()]
    made = board(folders)

    assert ranks(made) == {"wrong": (1, None, None), "constant": (None,) * 3}
    assert [row.model for row in made] == ["wrong", "constant"]


def test_no_two_rows_of_the_file_share_what_tells_them_apart(tmp_path: Path) -> None:
    folders = said(tmp_path, ant="10" * 10, bee="1" * 20)
    other = stored(words_task(gaps={}), {("base", "T0.3", "near"): "1" * 8})
    file = replace(other.file, run=replace(other.file.run, limit=8, seed=4), digest="f" * 16)
    folders.append(kept(tmp_path, file, other.rows, model="ant"))

    rows = board_rows(scores_of(folders), board_of(folders))
    lines = [*csv.DictReader(board_text(rows).splitlines())]
    told = "task model variant decoding group judge metric run data limit seed prompts version"
    assert max(Counter(tuple(line[name] for name in told.split()) for line in lines).values()) == 1
    assert {(line["run"], line["limit"], line["seed"]) for line in lines} == {
        (folders[0].path.name, "all", "0"),
        (folders[1].path.name, "all", "0"),
        ("ant-ffffffff", "8", "4"),
    }


def test_the_file_and_the_library_have_the_rank_and_those_not_ruled_out(tmp_path: Path) -> None:
    folders = said(tmp_path, ant="1" * 20, bee="0" * 20, oracle="1" * 20)

    scores = scores_of(folders)
    found = records(board_rows(scores, board_of(folders)))
    frame = leaderboard(results=tmp_path)

    names = ("rank", "rank_best", "rank_worst", "rank_items")
    standing = {(row.model, row.group): [getattr(row, name) for name in names] for row in found}
    assert standing["ant", "all"] == [1, 1, 1, 20]
    assert standing["bee", "all"] == [2, 2, 2, 20]
    assert standing["oracle", "all"] == standing["ant", "odd"] == [None] * 4
    assert tuple(frame.columns) == BOARD_COLUMNS
    assert len(frame) == len(found)


def printed(results: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    assert main(["leaderboard", "--results", str(results)]) == 0
    return capsys.readouterr()


def test_a_board_says_on_what_it_ranks_and_what_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(tmp_path, ant="1" * 29 + "0", bee="1" * 20 + "." * 10, cow="0" * 30, oracle="1" * 30)

    out, _ = printed(tmp_path, capsys)

    assert "ranked on the 20 verdicts that all 3 have, of 20 independent items" in out
    assert "`may be`: ranks that are not excluded (clusters swapped, Holm over 3" in out
    assert "  missing  " in out
    lines = [line.split() for line in out.splitlines() if len(line.split()) > 5]
    cells = {words[2]: (words[0], words[1]) for words in lines}
    assert cells["ant"] == cells["bee"] == ("1", "1-2")
    assert cells["cow"] == ("3", "3")
    # 20 of 30 were bee's missing verdicts wrong, and all right; ant has no missing one.
    assert "0.667 to 1.000" in next(line for line in out.splitlines() if "  bee  " in line)
    assert "bee has no verdict on 33% of the items, cow on 0%: what a model does not" in out
    assert cells["oracle"] == ("-", "-")


def test_several_tasks_begin_with_models_by_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(tmp_path, ant="1" * 29 + "0", bee="0" * 28 + "..", oracle="1" * 30)
    said(tmp_path, run="quiz", cow="1" * 30)

    out, _ = printed(tmp_path, capsys)

    lines = [line.split() for line in out.splitlines()]
    start = lines.index(["model", "quiz", "toy"])
    assert lines[start + 1 : start + 4] == [
        *(["cow", "1.000", "-"], ["ant", "-", "0.967."], ["bee", "-", "0.000", "*"])
    ]
    assert "the boards of toy by near" in out


def test_missing_verdicts_may_be_counted_as_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(tmp_path, ant="1" * 24 + "0" * 6, bee="1" * 20 + "." * 10)
    half = [text(f"h{n}", is_hateful=n < 20, at=0.5, said=float(n < 15)) for n in range(40)]
    cut = [
        text(f"h{n}", is_hateful=n < 20, at=0.5, said=Reason.REFUSED if n % 2 else float(n < 20))
        for n in range(40)
    ]
    for model, rows in (("eel", half), ("fox", cut)):
        kept(tmp_path / "texts", run_of(rows), rows, model=model)

    every = (_wrong(run_folders(folder)) for folder in (tmp_path, tmp_path / "texts"))
    found = {row.model: row for boards in every for row in records(boards)}

    assert [found[name].value for name in ("ant", "bee")] == pytest.approx([0.8, 20 / 30])
    assert (found["bee"].n, found["bee"].missing, found["bee"].rank_items) == (30, 0, 30)
    assert found["bee"].low < 20 / 30 < found["bee"].high
    # Half of the texts have no answer: of hateful ones not found, of others false alarms.
    assert (found["fox"].tpr, found["fox"].fpr, found["fox"].value) == (0.5, 0.5, 0.0)
    assert (found["eel"].rank, found["fox"].rank) == (1, 2)
    out = ["--results", str(tmp_path)]
    assert main(["leaderboard", "--missing", "wrong", "--task", "toy", *out]) == 0
    assert "seed 0; missing verdicts are wrong" in capsys.readouterr().out
    assert not (tmp_path / "leaderboard.csv").exists()
    assert main(["compare", "toy/ant", "toy/bee", "--missing", "wrong", *out]) == 0
    out_and_err = capsys.readouterr()
    assert "on 30 independent items" in out_and_err.out
    words = "missing verdicts count as the least value: at most 0 of A and 10 of B, of 30"
    assert words in out_and_err.err
    ends = [mean_bounds(139 / (153 - lost), 153 - lost, lost, (0, 1)) for lost in (7, 0)]
    ranks = ranks_if_wrong(Series([True, True]), ends)
    assert ranks is not None
    assert ranks.tolist() == [1, 1]
    assert main(["compare", "toy/ant", "toy/bee", "--missing", "gone", *out]) == 2


def test_what_is_missing_of_an_average_is_counted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, losses in (("ant", (1, 2)), ("bee", (0, 0))):
        some = [[None] * lost + [0.9] * (20 - lost) for lost in losses]
        run = paired_runs.chosen(some)
        kept(tmp_path, run.file, run.rows, model=model)
    out = ["leaderboard", "--results", str(tmp_path)]

    assert main([*out, "--all"]) == 0

    shown = capsys.readouterr().out
    assert "order0" in shown
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("ant ")] == ["3"]
    assert main([*out, "--missing", "wrong", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {*found[0]} == {*BOARD_COLUMNS}
    assert {(row["model"], row["variant"]): row["value"] for row in found}["ant", "order1"] == 0.9


def test_a_damaged_run_without_others_leaves_a_board_of_missing_verdicts_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [alone] = said(tmp_path, ant="1" * 20 + "." * 10)
    said(tmp_path, run="quiz", bee="1" * 20 + "." * 10)
    (alone.path / "verdicts.parquet").write_bytes(b"x")

    assert main(["leaderboard", "--missing", "wrong", "--results", str(tmp_path)]) == 1

    out, err = capsys.readouterr()
    assert "quiz, base: accuracy by near" in out
    assert "the run is left out" in err


def _wrong(folders: Sequence[RunFolder]) -> DataFrame:
    scores = scores_of(folders)
    return standings(scores, verdicts_of(folders, scores, is_wrong=True), is_wrong=True)


@pytest.mark.parametrize(
    ("literal", "told"),
    [
        ("0" * 40, ""),
        ("10" * 20, "is unfit here: it distinguishes oracle (0.500) from literal (0.500), gap"),
        ("0" * 24 + "1" * 16, "may be fit or unfit: too few items to say whether"),
    ],
)
def test_what_the_controls_show_is_said_with_the_interval_of_their_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], literal: str, told: str
) -> None:
    is_alike = told.startswith("is unfit")
    said(tmp_path, oracle=literal[::-1] if is_alike else "1" * 40, literal=literal)
    _, err = printed(tmp_path, capsys)

    assert told in err
    assert ("gap " in err) == bool(told)


Rows = Sequence[SampleRecord]


def answered(said: Callable[[int], float | Reason], count: int = 40) -> list[SampleRecord]:
    """Texts of which every other one, from the first on, is hateful."""
    return [text(f"t{n}", is_hateful=n % 2 == 0, at=n / count, said=said(n)) for n in range(count)]


def mixed(count: int = 40) -> list[SampleRecord]:
    return answered(lambda n: float(n % 2 == 0 and n % 10 > 0), count)


def unread() -> list[SampleRecord]:
    return answered(lambda _: Reason.TRUNCATED)


def perfect() -> list[SampleRecord]:
    return answered(lambda n: float(n % 2 == 0))


def kept_runs(results: Path, **rows: Rows) -> list[RunFolder]:
    folders = []
    for model, own in rows.items():
        file = run_of(own)
        file = replace(file, run=replace(file.run, variants=("base",), model=model))
        folders.append(kept(results, file, own, model=model))
    return folders


def test_models_without_a_rank_have_their_reason(tmp_path: Path) -> None:
    notes = board_notes(board_of(kept_runs(tmp_path, always=constant(1.0), ant=mixed())))
    assert notes == [
        "No rank for always: a constant answer (all texts, or nearly all, get one label; "
        "TPR 1.000, FPR 1.000)."
    ]

    notes = board_notes(board_of(kept_runs(tmp_path, ant=mixed(), cut=unread())))
    assert notes == ["No rank for cut: nothing could be read (40 truncated)."]


def test_a_control_needs_no_reason_for_its_rank_and_one_for_its_interval(tmp_path: Path) -> None:
    few = [
        replace(one, sample=replace(one.sample, cluster=str(n % 2)))
        for n, one in enumerate(mixed())
    ]
    [note] = board_notes(board_of(kept_runs(tmp_path, oracle=few, ant=few)))

    assert note == "No interval for ant, oracle: too few independent items (2)."


def test_page_and_terminal_name_the_constant_answer_and_the_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = kept_runs(tmp_path, oracle=perfect(), always=constant(1.0))

    data = page_data(folders, tmp_path)
    [line] = next(one for one in data.sections if one.name == "headline").lines
    assert line == (
        "No model is ranked on toy. No rank for always: a constant answer (all texts, or nearly "
        "all, get one label; TPR 1.000, FPR 1.000)."
    )
    [table] = next(one for one in data.sections if one.name == "leaderboard").tables
    assert [note.partition(":")[0] for note in table.notes] == ["No rank for always"]
    models = next(at for at, one in enumerate(table.columns) if one["kind"] == "text")
    assert [row[models] for row in table.rows] == ["always (constant answer)", "oracle (control)"]
    assert main(["leaderboard", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "always (constant answer)" in out
    assert [note for note in table.notes if note not in " ".join(out.split())] == []


@pytest.mark.parametrize(("cut", "is_told"), [(4, False), (5, True)])
def test_answers_cut_at_their_limit_are_an_alarm_above_a_tenth(
    tmp_path: Path, *, cut: int, is_told: bool
) -> None:
    rows = [
        replace(
            one, answer="yes", steps=(StepRecord("answer", one.sample.id, (), "yes", stop=end),)
        )
        for place, one in enumerate(mixed())
        for end in ["length" if place < cut else "stop"]
    ]

    data = page_data(kept_runs(tmp_path, ant=rows), tmp_path)
    alarms = next(one for one in data.sections if one.name == "alarms").lines
    told = "ant on toy: 5 of 40 answers reached their token limit and were cut; they are judged"
    assert [line.startswith(told) for line in alarms] == [True] * is_told


def test_data_sets_of_one_task_are_told_apart_by_file_and_tag(tmp_path: Path) -> None:
    for place, (name, tag) in enumerate((("posts.csv", "may"), ("june.csv", "june"))):
        rows = mixed(30 + place)
        source = DataEntry("posts", "released", f"d{place}+meter@1", {name: "0a1b"})
        file = run_of(rows, model=replace(SMALL, name="ant", kind="vllm"), data=source)
        run = replace(file.run, variants=("base",), model="ant", data=source.label)
        table = DataSpec(
            source="posts",
            reader="labelled_table",
            files=(),
            sample="toy.jsonl",
            map="mine",
            choices={"hateful": "yes", "benign": "no"},
        )
        spec = structs.replace(file.task, data=table)
        file = replace(file, run=run, task=spec)
        folder = RunFolder(tmp_path / "runs" / "toy" / "ant" / file.run.digest[:16])
        folder.write(file, rows, score_rows(file, rows))
        folder.write_tag(tag)

    data = page_data(run_folders(tmp_path), tmp_path)
    sections = {one.name: one for one in data.sections}
    assert {run["label"] for run in data.runs} == {"ant @may", "ant @june"}
    assert {table.pick for table in sections["leaderboard"].tables} == {
        "base, by gold, posts, file posts.csv",
        "base, by gold, posts, file june.csv",
    }
    [asked] = sections["asked"].lines
    assert re.search(r"Dates: @june, \d{4}-\d\d-\d\d, @may, \d{4}-\d\d-\d\d\.", asked)
    shown = repr([(one.title, one.pick) for own in data.sections for one in own.tables])
    assert "|" not in shown  # no signature stands in a title or a choice


def test_the_column_of_values_is_called_by_its_metric(tmp_path: Path) -> None:
    write_runs(tmp_path, Sketch(samples=3, models=(("alpha", 0.9),)))

    data = page_data(run_folders(tmp_path), tmp_path)
    tables = next(one for one in data.sections if one.name == "leaderboard").tables
    names = {column["name"] for table in tables for column in table.columns}
    assert {"accuracy", "mean f1"} <= names
    assert "value" not in names


def test_costs_have_no_column_that_no_run_fills_and_no_price_of_controls(tmp_path: Path) -> None:
    data = page_data(kept_runs(tmp_path, oracle=perfect()), tmp_path)
    [table] = next(one for one in data.sections if one.name == "cost").tables
    assert [column["name"] for column in table.columns] == ["task", "run"]
