"""The page of the papers: every item has its row, and its commands run on what is at hand."""

import csv
import io
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from support.packages import needs
from support.released_layouts import write_split
from support.tiny_mpnet import write_mpnet
from support.training_pairs import invented

from harness.cli import main
from harness.library import load_runs
from harness.registry import shipped_home

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/papers.md").read_text("utf-8")
ITEMS = {"ImpScore": 23, "Emphasized-Talk": 14, "Intent resolution": 14, "ISHate": 16}
RUNS = (
    ("intent_resolution", "--variant base,cot0 --judge ngram-cosine --limit 4"),
    ("intent_detection_pairs", "--limit 4"),
    ("ishate_implicit", "--limit 6"),
    ("ishate_subtle", "--limit 6"),
)
SENTENCES = ("Close the window.", "It is cold in here.", "I like this tea.", "A bus came late.")


def rows(paper: str) -> list[tuple[str, list[str], str, str]]:
    """The items of a paper: item, commands, status, and what was run."""
    part = PAGE.split(f"\n## {paper}\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part.splitlines()
        if line.startswith("| ") and not line.startswith("| item ")
    ]
    return [(item, re.findall("`([^`]+)`", own), word, said) for item, own, word, said in cells]


def every_command() -> list[str]:
    own = [command for paper in ITEMS for _, found, *_ in rows(paper) for command in found]
    return list(dict.fromkeys(own))


def test_every_item_of_every_paper_has_its_row_and_status() -> None:
    assert {paper: len(rows(paper)) for paper in ITEMS} == ITEMS
    every = [row for paper in ITEMS for row in rows(paper)]
    assert {status for *_, status, _ in every} <= {"whole", "part", "none"}
    assert [item for item, own, status, _ in every if bool(own) != (status != "none")] == []
    assert [item for item, _, status, said in every if status == "part" and ";" not in said] == []


def test_every_figure_named_is_one_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.split()}

    named = [text.split()[2] for text in every_command() if text.startswith("harness plot ")]
    assert len(named) > 10
    assert [name for name in named if name not in listed] == []


def words(command: str) -> tuple[list[str], str]:
    """The words behind `harness`, and the file that the output goes to, if any."""
    line, _, target = command.partition(" > ")
    program, *rest = shlex.split(line)
    assert program == "harness"
    return rest, target


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    pairs = [
        {"topic": one.group, "implicit": one.implicit, "explicit": one.explicit}
        for one in invented(graded=False)
    ]
    graded = [{"topic": "cold", "levels": list(SENTENCES)}]
    choice = {"topic": "cold", "sentence": SENTENCES[1], "choices": SENTENCES[::2], "answer": 0}
    for name, lines in (("pairs", pairs), ("graded", graded), ("closest", [choice])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(SENTENCES) + "\n")
    labelled = "".join(f"One{n} other{n} text{n}.,{'ab'[n % 2]}\n" for n in range(20))
    (tmp_path / "labelled.csv").write_text("text,label\n" + labelled)
    for name in ("fit", "levels", "order"):
        rated = f"task,sample_id,model,rater,value,scale\nimpscore_{name},cold,home,lin,4,pairs\n"
        (tmp_path / f"{name}-rated.csv").write_text(rated)
    ranks = "".join(
        f"impscore_levels,cold,{n},{who},{n},levels\n"
        for who in ("ann", "ben")
        for n in range(1, 5)
    )
    (tmp_path / "rankings.csv").write_text(f"task,sample_id,model,rater,value,scale\n{ranks}")
    (tmp_path / "posts.csv").write_text("post,targetStereotype\nIt is cold.,Close it.\n")
    head = "setting,value,seed,kept_epoch,implicitness,pragmatics\n"
    (tmp_path / "ablation.csv").write_text(head + "form,p2s cosine euclidean,0,3,0.95,0.96\n")
    return tmp_path


def run_all(task: str, options: str) -> None:
    several = {"intent_resolution": "oracle,random", "emphasized_talk": "oracle,blind"}
    models = several.get(task, "oracle")
    assert main(["run", "--task", task, "--model", models, *options.split()]) in (0, 1)


def rate(folder: Path) -> None:
    """Two made-up raters of all answers of a task."""
    lines = ["task,sample_id,model,rater,value,scale"]
    for run in load_runs(folder / "results"):
        if run.task == "emphasized_talk":
            for place, sample in enumerate(run.samples.sample_id.unique()):
                for rater, more in (("ann", 0), ("ben", 1)):
                    value = (place + more) % 3 + 2 * (run.model == "oracle")
                    lines.append(f"{run.task},{sample},{run.model},{rater},{value},marker:quotes")
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")


def failures(commands: Sequence[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The commands that end in a mistake of the user or of the program."""
    wrong = []
    for command in commands:
        line, target = words(command)
        capsys.readouterr()
        code = main(line)
        told = capsys.readouterr()
        if target:
            Path(target).write_text(told.out)
        wrong += [f"{command}: {code} {told.err[-300:]}"] if code not in (0, 1) else []
    return wrong


def of_runs() -> list[str]:
    """The commands of tables that are made of runs.

    Those of data need what `harness data fetch` downloads, those of JSON a scorer.
    """
    made = [text for text in every_command() if text.startswith("harness table ")]
    return [text for text in made if not re.search(r"ishate-([124]|agreement)|\.json\b", text)]


@pytest.mark.slow
def test_tables_of_runs_are_of_samples(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for task, options in RUNS:
        run_all(task, options)
    kept = [text for text in of_runs() if "ratings.csv" not in text and "ishate-6" not in text]
    (place / "forms").mkdir()
    (place / "ablation.csv").rename(place / "forms/ablation.csv")

    assert len(kept) > 6
    assert failures(kept, capsys) == []


def test_texts_are_split_cleaned_labelled(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("data split", "data clean", "sheet labels", "sheet read-labels")
    made = [c for c in every_command() if c.removeprefix("harness ").startswith(own)]

    assert len(made) == 4
    assert failures(made, capsys) == []
    assert {path.name for path in place.glob("parts/*.csv")} == {"train.csv", "dev.csv", "test.csv"}


@pytest.mark.slow
def test_labelled_texts_of_both_are_placed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [c for c in every_command() if c.startswith("harness plot ishate-")]

    assert len(made) == 2
    assert failures(made, capsys) == []
    for name, labels in (("places", "explicit"), ("places-2", "subtle")):
        assert f"{labels} (n=12)" in (place / f"{name}.csv").read_text()


@pytest.mark.slow
def test_ratings_go_out_in_portions_with_what_their_study_shows(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "configs/judges").mkdir(parents=True)
    near = (ROOT / "configs/judges/minilm-contrast.yaml").read_text("utf-8")
    own = near.replace("{kind: minilm}", "{kind: char-ngrams}")
    (place / "configs/judges/ngrams.yaml").write_text(own, "utf-8")
    run_all("emphasized_talk", "--judge ngrams --limit 25")
    run_all("intent_resolution", "--variant base --judge ngram-cosine --limit 4")
    rated = [text for text in every_command() if text.startswith("harness sheet ratings ")]
    assert len(rated) == 2

    for task, text in zip(("emphasized_talk", "intent_resolution"), rated, strict=True):
        command = text.replace("RUN", f"{task}/oracle")
        assert failures([f"{command} -o {task}.csv"], capsys) == []

    portions = sorted(path.name for path in place.glob("emphasized_talk-*-*.csv"))
    assert portions == [f"emphasized_talk-{r}-{n}.csv" for r in ("ann", "bob", "cyd") for n in "12"]
    first = (place / portions[0]).read_text("utf-8-sig")
    assert len(list(csv.reader(io.StringIO(first)))) == 1 + 20
    assert len(list(place.glob("intent_resolution-?.csv"))) == 9
    assert "What is meant: " in (place / "intent_resolution-a.csv").read_text("utf-8-sig")


def test_the_true_reply_of_a_chain_sees_the_story_and_the_literal_one_does_not() -> None:
    [chains] = [text for text in every_command() if text.startswith("harness build chains ")]
    job = yaml.safe_load((ROOT / "configs/builds" / f"{chains.split()[2]}.yaml").read_text("utf-8"))
    seen = {step["name"]: set(step["sees"].values()) for step in job["steps"]}

    assert seen["turn2_true"] >= {"context", "turn1_true"}
    assert seen["turn1_true"] >= {"context", "true_intention"}
    assert not {"context", "true_intention"} & (seen["turn1_literal"] | seen["turn2_literal"])
    assert "turn1_literal" in seen["turn2_literal"]


@pytest.mark.slow
def test_tables_of_ratings_are_of_samples(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_all("emphasized_talk", "--judge minilm-bertscore --limit 6")
    rate(place)

    rated = [text for text in of_runs() if "ratings.csv" in text]
    assert len(rated) > 1
    assert failures(rated, capsys) == []
    assert main(["table", "emphasized-talk-1", "--ratings", "ratings.csv"]) == 0
    shown = capsys.readouterr().out
    assert "people (MOS)" in shown
    assert "Spearman with people" in shown


@pytest.mark.slow
def test_the_other_commands_run_on_samples(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    others = [text for text in every_command() if not text.startswith("harness table ")]
    # These ask a hosted model, need weights that are not here, train for long, or draw many texts.
    costly = "build |llm2vec|gpt-4o|--data-mode|--grid|harness plot|harness train |--training"
    costly += "|stress"  # reads the turns of `build turns`; tests/cli/test_stress_sheets.py runs it
    kept = [text for text in others if not re.search(costly, text)]
    plain = [text for text in kept if "RUN" not in text and "ratings.csv" not in text]
    read = [text for text in plain if " read-ratings " in text]

    assert len(plain) > 10
    assert failures([text for text in plain if text not in read], capsys) == []
    for name, mark in {"fit": "fits", "levels": 2, "order": 2}.items():
        [head, *lines] = (place / f"{name}.csv").read_text("utf-8-sig").splitlines()
        (place / f"{name}.csv").write_text("\n".join([head, *(f"{line}{mark}" for line in lines)]))
    assert failures(read, capsys) == []
    tables = [text for text in every_command() if ".json" in text and "table" in text]
    assert len(tables) > 3
    assert failures(tables, capsys) == []


STAND_IN = "kind: classifier\nmodel: {}\nepochs: 1\nmax_tokens: 16\ndevice: cpu\n"
TOPICS = ("bread", "ferry", "lamp", "snow", "violin", "orchard", "bridge", "letter")
LINES = {
    "N": "The {} is ready and everybody is glad.",
    "E": "I cannot bear that awful {}.",
    "I": "What a surprise, another {}.",
    "S": "One does get used to the {}, in time.",
}


@pytest.fixture
def trainable(place: Path) -> Path:
    """A folder of data in the layout of ISHate, and small stand-ins for checkpoints of the hub."""
    base = write_mpnet(place / "base", is_normalised=False)
    for name in ("bert-base", "hatebert", "deberta-v3-base"):
        path = place / "configs" / "models" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STAND_IN.format(base))
    # The Universal Sentence Encoder is a package of its own.
    stand_in = shipped_home() / "configs/models/minilm-svm-rbf.yaml"
    (path.parent / "use-svm-rbf.yaml").write_text(stand_in.read_text("utf-8"))
    (data := place / "data" / "ishate").mkdir(parents=True)
    for split, topics in (("train", TOPICS[:5]), ("dev", TOPICS[5:])):
        texts = [(line.format(topic), at) for topic in topics for at, line in LINES.items()]
        made = [(f"{text} {way}", at, way) for text, at in texts[1:] for way in ("rne", "bt")]
        own = [(text, at, "orig") for text, at in texts]
        write_split(data, split, own + made if split == "train" else own)
    return place


@pytest.mark.slow
@needs("sklearn")
def test_classifiers_train_as_said(trainable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = [one for one in every_command() if re.search("harness train |--training", one)]
    trained = [one for one in wanted if not re.search("gpt-4o|ishate_bt", one)]
    tables = [f"harness table ishate-{number}" for number in (3, 5, 6)]

    assert len(trained) == 5
    assert failures([f"{text} --data data" for text in trained], capsys) == []
    assert failures(tables, capsys) == []
    capsys.readouterr()
    assert main(["table", "ishate-6"]) == 0
    shown = capsys.readouterr().out
    for model in ("bert-base", "hatebert", "deberta-v3-base", "use-svm-rbf"):
        assert all(f"{model}{arm} " in shown for arm in ("", "+bt", "+rne", "+all"))
