"""Column maps: whose answer a row holds, and what kind of answer it is."""

from math import log
from pathlib import Path

import pytest
from support import quiz as quiz_module
from support.quiz import QUESTIONS, Quiz

from harness.errors import DataError
from harness.importers.import_files import Imported

PROMPT = "It pours. Dia says: dry, is it not? What do you reply?"


@pytest.fixture
def quiz(tmp_path: Path) -> Quiz:
    return quiz_module.build(tmp_path)


def take(quiz: Quiz, content: object, said: str, *, task: str = "quiz") -> Imported:
    form = "csv" if isinstance(content, str) else "jsonl"
    column_map = quiz.put("map.yaml", f"{{about: x, format: {form}, {said}}}")
    return quiz.take(quiz.put(f"in.{form}", content), task=task, column_map=str(column_map))


def logprobs(quiz: Quiz) -> list[float]:
    [row] = quiz.rows()
    return [score.logprob for score in row.steps[0].choice_scores]


BY_ID = "sample: {id: item}, variant: order0, answer: {kind: text, column: said}"


@pytest.mark.parametrize(
    ("sample", "columns"),
    [
        ("{id: item}", "item,said\ntea,2\n"),
        ("{fields: {story: text}}", f"text,said\n{QUESTIONS[0]['fields']['story']},2\n"),  # type: ignore[index]
        (
            "{fields: {story: text}, group: kind}",
            f"kind,text,said\nwarm,{QUESTIONS[0]['fields']['story']},2\n",  # type: ignore[index]
        ),
    ],
)
def test_a_sample_is_named_by_its_id_or_its_fields(quiz: Quiz, sample: str, columns: str) -> None:
    take(quiz, columns, BY_ID.replace("{id: item}", sample))
    assert quiz.answers() == {("order0", "tea"): "2"}


def test_a_prompt_of_ours_names_sample_and_variant(quiz: Quiz) -> None:
    said = "sample: {prompt: asked}, prompt: asked, answer: {kind: text, column: said}"
    take(quiz, [{"asked": PROMPT, "said": "Hm."}], said, task="say")

    [row] = quiz.rows()
    assert (row.variant, row.sample.id, row.answer) == ("base", "rain", "Hm.")
    assert row.steps[0].messages[0].content == PROMPT


@pytest.mark.parametrize(
    ("variant", "cell", "expected"),
    [
        ("variant: order1", "x", "order1"),
        ("variant_column: how", "order2", "order2"),
        ('variant_column: how, variants: {"0": order0, "1": "text:order0"}', "1", "text:order0"),
    ],
)
def test_a_variant_is_fixed_or_a_column(quiz: Quiz, variant: str, cell: str, expected: str) -> None:
    take(quiz, f"item,said,how\ntea,2,{cell}\n", BY_ID.replace("variant: order0", variant))
    assert {row.variant for row in quiz.rows()} == {expected}


@pytest.mark.parametrize(
    ("answer", "cell", "expected"),
    [
        ("{kind: chosen, column: said}", "3", "3"),
        ("{kind: chosen, column: said}", "2.0", "2"),
        ("{kind: chosen, column: said, counted_from: 0}", "0", "1"),
        ("{kind: chosen, column: said, order: own}", "1", "3"),  # shown third
        ("{kind: chosen, column: said, order: own, counted_from: 0}", "2", "2"),
        ("{kind: chosen, column: said}", "She wants it hot.", "1"),
    ],
)
def test_a_chosen_number_or_text_becomes_what_the_variant_takes(
    quiz: Quiz, answer: str, cell: str, expected: str
) -> None:
    take(quiz, f"item,said\ntea,{cell}\n", BY_ID.replace("{kind: text, column: said}", answer))
    assert quiz.answers() == {("order0", "tea"): expected}


# order0 shows the own choices 2, 3, 1
@pytest.mark.parametrize(
    ("answer", "line", "expected"),
    [
        ("columns: [a, b, c]", {"a": 0.2, "b": "0.3", "c": 0.5}, (0.2, 0.3, 0.5)),
        ("columns: [a, b, c, d]", {"a": 0.2, "b": 0.3, "c": 0.5, "d": ""}, (0.2, 0.3, 0.5)),
        ("columns: [a, b, c], order: own", {"a": 0.2, "b": 0.3, "c": 0.5}, (0.3, 0.5, 0.2)),
        ("column: p", {"p": [0.2, 0.3, 0.5]}, (0.2, 0.3, 0.5)),
        ("column: p", {"p": "[0.2, 0.3, 0.5]"}, (0.2, 0.3, 0.5)),
        ("column: p", {"p": {"3": 0.5, "1": 0.2, "2": 0.3}}, (0.2, 0.3, 0.5)),
        ("column: p", {"p": "{'1': 0.2, '2': 0.3, '3': 0.5}"}, (0.2, 0.3, 0.5)),
        ("column: p.q, counted_from: 0", {"p": {"q": {"0": 0.2, "1": 0.3, "2": 0.5}}}, None),
        (
            "column: p",
            {"p": {"She likes it.": 0.5, "She wants it hot.": 0.2, "She wants milk.": 0.3}},
            (0.2, 0.3, 0.5),
        ),
    ],
)
def test_numbers_for_choices_are_put_in_the_order_shown(
    quiz: Quiz, answer: str, line: dict[str, object], expected: tuple[float, ...] | None
) -> None:
    said = BY_ID.replace("kind: text, column: said", f"kind: probabilities, {answer}")
    take(quiz, [{"item": "tea", **line}], said)
    assert logprobs(quiz) == pytest.approx([log(part) for part in expected or (0.2, 0.3, 0.5)])


def test_log_probabilities_are_taken_as_they_are(quiz: Quiz) -> None:
    said = BY_ID.replace("kind: text, column: said", "kind: logprobs, columns: [a, b, c]")
    take(quiz, "item,a,b,c\ntea,-1.5,-2,-0.25\n", said)

    assert logprobs(quiz) == [-1.5, -2.0, -0.25]
    assert quiz.rows()[0].decoding == "logprob"


def test_only_the_rows_of_one_model_are_taken(quiz: Quiz) -> None:
    found = take(quiz, "item,who,said\ntea,a,1\ntea,b,2\n", f"{BY_ID}, where: {{who: [b]}}")

    assert quiz.answers() == {("order0", "tea"): "2"}
    assert found.notes.iloc[:, 1:].values.tolist() == [["not of the map's `where`: left out", 1]]


def test_a_row_without_an_answer_is_missing(quiz: Quiz) -> None:
    found = take(quiz, "item,said\ntea,2\nice,\n", BY_ID)
    assert list(quiz.answers()) == [("order0", "tea")]
    assert found.notes.iloc[:, 1:].to_numpy().tolist() == [["without an answer: missing", 1]]


@pytest.mark.parametrize(("more", "label"), [("", "T0.3"), (", temperature: 0.5", "T0.5")])
def test_written_answers_are_drawn_by_map_or_by_task(quiz: Quiz, more: str, label: str) -> None:
    said = f"sample: {{id: item}}, variant: think, answer: {{kind: text, column: said}}{more}"
    take(quiz, "item,said\nrain,Hm.\n", said, task="say")

    [row] = quiz.rows()
    assert (row.decoding, row.variant, len(row.steps)) == (label, "think", 1)


def test_an_answer_without_a_prompt_is_kept_and_found_again(quiz: Quiz) -> None:
    take(quiz, "item,said\ntea,2\nice,1\n", BY_ID)
    before = quiz.bytes()

    take(quiz, "item,said\nice,1\ntea,2\n", BY_ID)

    assert quiz.bytes() == before
    assert quiz.answers() == {("order0", "tea"): "2", ("order0", "ice"): "1"}
    assert quiz.rows()[0].steps[0].messages == ()


SCORED = BY_ID.replace("kind: text, column: said", "kind: probabilities, column: said")
CHOSEN = BY_ID.replace("kind: text", "kind: chosen")
WRONG = [
    ("itm,said\ntea,2\n", BY_ID, "no column 'item'; did you mean itm?"),
    ("item,sad\ntea,2\n", BY_ID, "no column 'said'; did you mean sad?"),
    ("item,said\ntae,2\n", BY_ID, "item 'tae', not among the 3 samples"),
    ("item,said\ntea,2\n", BY_ID.replace("order0", "order9"), "no variant 'order9' in task quiz"),
    (
        "item,said\ntea,2\n",
        BY_ID.replace("variant: order0", "variant_column: item, variants: {ta: order0}"),
        "'tea' is not among the map's `variants`; did you mean ta?",
    ),
    (
        "item,said\ntea,2\n",
        BY_ID.replace(", variant: order0", ""),
        "nothing else names the variant of sample tea",
    ),
    ("item,said\nfog,2\n", BY_ID.replace("order0", "bare:order0"), "fog is not asked under bare"),
    ("item,said\ntea,4\n", CHOSEN, "neither one of the numbers 1 to 3 nor the text of a choice"),
    ('item,said\ntea,"[0.5, 0.5]"\n', SCORED, "2 numbers for 3 choices"),
    ('item,said\ntea,"{""a"": 1}"\n', SCORED, "the keys 'a' are neither 1, 2, 3 nor"),
    ("item,said\ntea,0.5\n", SCORED, "neither a list nor an object"),
    (f"item,said\ntea,[1{' ' * 10_000}]\n", SCORED, "more than 10000"),
    ("item,said\ntea,open(1)\n", SCORED, "'open(1)' is neither a list nor an object"),
    ('item,said\ntea,"[""x"", 1, 2]"\n', SCORED, "'x' is not a number"),
    ("story,said\nx,1\n", BY_ID.replace("id: item", "prompt: story"), "neither its prompt nor"),
    ("story,said\nx,1\n", BY_ID.replace("id: item", "fields: {story: story}"), "its story, not a"),
    (
        "story,said\nx,1\n",
        BY_ID.replace("id: item", "fields: {storey: story}"),
        "no sample has 'storey'; did you mean story",
    ),
]


@pytest.mark.parametrize(("content", "said", "fact"), WRONG, ids=[fact for *_, fact in WRONG])
def test_a_row_that_fits_no_map_is_named(quiz: Quiz, content: str, said: str, fact: str) -> None:
    with pytest.raises(DataError, match=r"in\.csv:2: ") as caught:
        take(quiz, content, said)
    assert fact in str(caught.value)


def test_fields_that_do_not_name_the_sample_are_too_few(quiz: Quiz) -> None:
    path = quiz.home / "tasks/samples/quiz.jsonl"
    tea, *_ = path.read_text("utf-8").splitlines()
    path.write_text(f"{tea}\n{tea.replace('tea', 'pot', 1)}", "utf-8")
    said = BY_ID.replace("{id: item}", "{fields: {bare: item}}")

    with pytest.raises(DataError, match="2 samples have its bare; name more fields"):
        take(quiz, "item,said\nLovely tea!,2\n", said)


@pytest.mark.parametrize("line", ["{", "[1]", "NaN\n"])
def test_a_line_that_is_no_object_is_named(quiz: Quiz, line: str) -> None:
    path = quiz.put("map.yaml", f"{{about: x, format: jsonl, {BY_ID}}}")
    with pytest.raises(DataError, match=r"in\.jsonl:1: (not JSON|\w+, not an object)"):
        quiz.take(quiz.put("in.jsonl", line), column_map=str(path))


def test_scores_are_for_tasks_with_choices(quiz: Quiz) -> None:
    said = SCORED.replace("order0", "base")
    with pytest.raises(DataError, match="no choices under base; map the answer as `text`"):
        take(quiz, 'item,said\nrain,"[1]"\n', said, task="say")
