"""Multiple-choice prompts in five orders to one sample an item."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import posed_files
from support.packages import DATA, needs_data
from support.posed_files import LABELS, OPTIONS, QUESTION, STORY, WITHOUT, Cells, posed, release

from harness.analysis.published.answers import prompt_files
from harness.core import Sample
from harness.data.readers.hu2022 import COLUMNS, GROUPS, posed_item, read
from harness.errors import DataError
from harness.storage.tables import read_rows

FOLDER = Path(DATA or ".", "hu2022")
STORIES = [posed(seed) for seed in range(5)]
CONTROLS = [posed(seed, f"{WITHOUT} {QUESTION}") for seed in range(5)]


def sample(folder: Path, *, controls: Sequence[Cells] = ()) -> Sample:
    """The sample of the only item of a release."""
    files = release(folder, STORIES) + release(folder, controls, kind="_no-story")
    [found] = read(files, None)
    return found


def test_an_item_is_a_sample_whose_released_orders_count_from_one(tmp_path: Path) -> None:
    found = sample(tmp_path)

    assert (found.id, found.group) == ("irony-7", "irony")
    assert found.fields == {"scenario": STORY + QUESTION}
    assert (found.choices, found.gold) == (OPTIONS, "She is cold.")
    assert found.references["labels"] == LABELS

    orders = [found.references[f"order{seed}"] for seed in range(5)]
    assert orders == [tuple(map(str, order)) for order in posed_files.ORDERS]


def test_the_order_of_the_files_changes_nothing(tmp_path: Path) -> None:
    stories, controls = release(tmp_path, STORIES), release(tmp_path, CONTROLS, kind="_no-story")
    assert read(controls[::-1] + stories, None) == read(stories + controls, None)


def test_stray_white_space_around_texts_is_left_out(tmp_path: Path) -> None:
    stray = [f"{OPTIONS[0]}  ", f" {OPTIONS[1]}\r", OPTIONS[2]]
    rows = [posed(seed, f" {STORY}{QUESTION} \r", options=stray) for seed in range(5)]
    [found] = read(release(tmp_path, rows), None)

    assert found == sample(tmp_path / "tidy")


def test_the_control_without_the_story_is_a_field(tmp_path: Path) -> None:
    found = sample(tmp_path, controls=CONTROLS)
    assert found.fields["without_story"] == f"{WITHOUT} {QUESTION}"
    assert replace(found, fields={"scenario": STORY + QUESTION}) == sample(tmp_path / "none")


@pytest.mark.parametrize(
    "changes",
    [
        *({"phenomenon": "IVV"}, {"item_id": "seven"}, {"seed": ""}, {"content": ""}),
        *({"content": "Another story."}, {"randomized_option_order": "[3, 1]"}),
        *({"randomized_option_order": "[3, 1, 1]"}, {"randomized_option_order": "[0, 1, 2]"}),
        *({"randomized_option_order": "[print(3)]"}, {"original_labels_complex": "[]"}),
        {"randomized_labels_complex": repr(list(LABELS))},
        {"randomized_true_answer": "1"},
    ],
    ids=str,
)
def test_a_row_at_odds_with_itself_is_refused_with_its_line(tmp_path: Path, changes: Cells) -> None:
    path = posed_files.write(tmp_path / "p.csv", posed(0), {**posed(0), **changes})
    with pytest.raises(DataError, match="not those of an item") as caught:
        read([path], None)

    assert str(caught.value).startswith(f"{path}:10: ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("2) The", "2 The"), ("2) The", "3) The"), ("3) She is cold.", "3) ")),
        *(("\n3) She is cold.", ""), ("\nOptions:", ""), ("Options:", "Choices:")),
        ("She is cold.", "She is\ncold."),
        ("3) She is cold.", f"3) {OPTIONS[0]} "),
    ],
)
def test_a_prompt_without_all_its_options_is_refused(tmp_path: Path, old: str, new: str) -> None:
    row = posed(0)
    path = posed_files.write(tmp_path / "p.csv", {**row, "prompt": row["prompt"].replace(old, new)})

    with pytest.raises(DataError, match="the prompt does not list an option a line"):
        read([path], None)


@pytest.mark.parametrize(
    ("other", "fact"),
    [
        (posed(1, f"{STORY}Why?"), "the content of irony-7"),
        (posed(1, options=(*OPTIONS[:2], "Hm.")), "the options of irony-7"),
        (posed(1, labels=(*LABELS[:2], "IncorrectOther")), "the labels of irony-7"),
        (posed(1, labels=(LABELS[1], LABELS[0], LABELS[2])), "the labels of irony-7"),
    ],
)
def test_files_at_odds_on_an_item_are_both_named(tmp_path: Path, other: Cells, fact: str) -> None:
    files = release(tmp_path, [STORIES[0], other, *STORIES[2:]])
    with pytest.raises(DataError, match=fact) as caught:
        read(files, None)

    assert str(files[0]) in str(caught.value)
    assert str(files[1]) in str(caught.value)


@pytest.mark.parametrize(
    ("items", "kind", "fact"),
    [
        ([posed(n) for n in (0, 1, 3, 4)], "", "with seeds [0, 1, 3, 4], not [0, 1, 2, 3, 4]"),
        ([*STORIES, posed(4)], "", "with seeds [0, 1, 2, 3, 4, 4]"),
        (CONTROLS, "_no-story", "without its story only"),
    ],
)
def test_each_item_has_every_seed_once(
    tmp_path: Path, items: list[Cells], kind: str, fact: str
) -> None:
    with pytest.raises(DataError, match=re.escape(f"irony-7 is here {fact}")):
        read(release(tmp_path, items, kind=kind), None)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"order": (1, 2, 3)}, "the order of irony-7"),
        ({"options": ("So.", *OPTIONS[1:])}, "the options of irony-7"),
    ],
)
def test_a_control_poses_the_item_as_the_story_does(
    tmp_path: Path, change: dict[str, tuple[str, ...]], fact: str
) -> None:
    controls = [posed(seed, WITHOUT, **change) for seed in range(5)]  # type: ignore[arg-type]  # a table's column
    with pytest.raises(DataError, match=fact):
        sample(tmp_path, controls=controls)


@pytest.fixture(scope="module")
def released() -> list[Sample]:
    """The released items."""
    return read([FOLDER / name for name in prompt_files()], None)


@needs_data
def test_the_release_has_169_items_97_with_a_control(released: list[Sample]) -> None:
    counts = Counter(sample.group for sample in released)

    assert counts == {
        **{"deceits": 20, "indirect_speech": 20, "irony": 25, "maxims": 19},
        **{"metaphor": 20, "humour": 25, "coherence_inference": 40},
    }
    assert sum("without_story" in sample.fields for sample in released) == 97
    assert len({sample.id for sample in released}) == 169


@needs_data
def test_laid_out_by_its_order_each_item_is_the_released_prompt(released: list[Sample]) -> None:
    by_id = {sample.id: sample for sample in released}
    paths = [FOLDER / name for name in prompt_files() if "_no-story_" not in name]

    rows = [row.cells for path in paths for row in read_rows(path, COLUMNS)]

    assert len(rows) == 845
    for row in rows:
        sample = by_id[f"{GROUPS[row['phenomenon']]}-{row['item_id']}"]
        order = [int(number) for number in sample.references[f"order{row['seed']}"]]
        expected = [f"{at}) {sample.choices[n - 1]}" for at, n in enumerate(order, 1)]
        assert [*map(str.strip, row["prompt"].split("\n"))][-len(order) - 1 : -1] == expected
        assert sample.choices[order[int(row["randomized_true_answer"]) - 1] - 1] == sample.gold


@needs_data
def test_stored_answers_are_to_the_items_and_orders_of_the_release(released: list[Sample]) -> None:
    known = {
        (sample.id, seed, sample.choices, sample.references[f"order{seed}"])
        for sample in released
        for seed in range(5)
    }
    paths = sorted((FOLDER / "model_data").glob("*.csv"))

    rows = [row for path in paths for row in read_rows(path, COLUMNS)]
    items = [(posed_item(row), int(row.cells["seed"])) for row in rows]

    assert len(items) >= 845
    assert all((i.id, seed, i.choices, i.references["order"]) in known for i, seed in items)
