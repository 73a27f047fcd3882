"""The BERTScore judge: the same figures as the bert-score package, each text encoded once."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.each import rest_slow
from support.packages import needs
from tokenizers import Tokenizer, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from harness.core import Case, Response, Sample, Verdict
from harness.errors import ModelError, SpecError
from harness.judges.nearness import BertScoreJudge
from harness.models.encoders.encoders import MiniLM
from harness.parts import Reason
from harness.specs.judges import BertScoreSpec

pytestmark = needs("bert_score")

Rows = list[tuple[float, ...]]
WORDS = [
    *("she", "he", "never", "wants", "asks", "the", "a", "window", "shut", "red", "kettle", "not")
]
ODD = ["ok", "naïve café — ¿qué? 雨が降る 🙂", "red " * 700, "no [SEP] no", "  padded \n"]


def sentences(count: int, seed: int) -> list[str]:
    draw = Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 24))) for _ in range(count)]


ANSWERS = [*sentences(94, 1), *ODD, "ok"]
REFERENCES = [*sentences(94, 2), *reversed(ODD), "red " * 600]
PAIRS = [*zip(ANSWERS, REFERENCES, strict=True), *zip(REFERENCES, ANSWERS, strict=True)]
FEW = [*PAIRS[:20], PAIRS[95], PAIRS[97]]
CUT = [*FEW, PAIRS[96]]  # one of them beyond 512 tokens


@cache
def judge(encoder: str = "minilm", **options: object) -> BertScoreJudge:
    settings = {"reference": "implication", **options}
    return BertScoreJudge("b", BertScoreSpec(about="Test.", encoder=encoder, **settings))  # type: ignore[arg-type]  # a test's options


def case(*texts: str, references: Sequence[str], name: str = "k") -> Case:
    sample = Sample(id=name, fields={}, references={"implication": tuple(references)})
    return Case(sample, Response(key=name, texts=texts))


def cases(pairs: Sequence[tuple[str, str]]) -> list[Case]:
    return [case(a, references=[r], name=f"k{i}") for i, (a, r) in enumerate(pairs)]


def figures(verdicts: Sequence[Verdict]) -> Rows:
    return [(v.detail["precision"], v.detail["recall"], v.value or 0.0) for v in verdicts]


def packages(pairs: Sequence[tuple[str, str]], model: str, **options: object) -> Rows:
    settings = {"num_layers": 6, "model_type": model, "device": "cpu", "batch_size": 1, **options}
    answers, references = [a for a, _ in pairs], [r for _, r in pairs]
    import bert_score

    found = bert_score.score(answers, references, **settings)
    return list(zip(*(part.tolist() for part in found), strict=True))


def folder() -> str:
    return str(MiniLM().checked_folder())


def close(ours: Rows, theirs: Rows) -> bool:
    return all(a == pytest.approx(b, abs=1e-5) for a, b in zip(ours, theirs, strict=True))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import RobertaConfig, RobertaModel

    place = tmp_path_factory.mktemp("models") / "distilroberta-base"
    place.mkdir()
    words = Tokenizer(BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator(sentences(200, 3), trainer)
    words.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    words.save(str(place / "tokenizer.json"))
    model = json.loads((place / "tokenizer.json").read_text("utf-8"))["model"]
    (place / "vocab.json").write_text(json.dumps(model["vocab"]), "utf-8")
    merges = "\n".join(m if isinstance(m, str) else " ".join(m) for m in model["merges"])
    (place / "merges.txt").write_text(f"#version: 0.2\n{merges}", "utf-8")
    tokenizer = {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512}
    tokenizer["add_prefix_space"] = True
    (place / "tokenizer_config.json").write_text(json.dumps(tokenizer), "utf-8")
    config = RobertaConfig(
        vocab_size=400,
        hidden_size=32,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=514,
    )
    RobertaModel(config).save_pretrained(place)
    return place


@pytest.mark.slow
def test_200_pairs_have_the_figures_of_the_package() -> None:
    ours = figures(judge().read(cases(PAIRS)))
    assert len(PAIRS) == 200
    assert close(ours, packages(PAIRS, folder()))


@pytest.mark.parametrize("layer", rest_slow([6, 1], kept=1))
def test_each_layer_of_a_folder_has_the_figures_of_the_package(roberta: Path, layer: int) -> None:
    ours = figures(judge(str(roberta), layer=layer).read(cases(CUT)))
    assert close(ours, packages(CUT, str(roberta), num_layers=layer))


def test_the_best_layer_is_the_package_s(roberta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(roberta.parent)
    by_name = judge("distilroberta-base")
    ours = figures(by_name.read(cases(FEW)))

    assert by_name.recipe.endswith("|distilroberta-base-L5")
    assert close(ours, packages(FEW, "distilroberta-base", num_layers=None))


def test_a_first_word_is_read_as_one_within_a_sentence(roberta: Path, tmp_path: Path) -> None:
    # As with the tokenizers that BERTScore was published with; transformers 5 drops the option.
    bare = tmp_path / "roberta"
    bare.mkdir()
    for path in roberta.iterdir():
        words = path.read_bytes().replace(b'"add_prefix_space": true', b'"add_prefix_space": false')
        (bare / path.name).write_bytes(words)

    found, known = (figures(judge(str(place)).read(cases(FEW))) for place in (bare, roberta))

    assert close(found, known)


def test_a_folder_the_package_would_take_for_a_t5_is_refused(roberta: Path, tmp_path: Path) -> None:
    (tmp_path / "at5").symlink_to(roberta)
    with pytest.raises(ModelError, match="takes every name with t5 in it for a T5, which this"):
        judge(str(tmp_path / "at5")).read(cases(FEW))


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        ("minilm", {"layer": 7}, "minilm has no layer 7; give `layer` a number from 1 to 6"),
        ("/nowhere", {}, "/nowhere: no such folder"),
    ],
)
def test_what_there_is_not_is_refused(encoder: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((SpecError, ModelError), match=message):
        judge(encoder, **options).recipe  # noqa: B018  # asking is the act


def test_a_text_of_no_token_has_no_match_and_one_that_shows_nothing_is_empty() -> None:
    texts = ("\ufffd", "\u200b")
    unknown, blank = judge().read([case(text, references=["She asks."]) for text in texts])

    assert (unknown.value, unknown.detail) == (0.0, {"precision": 0.0, "recall": 0.0})
    assert (blank.value, blank.reason) == (None, Reason.EMPTY)


@pytest.mark.parametrize(("over", "share"), [("mean", 0.5), ("max", 1.0)])
def test_references_count_their_mean_or_maximum(roberta: Path, over: str, share: float) -> None:
    equal, other = "a red kettle", "she never asks"
    [far] = judge(str(roberta)).read([case(equal, references=[other])])

    [both] = judge(str(roberta), over=over).read([case(equal, references=[equal, other])])

    # The equal reference has F1 1, so the other one's part is what it needs to 1.
    rest = (1 - share) * (1 - (far.value or 0))
    assert both.value == pytest.approx(1 - rest, abs=2e-6)


def test_several_answers_count_their_mean_without_the_blank_ones() -> None:
    texts = ("a red kettle", "she never asks")
    alone = [judge().read([case(text, references=[texts[0]])])[0].value or 0 for text in texts]
    [verdict] = judge().read([case(*texts, " \n", references=[texts[0]])])

    assert verdict.value == pytest.approx(sum(alone) / 2, abs=2e-6)


def test_a_verdict_does_not_depend_on_its_neighbours(roberta: Path) -> None:
    together = figures(judge(str(roberta)).read(cases(CUT)))
    assert close(figures(judge(str(roberta)).read(cases(CUT)[::-1]))[::-1], together)
    assert close(figures(judge(str(roberta)).read(cases(CUT)[:1])), together[:1])


@pytest.mark.parametrize("change", [{"layer": 5}, {"over": "max"}, {"reference": "r"}])
def test_the_recipe_changes_with_what_changes_a_verdict(change: dict[str, object]) -> None:
    recipe = judge().recipe

    assert recipe.startswith("b:")
    assert recipe.endswith("|minilm-L6")
    assert judge(**change).recipe.split("|")[0] != recipe.split("|")[0]


def test_the_same_checkpoint_has_one_recipe_wherever_it_lies(roberta: Path, tmp_path: Path) -> None:
    (tmp_path / roberta.name).symlink_to(roberta)
    assert judge(str(tmp_path / roberta.name)).recipe == judge(str(roberta)).recipe
