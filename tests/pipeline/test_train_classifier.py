"""Tables to trained classifiers and their runs, on a table of our own, from end to end."""

import csv
import re
from pathlib import Path

import pytest
from support.packages import needs
from support.tables_of_talk import TOPICS, Talk, build, talk

from harness.cli import main
from harness.errors import HarnessError, SpecError
from harness.models.local.classifiers import TRAINED_ON, TrainedClassifier, read_trained
from harness.parts import Reason
from harness.pipeline.lessons import TrainOptions
from harness.pipeline.train_classifier import train
from harness.storage.runs import SampleRecord

pytestmark = needs("sklearn")


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
    """Each value in scores.csv by group and metric."""
    with toy.run.scores.open(encoding="utf-8", newline="") as file:
        return {(row["group"], row["metric"]): row["value"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("model", ["grams-svm", "grams-logistic"])
def test_what_was_trained_is_evaluated_like_any_model(toy: Talk, model: str) -> None:
    assert toy.harness("train", model, "--task", "talk") == 0

    rows = evaluated(toy, model)

    assert [row.verdicts["gold"].value for row in rows] == [1.0] * 12
    assert float(told(toy)["all", "macro_f1"]) == 1.0


def test_tables_on_screen_say_that_a_classifier_gives_labels_and_files_stay_comparable(
    toy: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(toy)
    evaluated(toy)

    assert ": accuracy, label\n" in capsys.readouterr().out
    assert [row.decoding for row in toy.run.read_rows()] == ["logprob"] * 12


def test_a_logistic_regression_tells_probabilities_of_the_labels(toy: Talk) -> None:
    trained(toy, "grams-logistic")

    shares = [row.verdicts["gold"].shares for row in evaluated(toy, "grams-logistic")]

    assert all(sum(part) == pytest.approx(1) and max(part) < 1 for part in shares)


def test_a_support_vector_machine_tells_scores_and_no_probability(toy: Talk) -> None:
    trained(toy)

    rows = evaluated(toy)

    assert all(row.verdicts["gold"].shares == () for row in rows)
    assert not {"prob_right", "accuracy_per_byte", "accuracy_per_character"} & {
        metric for _, metric in told(toy)
    }
    assert set(rows[0].steps[-1].detail) == {"score_non", "score_open", "score_hidden"}


def test_one_seed_gives_the_same_bytes(toy: Talk) -> None:
    first, second = (trained(toy, out=toy.folder / name) for name in ("a", "b"))

    for name in ("card.json", "texts.txt", "head.safetensors"):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()


def test_another_training_is_another_model(toy: Talk) -> None:
    first = trained(toy).card
    toy.rows("train.csv", talk(TOPICS[:3]))

    assert trained(toy).card.digest != first.digest


@pytest.mark.parametrize(
    ("methods", "rows"),
    [((), 12), (("swap",), 24), (("swap", "echo"), 36), (("all",), 36)],
)
def test_made_rows_join_by_method(toy: Talk, methods: tuple[str, ...], rows: int) -> None:
    made = [line for way in ("swap", "echo") for line in _made(way)]
    toy.rows("train.csv", talk(TOPICS[:4]) + made)

    card = trained(toy, augment=methods).card

    assert sum(card.rows.values()) == min(rows, 12 + 8 * len(set(card.made)))
    assert sorted(card.made) == sorted({"swap", "echo"} if "all" in methods else methods)


def _made(way: str) -> list[tuple[str, str, str, str]]:
    """Rows made of others: those without a label in this layer among them."""
    return [(f"{text} {way}", kind, way, "") for text, kind, _, _ in talk(TOPICS[:4])]


def test_a_made_row_without_a_label_of_this_layer_is_no_row_of_the_first_class(toy: Talk) -> None:
    toy.rows("train.csv", talk(TOPICS[:4]) + _made("swap"))

    assert trained(toy, augment=("swap",)).card.rows == {"non": 4, "open": 8, "hidden": 8}


def test_evaluating_on_what_was_trained_on_is_refused(
    toy: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(toy)
    toy.rows("dev.csv", talk(TOPICS[:4]))

    assert toy.harness("run", "--task", "talk", "--model", "grams-svm") == 2
    assert "trained on 12 of these 12 texts" in capsys.readouterr().err


def test_a_few_texts_that_were_trained_on_are_told_of(
    toy: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(toy)
    shouted = [(text.upper() + "!!", *rest) for text, *rest in talk(TOPICS[:1])]
    toy.rows("dev.csv", [*shouted, *talk(TOPICS[4:])])  # type: ignore[list-item]  # four texts

    rows = evaluated(toy)

    assert "trained on 3 of these 15 texts" in capsys.readouterr().err
    assert [row.steps[-1].detail.get(TRAINED_ON) for row in rows] == [1.0] * 3 + [None] * 12


def test_only_texts_that_are_asked_count_as_trained_on(
    toy: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(toy)
    toy.rows("dev.csv", [*talk(TOPICS[:1]), *talk(TOPICS[4:])])

    assert toy.harness("run", "--task", "talk", "--model", "grams-svm", "--limit", "6") == 0

    details = [row.steps[-1].detail for row in toy.run.read_rows()]
    seen = sum(TRAINED_ON in one for one in details)
    assert 0 < seen < 3
    assert f"trained on {seen} of these 6 texts" in capsys.readouterr().err


def test_a_dry_run_shows_texts_and_no_prompt_where_none_is_read(
    toy: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(toy)

    toy.harness("run", "--task", "talk", "--model", "grams-svm", "--dry-run")

    out = capsys.readouterr().out
    assert f"an example\n[user]\n{talk(TOPICS[4:])[0][0]}\n" in out
    assert "[choices]" not in out
    assert re.search(r"talk +\w+ +\w+ +12 +0 +0 +0\n", out)


def test_what_was_trained_for_a_task_answers_its_perturbed_texts(
    toy: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
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
def test_a_perturbed_task_is_trained_for_by_its_original(
    toy: Talk, capsys: pytest.CaptureFixture[str], command: str
) -> None:
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
    ],
)
def test_what_cannot_be_done_is_told_with_its_remedy(
    toy: Talk, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    assert toy.harness(*words) == 2
    assert named in capsys.readouterr().err


def test_a_class_without_a_text_is_refused(toy: Talk) -> None:
    toy.rows("train.csv", [line for line in talk(TOPICS[:4]) if line[1] != "open"])

    with pytest.raises(HarnessError, match="class 'open'"):
        trained(toy)


@pytest.mark.parametrize("name", ["card.json", "head.safetensors", "texts.txt"])
def test_a_damaged_folder_is_refused(toy: Talk, name: str) -> None:
    folder = trained(toy).folder
    (folder / name).write_bytes(b"\xff\x00")

    with pytest.raises(HarnessError, match="train grams-svm"):
        read_trained(folder, model="grams-svm", task="talk")


def test_a_yaml_that_has_changed_since_is_refused(
    toy: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(toy)
    toy.model("grams-svm", "{kind: sklearn, head: svm, encoder: {kind: char-ngrams}, c: 3}")

    assert toy.harness("run", "--model", "grams-svm", "--task", "talk") == 2
    assert "c 9" in capsys.readouterr().err


def test_a_model_that_gives_labels_is_no_writer(toy: Talk) -> None:
    registry = toy.space.registry

    with pytest.raises(SpecError, match="writes nothing"):
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
