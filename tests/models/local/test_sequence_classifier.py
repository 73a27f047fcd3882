"""Sequence classifiers trained and run on a tiny random checkpoint, from end to end."""

from pathlib import Path

import pytest
from support.tables_of_talk import Talk, build
from support.tiny_mpnet import write_mpnet

from harness.errors import HarnessError, ModelError
from harness.models.labels import LabelQuestions
from harness.models.local.classifiers import TrainedClassifier
from harness.models.local.sequence_classifiers import SequenceClassifier
from harness.pipeline.training import TrainOptions, train
from harness.specs.models import ClassifierSpec
from harness.storage.run_tables import SampleRecord

FAST = "epochs: 40, learning_rate: 0.002, batch: 4, max_tokens: 40, device: cpu"
BRIEF = FAST.replace("epochs: 40", "epochs: 4")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mpnet(tmp_path_factory.mktemp("base"), is_normalised=False)


@pytest.fixture
def toy(tmp_path: Path, base: Path) -> Talk:
    made = build(tmp_path)
    made.model("tiny", f"{{kind: classifier, model: '{base}', {FAST}}}")
    return made


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    """The checkpoint of a classifier trained as `trained` does, once for all tests that read it."""
    made = build(tmp_path_factory.mktemp("trained"))
    made.model("tiny", f"{{kind: classifier, model: '{base}', {FAST}}}")
    return trained(made).folder / "checkpoint"


def trained(toy: Talk, **changes: object) -> TrainedClassifier:
    options = TrainOptions("tiny", "talk", **changes)  # type: ignore[arg-type]  # its own fields
    return train(toy.space, options, lambda *_: None)


def evaluated(toy: Talk) -> list[SampleRecord]:
    assert toy.harness("run", "--task", "talk", "--model", "tiny") == 0
    return toy.run.read_rows()


@pytest.mark.slow
def test_what_was_trained_is_evaluated_like_any_model(toy: Talk) -> None:
    assert toy.harness("train", "tiny", "--task", "talk") == 0
    verdicts = [row.verdicts["gold"] for row in evaluated(toy)]

    assert sum(verdict.value or 0 for verdict in verdicts) >= 10  # of 12; by chance 4
    assert all(sum(verdict.shares) == pytest.approx(1) for verdict in verdicts)


@pytest.mark.slow  # three trainings
def test_one_seed_gives_the_same_weights_and_another_other_ones(toy: Talk, base: Path) -> None:
    toy.model("tiny", f"{{kind: classifier, model: '{base}', {BRIEF}}}")
    cards = [
        trained(toy, seed=seed, out=toy.folder / str(at)).card for at, seed in enumerate("001")
    ]
    sums = [card.checksums["checkpoint/model.safetensors"] for card in cards]

    assert sums[0] == sums[1] != sums[2]


def test_a_loss_that_breaks_ends_training_and_no_draw_is_lost(toy: Talk, base: Path) -> None:
    import torch

    toy.model("tiny", f"{{kind: classifier, model: '{base}', learning_rate: 9.0e+15, batch: 2}}")
    before = torch.random.get_rng_state()

    with pytest.raises(ModelError, match="learning_rate"):
        trained(toy)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_settings_of_a_training_are_those_of_the_paper_unless_given() -> None:
    spec = ClassifierSpec(model="x")
    found = (spec.epochs, spec.learning_rate, spec.batch, spec.weight_decay)
    assert found == (4, 2e-5, 32, 0.01)


def test_a_checkpoint_is_used_as_it_is_by_its_own_labels(toy: Talk, checkpoint: Path) -> None:
    toy.model("tiny", f"{{kind: classifier, model: '{checkpoint}', labels: {_labels('non')}}}")
    verdicts = [row.verdicts["gold"] for row in evaluated(toy)]
    assert sum(verdict.value or 0 for verdict in verdicts) >= 10


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ("{open: open}", "name the checkpoint's label for each"),
        (None, "no label 'LABEL_9'"),
        ("{open: LABEL_1, non: LABEL_1}", "label 'LABEL_1' twice"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    toy: Talk, checkpoint: Path, capsys: pytest.CaptureFixture[str], labels: str | None, named: str
) -> None:
    said = labels or _labels("LABEL_9")
    toy.model("tiny", f"{{kind: classifier, model: '{checkpoint}', labels: {said}}}")

    assert toy.harness("run", "--task", "talk", "--model", "tiny") == 2
    assert named in capsys.readouterr().err


def _labels(first: str) -> str:
    return f"{{non: {first}, open: open, hidden: hidden}}"


def test_a_head_that_is_not_in_the_checkpoint_is_no_classifier(toy: Talk, base: Path) -> None:
    spec = ClassifierSpec(model=str(base), labels={"a": "LABEL_0", "b": "LABEL_1"})
    model = SequenceClassifier("tiny", spec, LabelQuestions(("a", "b"), {}, {}, frozenset()), None)

    with pytest.raises(HarnessError, match="train it first"):
        _ = model._network


FLAGS = "{positive: hidden, outputs: [hidden], threshold: 0.6}"


@pytest.fixture
def two(toy: Talk) -> Talk:
    """The toy task with two labels, which a text that is flagged and another one have."""
    task = (toy.folder / "home/tasks/talk.yaml").read_text("utf-8")
    toy.put("home/tasks/talk.yaml", task.replace("open: open, ", ""))
    return toy


def flagging(toy: Talk, checkpoint: Path, flags: str = FLAGS) -> None:
    toy.model("tiny", f"{{kind: classifier, model: '{checkpoint}', flags: {flags}, device: cpu}}")


def test_an_output_that_reaches_the_threshold_flags_a_text(two: Talk, checkpoint: Path) -> None:
    flagging(two, checkpoint)

    rows = evaluated(two)

    details = [row.steps[-1].detail for row in rows]
    outputs = {f"{flag}{name}" for flag in ("", "flagged_") for name in ("non", "open", "hidden")}
    assert {*details[0]} == outputs | {"score_hidden"}
    told = ["hidden" if one["hidden"] >= 0.6 else "none" for one in details]
    assert [row.answer for row in rows] == told
    assert {*told} == {"hidden", "none"}
    assert all(row.verdicts["gold"].shares == () for row in rows)


def test_outputs_that_do_not_exclude_each_other_are_probabilities_of_their_own(
    two: Talk, checkpoint: Path
) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    flagging(two, checkpoint)
    row = evaluated(two)[0]

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    most = model.config.max_position_embeddings - 2
    text = row.sample.fields["text"]
    with torch.inference_mode():
        batch = tokenizer(text, truncation=True, max_length=most, return_tensors="pt")
        [expected] = torch.sigmoid(model(**batch).logits).tolist()

    found = [row.steps[-1].detail[name] for name in ("non", "open", "hidden")]
    assert found == pytest.approx(expected, abs=1e-5)


def test_an_output_that_the_checkpoint_does_not_have_is_refused(
    two: Talk, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flagging(two, checkpoint, "{positive: hidden, outputs: [toxic]}")
    assert two.harness("run", "--task", "talk", "--model", "tiny") == 2
    assert "no output 'toxic', it has non, open, hidden" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "--model", "tiny"], "labels non, open, hidden"),
        (["train", "tiny"], "leave `flags` out"),
    ],
)
def test_a_flag_is_for_two_labels_and_is_not_trained(
    toy: Talk, checkpoint: Path, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    flagging(toy, checkpoint)
    assert toy.harness(*words, "--task", "talk") == 2
    assert named in capsys.readouterr().err
