"""Sample logs of lm-evaluation-harness, as a real run of it wrote them, in our own words."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import quiz as quiz_module
from support.quiz import Quiz, value

from harness.errors import DataError

LOGS = Path(__file__).parents[1] / "support/lm_eval_logs"
ORDER0, ORDER1 = LOGS / "samples_quiz_order0.jsonl", LOGS / "samples_quiz_order1.jsonl"
TEXT, SAY = LOGS / "samples_quiz_text.jsonl", LOGS / "samples_say_base.jsonl"


@pytest.fixture
def quiz(tmp_path: Path) -> Quiz:
    return quiz_module.build(tmp_path)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_log_likelihoods_are_the_scores_of_choices(quiz: Quiz) -> None:
    quiz.take(ORDER0)

    tea = quiz.rows()[0]
    scores = tea.steps[0].choice_scores
    assert [score.logprob for score in scores] == [-0.469, -0.882, -3.178]
    assert {(score.tokens, score.bytes) for score in scores} == {(None, 2)}
    assert tea.steps[0].messages[0].content == lines(ORDER0)[0]["arguments"]["gen_args_0"]["arg_0"]


def test_choices_in_another_sequence_are_put_in_order(quiz: Quiz) -> None:
    [tea, *_] = lines(ORDER0)
    tea["arguments"] = dict(reversed(tea["arguments"].items()))
    tea["resps"].reverse()

    quiz.take(quiz.put("log.jsonl", [tea]))

    scores = quiz.rows()[0].steps[0].choice_scores
    assert [score.logprob for score in scores] == [-0.469, -0.882, -3.178]


@pytest.mark.parametrize(("log", "variant"), [(ORDER0, "order0"), (ORDER1, "order1")])
def test_accuracy_is_what_the_log_says_of_itself(quiz: Quiz, log: Path, variant: str) -> None:
    own = [line["acc"] for line in lines(log)]
    found = quiz.take(log)
    assert value(found.done.scores, variant) == pytest.approx(sum(own) / len(own))


def test_choices_in_words_are_scored_without_those_that_have_no_context(quiz: Quiz) -> None:
    quiz.take(TEXT)

    assert {row.variant for row in quiz.rows()} == {"text:order0"}
    assert [len(row.steps[0].choice_scores) for row in quiz.rows()] == [3, 2, 2]
    assert quiz.rows()[0].steps[0].choice_scores[0].bytes == len(" She wants it hot.")


def test_generated_replies_are_texts_and_of_two_filters_one_stands(quiz: Quiz) -> None:
    found = quiz.take(SAY, task="say")

    assert found.counts[["found", "samples"]].sum().tolist() == [2, 2]
    assert quiz.answers() == {
        ("base", "rain"): "Yes, awful weather.",
        ("base", "wind"): "Not a leaf stirs.",
    }
    assert found.done.file.run.decodings[0].n == 2
    assert found.notes["rows"].tolist() == [2]


def test_a_prompt_that_is_not_ours_is_named_by_the_id_in_doc(quiz: Quiz) -> None:
    [tea, *_] = lines(ORDER0)
    tea["doc"] = {"id": "tea", "variant": "order1"}
    for part in tea["arguments"].values():
        part["arg_0"] = "Which one?"

    quiz.take(quiz.put("log.jsonl", [tea]))

    assert quiz.answers() == {("order1", "tea"): "1"}


@pytest.mark.parametrize("sample", ["{id: doc.key}", "{fields: {story: doc.story}}"])
def test_a_map_names_sample_and_variant(quiz: Quiz, sample: str) -> None:
    parts = lines(ORDER0)
    for part, story in zip(parts, quiz_module.QUESTIONS, strict=True):
        part["doc"]["story"] = story["fields"]["story"]  # type: ignore[index]
        for asked in part["arguments"].values():
            asked["arg_0"] = "Which one?"
    said = f"{{about: x, format: lm_eval, sample: {sample}, variant: order2}}"

    quiz.take(quiz.put("log.jsonl", parts), column_map=str(quiz.put("map.yaml", said)))

    assert {row.variant for row in quiz.rows()} == {"order2"}
    assert len(quiz.rows()) == 3


def test_a_map_does_not_overrule_a_prompt_of_ours(quiz: Quiz) -> None:
    column_map = quiz.put("map.yaml", "{about: x, format: lm_eval, variant: order1}")
    with pytest.raises(DataError, match="said to be order1 of sample tea, while its prompt is"):
        quiz.take(ORDER0, column_map=str(column_map))


def test_the_turns_of_a_chat_are_kept_apart(quiz: Quiz) -> None:
    [rain, *_] = lines(SAY)
    text = rain["arguments"]["gen_args_0"]["arg_0"]
    rain["arguments"]["gen_args_0"]["arg_0"] = json.dumps([{"role": "user", "content": text}])

    quiz.take(quiz.put("log.jsonl", [rain]), task="say")

    [row] = quiz.rows()
    assert [(part.role, part.content) for part in row.steps[0].messages] == [("user", text)]


def altered(**changes: object) -> list[dict[str, Any]]:
    return [lines(ORDER0)[0] | changes]


WRONG = [
    (altered(resps=[]), "not of one length"),
    (altered(resps=[[["nan", "False"]]] * 3), "nan is no log-probability"),
    (altered(resps=[["a"], ["b"], ["c"]]), "0 numbers for 3 choices"),
    (altered(arguments={"gen_args_0": {"arg_0": "x"}}, resps=[["-1"]]), "no answer (rolling"),
    (altered(doc_id=None), "not JSON lines with doc_id"),
    (
        altered(arguments=[["Which one?", " A"]], resps=[[["-1", "False"]]]),
        "neither its prompt nor its id is of a sample",
    ),
    (
        altered(
            doc={"id": "tea", "variant": "order0"},
            arguments=[["Which one?", " A"], ["Which one?", " B"], ["Which one?", " C"]],
        ),
        "it scores 'A', 'B', 'C', while the answers of order0 of sample tea are '1', '2', '3'",
    ),
    (
        altered(doc={"id": "tea"}, arguments=[["Which one?", " 1"]], resps=[[["-1", "False"]]]),
        "nothing else names the variant of sample tea; say it in a map",
    ),
    (
        altered(
            doc={"id": "tea", "variant": "order0"},
            arguments=[["Is it?", " 1"], ["Or?", " 2"], ["Or?", " 3"]],
        ),
        "its choices have contexts of their own",
    ),
    (altered(doc={"id": "ice"}), "said to be a variant of sample ice, while its prompt is that"),
]


@pytest.mark.parametrize(("content", "fact"), WRONG, ids=[fact for _, fact in WRONG])
def test_a_line_of_no_import_is_told(quiz: Quiz, content: list[dict[str, Any]], fact: str) -> None:
    path = quiz.put("log.jsonl", content)
    with pytest.raises(DataError, match=r"log\.jsonl:1: ") as caught:
        quiz.take(path)

    assert fact in str(caught.value)
    assert not quiz.results.exists()


def test_scores_and_written_answers_do_not_mix(quiz: Quiz) -> None:
    [tea, *_] = lines(ORDER1)
    asked = [tea["arguments"]["gen_args_0"]["arg_0"], {"until": []}]
    written = quiz.put("log.jsonl", [tea | {"arguments": [asked], "resps": [["2"]]}])

    with pytest.raises(DataError, match="holds written answers; import them apart"):
        quiz.take(ORDER0, written)
