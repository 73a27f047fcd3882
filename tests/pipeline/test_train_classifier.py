"""Tables to trained classifiers and their runs, on a table of our own, from end to end."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support.packages import needs
from support.tables_of_talk import TOPICS, Talk, build, talk
from support.toy import Lines

from harness.cli import main
from harness.errors import HarnessError, SpecError
from harness.models.labels import NEARLY, TRAINED_ON
from harness.models.local.classifiers import TrainedClassifier, read_trained
from harness.parts import Reason
from harness.pipeline.score import all_scores
from harness.pipeline.training import TrainOptions, train
from harness.present.page.page import page_data
from harness.storage.find_runs import run_folders
from harness.storage.run_tables import SampleRecord

pytestmark = needs("sklearn")
RUN = ("run", "--task", "talk", "--model", "grams-svm")
GRID = ("train", "--grid", "--task", "talk", "--model")


@pytest.fixture
def toy(tmp_path: Path) -> Talk:
    return build(tmp_path)


def trained(toy: Talk, model: str = "grams-svm", **changes: object) -> TrainedClassifier:
    options = TrainOptions(model, "talk", **changes)  # type: ignore[arg-type]  # its own fields
    return train(toy.space, options, lambda *_: None)


def evaluated(toy: Talk, model: str = "grams-svm") -> list[SampleRecord]:
    assert toy.harness("run", "--task", "talk", "--model", model) == 0
    return toy.run.read_rows()


def told(toy: Talk) -> dict[tuple[str, str], str]:
    """Each value by group and metric."""
    scores = [row.score for row in all_scores(toy.run)]
    return {(score.group, score.metric): f"{score.value}" for score in scores}


@pytest.mark.parametrize("model", ["grams-svm", "grams-logistic"])
def test_what_was_trained_is_evaluated_like_any_model(toy: Talk, model: str) -> None:
    assert toy.harness("train", model, "--task", "talk") == 0
    rows = evaluated(toy, model)

    assert [row.verdicts["gold"].value for row in rows] == [1.0] * 12
    assert float(told(toy)["all", "macro_f1"]) == 1.0
    if model == "grams-logistic":  # which tells probabilities of the labels
        shares = [row.verdicts["gold"].shares for row in rows]
        assert all(sum(part) == pytest.approx(1) and max(part) < 1 for part in shares)


def test_a_support_vector_machine_gives_scores_no_probability(toy: Talk, capsys: Lines) -> None:
    trained(toy)

    rows = evaluated(toy)

    assert "talk, grams-svm: label\n" in capsys.readouterr().out
    assert [row.decoding for row in rows] == ["logprob"] * 12
    assert all(row.verdicts["gold"].shares == () for row in rows)
    assert not {"prob_right", "accuracy_per_byte", "accuracy_per_character"} & {
        metric for _, metric in told(toy)
    }
    assert set(rows[0].steps[-1].detail) - {NEARLY} == {"score_non", "score_open", "score_hidden"}


def test_one_seed_gives_the_same_bytes_and_other_texts_another_model(toy: Talk) -> None:
    first, second = (trained(toy, out=toy.folder / name) for name in ("a", "b"))

    for name in ("card.json", "texts.txt", "head.safetensors"):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()
    toy.rows("train.csv", talk(TOPICS[:3]))
    assert trained(toy).card.digest != first.card.digest


@pytest.mark.parametrize(
    ("methods", "rows"), [((), 12), (("swap",), 24), (("swap", "echo"), 36), (("all",), 36)]
)
def test_made_rows_join_by_method(toy: Talk, methods: tuple[str, ...], rows: int) -> None:
    made = [line for way in ("swap", "echo") for line in _made(way)]
    toy.rows("train.csv", talk(TOPICS[:4]) + made)

    card = trained(toy, augment=methods).card

    assert sum(card.rows.values()) == min(rows, 12 + 8 * len(set(card.made)))
    assert sorted(card.made) == sorted({"swap", "echo"} if "all" in methods else methods)
    # A made row without a label of this layer is no row of the first class.
    assert card.rows["non"] == 4


def _made(way: str) -> list[tuple[str, str, str, str]]:
    """Rows made of others: those without a label in this layer among them."""
    return [(f"{text} {way}", kind, way, "") for text, kind, _, _ in talk(TOPICS[:4])]


def test_evaluating_on_what_was_trained_on_is_refused(toy: Talk, capsys: Lines) -> None:
    trained(toy)
    toy.rows("dev.csv", talk(TOPICS[:4]))

    assert toy.harness(*RUN) == 2
    assert "trained on 12 of these 12 texts" in capsys.readouterr().err


def test_only_texts_that_are_asked_count_as_trained_on(toy: Talk, capsys: Lines) -> None:
    trained(toy)
    toy.rows("dev.csv", [*talk(TOPICS[:1]), *talk(TOPICS[4:])])

    assert toy.harness(*RUN, "--limit", "6") == 0

    details = [row.steps[-1].detail for row in toy.run.read_rows()]
    seen = sum(TRAINED_ON in one for one in details)
    assert 0 < seen < 3
    assert f"trained on {seen} of these 6 texts" in capsys.readouterr().err


def test_near_copies_of_training_texts_are_noticed(toy: Talk, capsys: Lines) -> None:
    trained(toy)
    toy.rows("dev.csv", [*talk(TOPICS[4:6])[:3], ("How cold that soup was.", "open", "own", "")])

    assert toy.harness(*RUN) == 0

    details = [row.steps[-1].detail for row in toy.run.read_rows()]
    assert [NEARLY in one for one in details] == [True, True, True, False]
    said = " ".join(capsys.readouterr().err.split())
    assert "3 of these 4 texts (non 1 of 1, open 1 of 2, hidden 1 of 1) share about six" in said
    card = toy.folder / "card.md"
    words = ("rates", "--card", "talk/grams-svm", "-o", str(card))
    assert toy.harness(*words) == 0
    assert "trained on near copies (six in ten words) of 3 of the 4 texts" in card.read_text()
    folders = run_folders(toy.folder / "results")
    page = page_data(folders, toy.folder / "results").sections
    alarms = next(one for one in page if one.name == "alarms").lines
    assert sum("3 of 4 texts share six in ten words or more" in line for line in alarms) == 1


def test_a_folder_without_sketches_is_used_and_trained_again(toy: Talk, capsys: Lines) -> None:
    one = trained(toy)
    rest = {name: of for name, of in one.card.checksums.items() if name != "sketches.bin"}
    card = msgspec.json.encode(replace(one.card, checksums=rest))
    (one.folder / "card.json").write_bytes(card)

    assert toy.harness(*RUN) == 0
    assert "near copies are not noticed; train it again" in capsys.readouterr().err
    assert trained(toy).sketches is not None


def test_a_dry_run_shows_texts_and_no_prompt_where_none_is_read(toy: Talk, capsys: Lines) -> None:
    trained(toy)

    toy.harness(*RUN, "--dry-run")

    out = capsys.readouterr().out
    assert f"an example\n[user]\n{talk(TOPICS[4:])[0][0]}\n" in out
    assert "[choices]" not in out
    assert re.search(r"talk +\w+ +\w+ +12 +0 +0 +0\n", out)


def test_what_was_trained_for_a_task_answers_its_perturbed_texts(toy: Talk, capsys: Lines) -> None:
    toy.harness("train", "grams-svm", "--task", "talk")
    toy.harness("perturb", "--task", "talk", "--method", "adverbs,eda")

    assert toy.harness("run", "--task", "talk_perturbed", "--model", "grams-svm") == 0

    capsys.readouterr()
    assert main(["perturb", "report", str(toy.run.path), "--results", str(toy.results)]) == 0
    assert "grams-svm on talk_perturbed, base (label), by gold" in capsys.readouterr().out
    [table] = (toy.results / "flips").glob("*.csv")
    lines = table.read_text("utf-8").splitlines()
    flips = {row["perturbation"]: row for row in csv.DictReader(lines)}
    assert (flips["adverbs"]["n"], flips["adverbs"]["original"]) == ("12", "1.0")


@pytest.mark.parametrize("command", ["train", "run"])
def test_a_perturbed_task_trains_by_its_original(toy: Talk, capsys: Lines, command: str) -> None:
    toy.harness("perturb", "--task", "talk", "--method", "adverbs")
    named = ["train", "grams-svm"] if command == "train" else ["run", "--model", "grams-svm"]

    assert toy.harness(*named, "--task", "talk_perturbed") == 2
    assert re.search("`harness train grams-svm --task talk[ `]", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["train", "oracle", "--task", "talk"], "kind sklearn or classifier"),
        (["train", "grams-svm", "--task", "ludwig"], "no table of labelled texts"),
        (["train", "grams-svm", "--task", "talk", "--augment", "echoes"], "no method 'echoes'"),
        (["run", "--model", "grams-svm", "--task", "talk"], "`harness train grams-svm --task talk"),
        (["run", "--model", "oracle+swap", "--task", "talk"], "oracle is not trained here"),
        ([*RUN[:-1], "grams-svm+swap"], "`harness train grams-svm+swap --task talk"),
        *(
            (["train", name, "--task", "talk"], f"no model {name!r}")
            for name in ("grams-svm+../../x", "grams-svm+a/b", "grams-svm+", "+bt")
        ),
        ([*GRID, "oracle"], "kind sklearn or classifier"),
        (["train", "--grid", "--model", "grams-svm", "--task", "hate_speech"], "no classes to"),
        ([*GRID, "fixed"], "leave `trained` out"),
        ([*GRID, "grams-svm", "--augment", "ecco"], "no method 'ecco'"),
    ],
)
def test_what_cannot_be_done_is_told_with_its_remedy(
    toy: Talk, capsys: Lines, words: list[str], named: str
) -> None:
    fixed = "{kind: sklearn, head: svm, encoder: {kind: char-ngrams}, trained: here}"
    toy.model("fixed", fixed)

    assert toy.harness(*words) == 2
    assert named in capsys.readouterr().err


def test_a_class_without_a_text_is_refused(toy: Talk) -> None:
    toy.rows("train.csv", [line for line in talk(TOPICS[:4]) if line[1] != "open"])
    with pytest.raises(HarnessError, match="class 'open'"):
        trained(toy)


@pytest.mark.parametrize("name", ["card.json", "head.safetensors", "texts.txt", "sketches.bin"])
def test_a_damaged_folder_is_refused(toy: Talk, name: str) -> None:
    folder = trained(toy).folder
    (folder / name).write_bytes(b"\xff\x00")

    with pytest.raises(HarnessError, match="train grams-svm"):
        read_trained(folder, model="grams-svm", task="talk")


def test_a_yaml_that_has_changed_since_is_refused(toy: Talk, capsys: Lines) -> None:
    trained(toy)
    toy.model("grams-svm", "{kind: sklearn, head: svm, encoder: {kind: char-ngrams}, c: 3}")

    assert toy.harness(*RUN) == 2
    assert "c 9" in capsys.readouterr().err


def test_a_model_that_gives_labels_is_no_writer(toy: Talk) -> None:
    registry = toy.space.registry
    with pytest.raises(SpecError, match="labels texts; name one that answers prompts"):
        registry.model("grams-svm", registry.load("configs/models", "grams-svm"))


def test_a_missed_text_is_counted_by_its_property(toy: Talk) -> None:
    trained(toy)
    says = "The bridge is ready and everybody is glad of it."
    toy.rows("dev.csv", [*talk(TOPICS[4:]), (says, "hidden", "own", '["Irony", "Context"]')])

    rows = evaluated(toy)

    assert rows[-1].verdicts["gold"].reason is not Reason.REFUSED
    assert told(toy)["all", "missed_hidden"] == "1.0"
    assert told(toy)["properties Irony", "missed_hidden"] == "1.0"
    assert told(toy)["properties Context", "missed_hidden"] == "1.0"


@pytest.fixture
def with_made(toy: Talk) -> Talk:
    """The toy table with rows made by two methods."""
    made = [line for way in ("swap", "echo") for line in _made(way)]
    toy.rows("train.csv", talk(TOPICS[:4]) + made)
    return toy


def test_each_augmentation_is_a_model_of_its_own(with_made: Talk) -> None:
    trained(with_made)
    trained(with_made, augment=("swap",))

    for name, made in (("grams-svm", {}), ("grams-svm+swap", {"swap": 8})):
        folder = with_made.results / "trained" / name / "talk"
        assert read_trained(folder, model=name, task="talk").card.made == made
        assert with_made.harness("run", "--task", "talk", "--model", name) == 0
    assert len(run_folders(with_made.results)) == 2


def test_perturbed_training_texts_of_rarer_classes_are_trained_on(toy: Talk) -> None:
    lines = talk(TOPICS[:4])
    toy.rows("train.csv", [*lines, *[(f"{t} again", k, w, p) for t, k, w, p in lines if not k]])
    perturb = ["perturb", "--task", "talk", "--training", "--method", "adverbs,eda_swap"]
    assert toy.harness(*perturb) == 0

    card = trained(toy, augment=("talk_training",)).card

    assert card.model == "grams-svm+talk_training"
    assert set(card.made) == {"adverbs", "eda_swap"}
    assert sum(card.rows.values()) == 16 + sum(card.made.values())
    assert card.rows["non"] == 8
    assert max(card.made.values()) <= 4 + 4  # each as frequent as the commonest
    assert "talk_training.jsonl" in card.files
    assert toy.harness("run", "--task", "talk", "--model", card.model) == 0


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("talk_perturbed", r"12 of its 12 copies .* not trained on.*--training"),
        ("ludwig", "ludwig: that task was not made of talk"),
    ],
)
def test_texts_not_of_the_training_are_no_augmentation(toy: Talk, task: str, why: str) -> None:
    toy.harness("perturb", "--task", "talk", "--method", "adverbs")
    with pytest.raises(SpecError, match=why):
        trained(toy, augment=(task,))


def test_oversampling_makes_all_classes_equally_frequent(toy: Talk) -> None:
    lines = talk(TOPICS[:4])
    toy.rows("train.csv", [*lines, *[(f"{t} again", k, w, p) for t, k, w, p in lines if not k]])

    plain, balanced = trained(toy), trained(toy, is_oversampled=True)

    assert plain.card.rows == {"non": 8, "open": 4, "hidden": 4}
    assert balanced.card.rows == {"non": 8, "open": 8, "hidden": 8}
    assert balanced.card.model == "grams-svm+oversampled"
    assert plain.card.digest != balanced.card.digest


@pytest.mark.slow
def test_a_grid_trains_and_evaluates_every_cell(with_made: Talk, capsys: Lines) -> None:
    assert with_made.harness(*GRID, "grams-svm,grams-logistic", "--json") == 0

    rows = json.loads(capsys.readouterr().out)
    arms = ["none", "echo", "swap", "all"]
    assert [(row["model"], row["augmentation"]) for row in rows] == [
        (model, arm) for model in ("grams-svm", "grams-logistic") for arm in arms
    ]
    names = {f"grams-{head}{arm}" for head in ("svm", "logistic") for arm in NAMES}
    assert {folder.path.parent.name for folder in run_folders(with_made.results)} == names
    assert {row["label"] for row in rows} == {"hidden"}
    assert all(row["f1"] == row["macro_f1"] == 1.0 for row in rows)


NAMES = ("", "+echo", "+swap", "+all")


@pytest.mark.slow
def test_a_grid_that_goes_on_trains_nothing_again(with_made: Talk, capsys: Lines) -> None:
    words = (*GRID, "grams-svm", "--augment", "none,echo+swap")
    assert with_made.harness(*words) == 0
    first = capsys.readouterr().out
    folder = with_made.results / "trained"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")}

    assert with_made.harness(*words) == 0

    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")} == before
    assert capsys.readouterr().out == first
    assert "echo+swap " in first
    with_made.harness(*words, "--seed", "42")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")} != before


def test_a_grid_counts_the_texts_that_nearly_are_trained_on(toy: Talk, capsys: Lines) -> None:
    """A made row may be a rewording of a text that is evaluated: what finds it is no evidence."""
    text = "Nobody wonders where our spoons have gone since Monday"
    own = talk(TOPICS[:3])[:2] + [(f"Well {n}, {n} indeed.", "hidden", "own", "") for n in "ab"]
    toy.rows("train.csv", [*own, (f"{text}, dear.", "hidden", "bt", "")])
    rows = [(f"{text}.", "hidden", "own", ""), ("Splendid weather again.", "hidden", "own", "")]
    toy.rows("dev.csv", [*rows, *talk(TOPICS[4:5])])
    words = (*GRID, "grams-svm", "--augment", "none,bt")

    assert toy.harness(*words, "--json") == 0

    shown = capsys.readouterr()
    found = {row["augmentation"]: row for row in json.loads(shown.out)}
    assert {arm: (row["near"], row["texts"]) for arm, row in found.items()} == {
        "none": (0, 3),
        "bt": (1, 3),
    }
    near = "(hidden 1 of 3, non 1 of 1, open 1 of 1) share about six in ten words with a text that"
    assert f"{near} model grams-svm+bt was trained on" in " ".join(shown.err.split())
    assert toy.harness(*words) == 0
    assert "1 of 3" in capsys.readouterr().out


def test_a_grid_on_one_file_is_refused_before_training(with_made: Talk, capsys: Lines) -> None:
    with_made.rows("mine.csv", talk(TOPICS))
    [file] = with_made.folder.rglob("mine.csv")
    own = ("--home", str(with_made.folder / "home"), "--results", str(with_made.results))

    assert main([*GRID, "grams-svm", "--data", str(file), *own]) == 2

    said = " ".join(capsys.readouterr().err.split())
    assert "on which a grid would train and evaluate" in said
    assert "`train` and `files`" in said
    assert not (with_made.results / "trained").exists()


def test_vectors_of_one_augmentation_are_found_again_by_another(with_made: Talk) -> None:
    folder = with_made.folder / "cache" / "vectors"

    def stored() -> set[Path]:
        return set(folder.rglob("*.npy"))

    for arm in ("", "+swap", "+echo", "+all", "+all+oversampled"):
        before = stored()
        trained(with_made, model=f"grams-svm{arm}")
        # Three labels without an augmentation, two with each; `all` has nothing new.
        assert len(stored() - before) == {"": 3, "+swap": 2, "+echo": 2}.get(arm, 0)
