"""Other people's answers to records and runs: kept as they are, and what is missing counted."""

from pathlib import Path

import pytest
from support.rated_files import SCORES, Desk, answered

from harness.errors import DataError, SpecError
from harness.parts import Reason
from harness.specs.data import MapSpec
from harness.specs.schema import load_spec, read_yaml

COHERENCE = "Coherence (1-3) Does it follow?"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_an_answer_is_stored_as_it_came_and_judged_at_once(desk: Desk) -> None:
    items = answered(texts=("2", "Rating: 3", "hm"))

    desk.take(desk.put("in.json", items))

    row = desk.rows()[0]
    assert (row.variant, row.answer) == ("naturalness", "2")
    assert row.steps[0].messages[0].content == items[0]["prompt"]
    assert row.verdicts["stated-rating"].value == 2.5
    assert row.verdicts["stated-rating"].detail == {"parsed_share": 2 / 3}


@pytest.mark.parametrize(
    ("criterion", "text", "value"),
    [
        *(("Groundedness (0-1)", "0", 0.0), ("Naturalness (1-3)", "0", None)),
        *(("Overall (1-5)", "5", 5.0), ("Coherence (1-3)", "5", None)),
    ],
)
def test_each_attribute_is_read_on_its_own_scale_or_as_the_release_does_on_any(
    desk: Desk, criterion: str, text: str, value: float | None
) -> None:
    desk.take(desk.put("in.json", answered(criterion, [text])))

    verdicts = desk.rows()[0].verdicts
    assert {judge: verdict.value for judge, verdict in verdicts.items()} == {
        "stated-rating": value,
        "stated-rating-released": float(text),
    }


def test_what_the_files_miss_is_missing_and_counted(desk: Desk) -> None:
    found = desk.take(desk.put("in.json", answered()[1:]))

    assert found.counts.drop(columns="group").to_numpy().tolist() == [
        ["naturalness", 1, 2],
        ["naturalness", 2, 2],
    ]
    [gap] = found.done.file.missing or ()
    assert (gap.judge, gap.reason, gap.count) == ("", Reason.FAILED, 1)
    [lost] = [row for row in desk.rows() if row.answer is None]
    assert lost.verdicts["stated-rating"].note == "not in the imported files"


def test_importing_again_in_another_order_changes_no_byte(desk: Desk) -> None:
    one, other = desk.put("a.json", answered()[1:]), desk.put("b.json", answered(COHERENCE))
    desk.take(one, other)
    before = desk.bytes()
    desk.take(other, one, one)

    assert desk.bytes() == before


def test_a_later_import_keeps_the_verdicts_of_other_judges(desk: Desk) -> None:
    files = desk.put("in.json", answered())
    folder = desk.take(files).done.folder
    desk.put("configs/judges/wide.yaml", "{about: x, kind: stated, scale: {low: 0, high: 9}}")
    desk.main("judge", str(folder.path), "--judge", "wide", "--home", str(desk.folder))

    desk.take(files)

    assert "wide" in desk.rows()[0].verdicts


def test_equal_prompts_of_two_samples_keep_their_own_answers(desk: Desk) -> None:
    items = answered()
    for number, item in enumerate(items, 1):
        item.update(prompt="Coherence (1-3)", all_responses=[str(number % 3 + 1)])
    desk.take(desk.put("in.json", items))

    assert [row.answer for row in desk.rows()] == ["2", "3", "1", "2"]


def test_a_file_that_says_otherwise_than_what_is_stored_is_refused(desk: Desk) -> None:
    desk.take(desk.put("in.json", answered()))
    before = desk.bytes()
    with pytest.raises(DataError, match=r"late\.json, item 1: other replies than those stored"):
        desk.take(desk.put("late.json", answered(texts=("1", "1"))))

    assert desk.bytes() == before


def test_other_prompts_on_the_same_samples_make_a_run_of_their_own(desk: Desk) -> None:
    first = desk.take(desk.put("a.json", answered()))
    second = desk.take(desk.put("b.json", answered("Naturalness (1-3) Would one say so?")))

    assert first.done.folder.path != second.done.folder.path
    assert first.done.scores[0].signature != second.done.scores[0].signature


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("a,b\n1,2\n", "of no layout known here, or cut; layouts known: rated_replies: a"),
        ('[{"a": 1', "of no layout known here, or cut"),
        ("  ", "the file is empty"),
        ([{"all_responses": ["1"]}], "missing required field `source` - at `$[0]`"),
        ([{**answered()[0], "system_id": "nobody"}], "item 1: of 'nobody', not among the 4"),
        (answered("Wit (1-3) Is it funny?"), "item 1: its prompt names no criterion"),
        ([{**answered()[0], "all_responses": []}], "no answer in any of the files"),
        (b"[\xff]", "not UTF-8 at byte 1"),
        (None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_imported_says_why(desk: Desk, content: object, fact: str) -> None:
    path = desk.put("in.json", "" if content is None or isinstance(content, bytes) else content)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is None:
        path.unlink()

    with pytest.raises(DataError) as caught:
        desk.take(path)

    assert fact in str(caught.value)
    assert not desk.results.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.csv", "conversation,said\nWho?,3\n"),
        ("mine.jsonl", '{"conversation": 1, "said": 3}\n'),
    ],
)
def test_a_table_without_a_map_gets_one_to_fill_in(desk: Desk, name: str, content: str) -> None:
    with pytest.raises(DataError, match=r"with --map which column is what; a map to") as caught:
        desk.take(desk.put(name, content))

    draft = str(caught.value).partition("\n\n")[2]
    assert 'conversation: "conversation", fact: "COLUMN", reply: "COLUMN"' in draft
    assert '# columns: "conversation", "said"' in draft
    spec = load_spec(read_yaml(desk.put("map.yaml", draft)), MapSpec, where="map.yaml")
    assert spec.format == name.partition(".")[2]


def test_two_files_that_differ_on_one_sample_are_named_by_name(desk: Desk) -> None:
    one, other = desk.put("a.json", answered()), desk.put("b.json", answered(texts=("1", "1")))
    with pytest.raises(DataError, match=r"b\.json, item 1: another prompt .* than .*a\.json, item"):
        desk.take(one, other)


@pytest.mark.parametrize("model", ["", "..", "../up", "a/b", "-x", "a b", "a\n"])
def test_a_model_name_is_no_path(desk: Desk, model: str) -> None:
    with pytest.raises(SpecError, match="give a name of letters"):
        desk.take(desk.put("in.json", answered()), model=model)


def test_a_layout_of_released_data_is_known_to_its_own_task_alone(desk: Desk) -> None:
    with pytest.raises(DataError, match="or cut; layouts known: lm_eval: "):
        desk.take(desk.put("in.json", answered()), task="intent_resolution")


def test_peoples_ratings_are_written_with_the_run(desk: Desk) -> None:
    path = desk.take(desk.put("in.json", answered())).ratings

    assert path == desk.results / "ratings" / "topical_chat.csv"
    ratings = desk.ratings()
    assert list(ratings[0]) == ["task", "sample_id", "model", "rater", "value", "scale"]
    assert len(ratings) == 4 * len(SCORES)
    assert {r["model"] for r in ratings} == {"quick", "slow"}
    assert {(r["rater"], r["scale"], float(r["value"])) for r in ratings} == {
        ("mean", scale, value) for scale, value in SCORES.items()
    }
