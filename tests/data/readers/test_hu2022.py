"""Multiple-choice prompts in five orders to one sample an item."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import posed_files
from support.packages import DATA, needs_data
from support.posed_files import LABELS, OPTIONS, QUESTION, STORY, WITHOUT, Cells, posed, release

from harness.core import Sample
from harness.data.published.answers import prompt_files
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
        *({"phenomenon": "IVV"}, {"item_id": "seven"}, {"randomized_true_answer": "the first"}),
        *({"randomized_option_order": "[0, 1, 2]"}, {"prompt": "Another prompt."}),
    ],
    ids=str,
)
def test_a_row_at_odds_with_itself_is_refused_with_its_line(tmp_path: Path, changes: Cells) -> None:
    path = posed_files.write(tmp_path / "p.csv", posed(0), {**posed(0), **changes})
    with pytest.raises(DataError, match="not those of an item") as caught:
        read([path], None)

    assert str(caught.value).startswith(f"{path}:10: ")


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
