"""Maps of public data sets: which rows give a sentence, and what says it outright."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.each import each

from harness.core import Sample
from harness.data.readers.sentence_pairs import collect
from harness.errors import DataError, SpecError
from harness.registry import Registry, shipped_home
from harness.specs.data import PairMapSpec
from harness.specs.schema import load_spec

REGISTRY = Registry((shipped_home(),), {}, Path("no cache"))
SAID, MEANT = "It is cold in here.", "Close the window."
# One row of our own that each map takes, and what in it makes another row unfit.
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ishate": ({"text": SAID, "implicit_layer": "Implicit HS"}, {"implicit_layer": "Explicit HS"}),
    "latent-hatred": ({"post": SAID, "class": "implicit_hate"}, {"class": "not_hate"}),
    "latent-hatred-implied": ({"post": SAID, "implied_statement": MEANT}, {"post": ""}),
    "sbic": ({"post": SAID, "targetStereotype": MEANT}, {"targetStereotype": ""}),
    "circa": ({"answer-Y": SAID, "question-X": "Warm?", "context": "At home."}, {"answer-Y": " "}),
    "ludwig": ({"Response utterance": SAID, "Context utterance": "Warm?"}, {}),
    "diplomat": ({"text": SAID, "hypothesis": MEANT}, {"hypothesis": ""}),
    "imppres": (
        {"premise": SAID, "hypothesis": MEANT, "gold_label_prag": 0, "gold_label_log": 1},
        {"gold_label_prag": 2},
    ),
    "pdtb": (
        {"Relation": "Implicit", "Arg1_RawText": "It is cold", "Arg2_RawText": "I am shivering"}
        | {"Conn1": "so"},
        {"Relation": "Explicit"},
    ),
    "isarcasm": ({"tweet": SAID, "rephrase": MEANT, "sarcastic": 1}, {"sarcastic": 0}),
    "toxigen": ({"text": SAID, "toxicity_human": "3.0"}, {"toxicity_human": 2.67}),
    "dghsd": ({"text": SAID, "label": "hate", "type": "animosity"}, {"type": "derogation"}),
    "implicatures": ({"Response utterance": SAID, "Context utterance": "Warm?"}, {}),
    "absa": ({"text": SAID, "implicit_sentiment": "True"}, {"implicit_sentiment": "False"}),
    "semeval-irony": ({"Tweet text": SAID, "Label": 1}, {"Label": 2}),
    "snarks": (
        {"input": f"Which?\nOptions:\n(A) No.\n(B) {SAID}", "target": "(B)"},
        {"target": "(C)"},
    ),
    "r3": ({"sarcastic": SAID, "literal": MEANT}, {"literal": ""}),
    "pdtb-text": ({"Text": SAID, "Hypothesis": MEANT}, {"Hypothesis": " "}),
    "sarcasm-corpus": ({"text": SAID, "class": "sarc"}, {"class": "notsarc"}),
    "sarcasm-headlines": ({"headline": SAID, "is_sarcastic": 1}, {"is_sarcastic": 0}),
    "flute": (
        {"hypothesis": SAID, "premise": MEANT, "type": "Idiom", "label": "Entailment"},
        {"label": "Contradiction"},
    ),
}


def collected(folder: Path, name: str, *rows: dict[str, Any]) -> tuple[Sample, ...]:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return collect([file], REGISTRY.load("configs/pairs", name), name).samples


def test_every_data_set_of_the_paper_and_others_have_a_map() -> None:
    assert set(ROWS) == set(REGISTRY.names("configs/pairs"))
    assert len(ROWS) == 21


@each("name", ROWS)
def test_a_row_gives_a_sentence_and_what_the_data_set_says_of_it(tmp_path: Path, name: str) -> None:
    right, wrong = ROWS[name]
    other = {key: value for key, value in right.items()} | wrong

    (sample,) = collected(tmp_path, name, right, *([other] if wrong else []))

    spec = REGISTRY.load("configs/pairs", name)
    assert sample.group == name
    assert sample.fields["sentence"] in (SAID, "It is cold I am shivering")
    assert set(sample.fields) == {"sentence", *spec.fields}
    assert bool(sample.references.get("explicit")) == (not spec.job)


@each("name", [name for name in ROWS if REGISTRY.load("configs/pairs", name).job])
def test_a_map_names_a_job_that_shows_what_the_map_collects(name: str) -> None:
    spec = REGISTRY.load("configs/pairs", name)
    (step,) = REGISTRY.load("configs/builds", spec.job).steps
    assert set(step.sees.values()) <= {"sentence", *spec.fields}


def test_a_relation_without_its_connective_is_put_with_one_with_it(tmp_path: Path) -> None:
    (sample,) = collected(tmp_path, "pdtb", ROWS["pdtb"][0])
    assert sample.references["explicit"] == ("It is cold so I am shivering",)


def test_answers_to_one_question_stay_together(tmp_path: Path) -> None:
    row = ROWS["circa"][0]
    one, other = collected(tmp_path, "circa", row, row | {"answer-Y": "I like it."})

    assert one.cluster == other.cluster
    assert one.id != other.id


def test_repeated_and_unfit_rows_are_counted_by_their_reason(tmp_path: Path) -> None:
    right, wrong = ROWS["sarcasm-corpus"]
    file = tmp_path / "rows.jsonl"
    lines = [right, right | {"text": SAID.upper()}, right | wrong, right | {"text": "\u200b"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in lines))

    found = collect([file], REGISTRY.load("configs/pairs", "sarcasm-corpus"), "own")

    assert len(found.samples) == 1
    assert sum(found.left_out.values()) == 3
    assert found.left_out["a repeated sentence"] == 1


def test_a_table_where_no_row_fits_is_refused_with_the_reason(tmp_path: Path) -> None:
    right, wrong = ROWS["isarcasm"]
    with pytest.raises(DataError, match=r"none of 1 rows.*`where`"):
        collected(tmp_path, "isarcasm", right | wrong)


@each("more", [{}, {"counterpart": ["b"], "job": "pairs"}])
def test_a_map_has_a_counterpart_or_the_job_that_writes_one(more: dict[str, Any]) -> None:
    content = {"about": "a", "licence": "b", "tried": "c", "sentence": ["a"]}
    with pytest.raises(SpecError, match="counterpart"):
        load_spec(content | more, PairMapSpec, where="own.yaml")
