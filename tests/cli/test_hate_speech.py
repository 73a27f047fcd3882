"""The task hate_speech from the command line: tables, scorers, alarms, curves, refusals."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.impscore_heads import random_head
from support.stub_server import StubServer
from support.toy import Lines, Toy

from harness.cli import main
from harness.errors import ExitCode
from harness.implicitness.scorer import save_head
from harness.pipeline.score import all_scores
from harness.registry import shipped_home
from harness.storage.runs import RunFolder, ScoreRow, read_table


@pytest.fixture
def scorer(tmp_path: Path) -> str:
    """A head without meaning, on an encoder that needs no weights."""
    pytest.importorskip("safetensors")
    return str(save_head(random_head(), tmp_path / "random.json"))


def run(toy: Toy, scorer: str, *options: str, model: str = "oracle") -> int:
    return toy.main("run", "--task", "hate_speech", "--model", model, "--scorer", scorer, *options)


def scores(toy: Toy, place: int = 0) -> list[ScoreRow]:
    return all_scores(RunFolder(toy.runs()[place]))


def value(rows: Sequence[ScoreRow], metric: str) -> float | None:
    [row] = [r for r in rows if (r.score.metric, r.score.group) == (metric, "all")]
    return row.score.value


def table(toy: Toy, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    path = toy.folder / name
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


RATED = [(f"Text number {n}.", str(1 + n % 5), str(n % 20 / 10)) for n in range(40)]


@pytest.mark.parametrize(
    ("model", "fact"),
    [
        ("always", "nearly every text is flagged, whatever its kind (TPR 1.000, FPR 1.000, AUC"),
        ("never", "nearly no text is flagged, whatever its kind (TPR 0.000, FPR 0.000, AUC"),
        ("oracle", ""),
        ("constant-yes", ""),
    ],
)
def test_a_constant_answer_sounds_the_alarm_once_but_for_controls_that_are_meant_to_be_so(
    toy: Toy, model: str, fact: str, capsys: Lines
) -> None:
    for name, policy in (("always", "constant-yes"), ("never", "constant-no")):
        toy.write(f"configs/models/{name}.yaml", f"{{about: a, kind: scripted, policy: {policy}}}")
    run(toy, "none", model=model)

    said = capsys.readouterr()
    assert "; the better constant answer has accuracy 0.500\n" in said.out
    alarms = [line for line in said.err.splitlines() if line.startswith("alarm")]
    assert [fact in line for line in alarms] == ([True] if fact else [])


def test_alarms_on_several_data_name_the_data(toy: Toy, scorer: str, capsys: Lines) -> None:
    path = table(toy, "rated.csv", ("text", "toxicity_human", "intent"), RATED)
    toy.write("configs/models/always.yaml", "{about: a, kind: scripted, policy: constant-yes}")
    run(toy, scorer, model="always")
    run(toy, scorer, "--data", str(path), "--map", "toxigen", model="always")
    capsys.readouterr()

    main(["leaderboard", "--results", str(toy.results)])

    found = re.findall(r"alarm: (.*?): nearly", capsys.readouterr().err)
    assert len(found) == len(set(found)) == 2
    assert all(", base, data:" in name for name in found)


def test_what_is_said_of_data_is_said_once_for_several_models(toy: Toy, capsys: Lines) -> None:
    path = table(toy, "rated.csv", ("text", "toxicity_human", "intent"), [*RATED, ("", "1", "1")])
    run(toy, "none", "--data", str(path), "--map", "toxigen", model="oracle,random")

    assert len(toy.runs()) == 2
    assert capsys.readouterr().err.count("1 of 41 rows left out: no text") == 1


def test_the_scorer_is_in_signatures_and_samples_and_another_asks_nothing_again(
    toy: Toy, scorer: str
) -> None:
    run(toy, scorer, model="random")

    named = r"\|data:sample:\w{8}\+random@\w{8},all\|"
    assert all(re.search(named, row.signature) for row in scores(toy))
    [folder] = toy.runs()
    assert all("implicitness" in r.sample.references for r in RunFolder(folder).read_rows())
    assert run(toy, "none", "--offline", model="random") == 0
    assert len(toy.runs()) == 2
    groups = [{r.score.group for r in scores(toy, place)} for place in (0, 1)]
    assert sorted(any("[" in group for group in part) for part in groups) == [False, True]


# Tables of one's own


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_table_is_read_by_a_shipped_map(toy: Toy, scorer: str, place: str) -> None:
    path = table(toy, "toxigen/rated.csv", ("text", "toxicity_human", "intent"), RATED)
    data = path if place == "file" else toy.folder

    assert run(toy, scorer, "--data", str(data), "--map", "toxigen") == 0

    file = RunFolder(toy.runs()[0]).read()
    assert (file.data.source, file.samples, file.data.mode) == ("toxigen", 40, "released")
    rows = scores(toy)
    counts = {r.score.metric: r.score.n for r in rows if r.score.group == "all"}
    assert (counts["tpr"], counts["fpr"]) == (24, 16)  # ratings of 3, 4 and 5; of 1 and 2


def test_a_column_of_implicitness_is_used_where_the_map_names_it(toy: Toy) -> None:
    path = table(toy, "rated.csv", ("text", "toxicity_human", "i"), RATED)
    mine = toy.write(
        "mine.yaml",
        """
        about: Mine.
        source: mine
        text: text
        label: {column: toxicity_human, at_least: 3}
        implicitness: i
        """,
    )

    options = ("--data", str(path), "--map", str(mine))
    code = toy.main("run", "--task", "hate_speech", "--model", "oracle", *options)

    assert code == 0
    assert all("+column,all|" in row.signature for row in scores(toy))


def test_a_changed_map_is_other_data(toy: Toy, scorer: str) -> None:
    path = table(toy, "rated.csv", ("text", "toxicity_human", "i"), RATED)
    text = "about: {}\nsource: mine\ntext: text\nlabel: {{column: toxicity_human, at_least: {}}}\n"
    signatures = []
    for about, threshold in (("a", 3), ("b", 3), ("b", 4)):
        mine = toy.write("mine.yaml", text.format(about, threshold))
        run(toy, scorer, "--data", str(path), "--map", str(mine))
        signatures.append(
            {r.signature.split("|")[1] for p in toy.runs() for r in read_table(p / "scores.csv")}
        )

    assert [len(found) for found in signatures] == [1, 1, 2]


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("hate_speech", ("--map", "toxigen"), "--map toxigen: no table of its data"),
        ("hate_speech", ("--map", "toxygen"), "did you mean toxigen"),
        ("toy", ("--map", "toxigen"), "task toy reads no table"),
        ("toy", ("--data", "FILE"), "no folder 'toys' in it"),
        ("hate_speech", ("--data", "FILE", "--map", "dghsd"), "no column 'label'"),
        ("hate_speech", ("--data", "EMPTY", "--map", "toxigen"), "no table of its data"),
    ],
)
def test_data_that_does_not_fit_is_refused_with_the_remedy(
    toy: Toy, task: str, options: tuple[str, ...], told: str, capsys: Lines
) -> None:
    path = table(toy, "rated.csv", ("text", "toxicity_human", "intent"), RATED)
    (toy.folder / "empty" / "toxigen").mkdir(parents=True)
    named = {"FILE": str(path), "EMPTY": str(toy.folder / "empty")}
    given = [named.get(part, part) for part in options]

    assert toy.main("run", "--task", task, "--model", "oracle", *given) == 2

    assert told in " ".join(capsys.readouterr().err.split())


# Answers in writing


@pytest.mark.parametrize(
    ("said", "reason"), [("No, I can't help with that", "refused"), ("yes and no", "unparsed")]
)
def test_no_answer_is_missing_not_no(toy: Toy, said: str, reason: str, stub: StubServer) -> None:
    stub.reply = lambda prompt: said
    run(toy, "none", "--answers", "written", "--limit", "16", model="alpha")

    rows = [r.score for r in scores(toy) if r.score.group == "all"]
    for score in (s for s in rows if s.metric in ("accuracy", "tpr", "fpr")):
        lost = {name: count for name, count in score.missing.items() if count}
        assert (score.n, list(lost)) == (0, [reason])


def test_answers_in_writing_may_have_three_tokens(toy: Toy, stub: StubServer) -> None:
    stub.reply = lambda prompt: "No."
    run(toy, "none", "--answers", "written", "--limit", "16", model="alpha")

    assert {body["max_tokens"] for body in stub.bodies} == {3}
    assert (value(scores(toy), "tpr"), value(scores(toy), "fpr")) == (0.0, 0.0)


def test_what_the_board_ranks_by_is_printed(toy: Toy, scorer: str, capsys: Lines) -> None:
    run(toy, scorer, model="random")
    out = capsys.readouterr().out
    assert re.findall(r" gold +(\w+) +[\d.]+ +[\d.]+ to ", out) == ["accuracy", "tpr", "fpr"]


@pytest.mark.slow
def test_a_curve_is_a_figure_of_all_runs(toy: Toy, scorer: str, tmp_path: Path) -> None:
    run(toy, scorer, model="random,constant-yes")
    out = tmp_path / "curve.svg"

    assert main(["plot", "curve", "--results", str(toy.results), "-o", str(out)]) == 0

    said = {e.text for e in ElementTree.parse(out).iter() if e.tag.endswith("text")}
    assert {"random", "constant-yes"} <= said
    assert any("lines are logistic with their 95% band" in (text or "") for text in said)


def test_a_moderation_task_of_ones_own_is_ranked_by_macro_f1(toy: Toy, capsys: Lines) -> None:
    """As docs/hate-speech.md says: `classes` in the place of `implicitness`."""
    text = (shipped_home() / "tasks" / "hate_speech.yaml").read_text("utf-8")
    mine = re.sub(r"(?m)^implicitness: .*$", "classes: {missed: [hateful]}", text)
    toy.write("tasks/moderation.yaml", mine)
    rows = [(f"Text {n} x{n}.", "hate" if n < 10 else "nothate", "none") for n in range(40)]
    file = table(toy, "mine.csv", ("text", "label", "type"), rows)
    options = ("--task", "moderation", "--data", str(file), "--map", "dghsd")

    assert toy.main("run", *options, "--model", "oracle,constant-no") == 0
    assert main(["leaderboard", "--task", "moderation", "--results", str(toy.results)]) == 0

    said = capsys.readouterr().out
    assert "moderation, base: macro F1 by gold" in said
    line, *_ = [one for one in said.splitlines() if one.split()[:2] == ["-", "constant-no"]]
    # By hand: F1 of benign is 60 / 70, and that of hateful 0.
    assert float(line.split()[2]) == pytest.approx(30 / 70, abs=5e-4)


@pytest.mark.slow
def test_a_gate_sees_that_the_few_texts_to_detect_are_missed(tmp_path: Path, capsys: Lines) -> None:
    rows = [f"Text {n} of them.,{int(n % 50 == 0)}" for n in range(1000)]
    (tmp_path / "rare.csv").write_text("text,verdict\n" + "\n".join(rows), "utf-8")
    classes = '{hateful: ["1"], benign: ["0"]}'
    map_ = (
        f"about: Rare.\nsource: rare\ntext: text\nlabel: {{column: verdict, classes: {classes}}}\n"
    )
    (tmp_path / "rare.yaml").write_text(map_, "utf-8")
    where = ("--results", str(tmp_path / "results"))
    data = ("--data", str(tmp_path / "rare.csv"), "--map", str(tmp_path / "rare.yaml"))
    models = ("--model", "oracle,constant-no", "--scorer", "none", *data)
    assert main(["run", "--task", "hate_speech", *models, *where]) == 0
    names = ("hate_speech/oracle", "hate_speech/constant-no")
    capsys.readouterr()

    assert main(["compare", "--gate", *names, "--all", *where]) == ExitCode.REGRESSION
    said = " ".join(capsys.readouterr().out.split())
    assert "base by gold, TPR: regression: the drop is more than 0.05; 1.000 before, 0.000" in said
    assert "base by gold, 1-FPR: pass" in said

    assert main(["compare", "--gate", *names, "--max-drop", "5", *where]) == 2
    assert "--max-drop 5: give a share, such as .05 for five points" in capsys.readouterr().err
