"""The released intent-resolution CSV to samples, with and without corrections."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.packages import DATA, needs_data

from harness.core import Sample
from harness.data.readers.intent_resolution import FIELDS, REFERENCES, read
from harness.errors import DataError
from harness.specs.data import OverlaySpec
from harness.specs.schema import load_spec, read_yaml

RELEASED = Path(DATA or ".", "intent_resolution", "hu_gpt4augmented_turn2_data.csv")
OVERLAY = Path(__file__).parents[3] / "tasks" / "overlays" / "intent_resolution.yaml"
OWN = {
    "item_id": "1",
    "task": "irony",
    "context_without_dialog_prefix": "Ola's umbrella has just turned inside out. ",
    "dialog_prefix": " Pia says,",
    "dialog": ' "Sturdy thing." ',
    "true_intention": "Pia finds the umbrella flimsy.",
    "incorrect_literal_intention": "Pia finds the umbrella solid. ",
    "person1": "Pia ",
    "person2": "Ola",
    "turn1_true_intention_dialog": '"That umbrella is flimsy."',
    "turn1_literal_intention_dialog": '"That umbrella is solid."',
    "turn2_response_from_true_intention": "I should buy a better one.",
    "turn2_response_from_literal_intention": "Yes, it will last for years.",
}
OTHER = OWN | {"item_id": "2", "dialog": '"What a bargain."'}


# Cells with runs of blanks, in themselves or where prefix and utterance meet.
PADDED = {
    *(("indirect_speech", "1", FIELDS["prefix"]), ("indirect_speech", "1", FIELDS["utterance"])),
    *(("irony", "13", FIELDS["context"]), ("irony", "17", FIELDS["utterance"])),
}


def table(folder: Path, *rows: dict[str, str]) -> list[Path]:
    """The only file of a source: these rows, each with two cells under no column name."""
    path = folder / "items.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*OWN, "", ""])
        writer.writerows([*row.values(), "Oh, ", "dear."] for row in rows)
    return [path]


def overlay(row: dict[str, str], **corrections: str) -> OverlaySpec:
    """An overlay of one repair that sets whole cells."""
    return repairs({"row": row, "set": corrections})


def repairs(*said: dict[str, Any]) -> OverlaySpec:
    """An overlay of these repairs."""
    listed = [{"row": {"item_id": "1"}, "defect": "a slip", **repair} for repair in said]
    spec: OverlaySpec = load_spec({"about": "", "repairs": listed}, OverlaySpec, where="slips.yaml")
    return spec


def texts(sample: Sample) -> dict[str, str]:
    """What a sample says, by column of the file."""
    said = {column: sample.fields[name] for name, column in FIELDS.items()}
    return said | {column: sample.references[name][0] for name, column in REFERENCES.items()}


def test_a_row_becomes_a_sample(tmp_path: Path) -> None:
    [sample] = read(table(tmp_path, OWN), None)

    assert sample.group == "irony"
    assert sample.fields["context"] == "Ola's umbrella has just turned inside out."
    assert (sample.fields["speaker"], sample.fields["listener"]) == ("Pia", "Ola")
    assert sample.references["turn2_literal"] == ("Yes, it will last for years.",)
    assert sample.id.startswith("irony-1-")
    assert sample.cluster == sample.id


@pytest.mark.parametrize(
    ("prefix", "said"),
    [(" Pia says,", '  "Hm." '), ("Pia says, ", '"Hm."'), ("Pia says,", '"Hm."')],
)
def test_the_joint_of_prefix_and_utterance_is_kept(tmp_path: Path, prefix: str, said: str) -> None:
    [sample] = read(table(tmp_path, OWN | {"dialog_prefix": prefix, "dialog": said}), None)
    assert sample.fields["prefix"] + sample.fields["utterance"] == (prefix + said).strip()


def test_a_repair_changes_its_row_alone_and_no_id(tmp_path: Path) -> None:
    files = table(tmp_path, OWN, OTHER)
    released = read(files, None)

    corrected = read(files, overlay({"item_id": "2"}, person2="Ulf", dialog='"Oh."'))

    assert corrected[0] == released[0]
    assert corrected[1].id == released[1].id
    assert texts(corrected[1]) == texts(released[1]) | {"person2": "Ulf", "dialog": '"Oh."'}


@pytest.mark.parametrize(
    ("prefix", "dialog", "story"),
    [
        ("Pia  says,  ", '"Sturdy."', 'Pia says, "Sturdy."'),
        ("Pia says, ", '  "Sturdy."', 'Pia says, "Sturdy."'),
        ("Pia says,", '  "Sturdy."', 'Pia says, "Sturdy."'),
        ("Pia says,", '"Sturdy."', 'Pia says,"Sturdy."'),
    ],
)
def test_runs_of_blanks_in_a_story_become_one_where_corrections_are_made(
    tmp_path: Path, prefix: str, dialog: str, story: str
) -> None:
    files = table(tmp_path, OWN | {"dialog_prefix": prefix, "dialog": dialog})
    change = overlay({"item_id": "1"}, person2="Ulf")
    [released], [corrected] = read(files, None), read(files, change)

    assert (released.fields["prefix"], released.fields["utterance"]) == (prefix, dialog)
    assert corrected.fields["prefix"] + corrected.fields["utterance"] == story


@pytest.mark.parametrize(
    ("swaps", "text"),
    [
        ([["umbrella", "parasol"]], "Pia finds the parasol flimsy."),
        ([[" flimsy", ""]], "Pia finds the umbrella."),
        ([["Pia", "Ola", "flimsy", "thin"]], "Ola finds the umbrella thin."),
        ([["Pia", "Ola"], ["flimsy", "thin"]], "Ola finds the umbrella thin."),
    ],
)
def test_a_swap_changes_fragments_alone(tmp_path: Path, swaps: list[list[str]], text: str) -> None:
    files = table(tmp_path, OWN)
    [released] = read(files, None)
    [sample] = read(files, repairs(*({"swap": {"true_intention": swap}} for swap in swaps)))

    assert sample.id == released.id
    assert texts(sample) == texts(released) | {"true_intention": text}


def test_a_cell_under_no_name_can_be_taken(tmp_path: Path) -> None:
    files = table(tmp_path, OWN)
    [released] = read(files, None)
    [sample] = read(files, repairs({"take": {"person1": 2, "person2": 1}}))

    assert texts(sample) == texts(released) | {"person1": "dear.", "person2": "Oh,"}


@pytest.mark.parametrize(
    ("row", "corrections", "fact"),
    [
        ({"item_id": "9"}, {"person2": "Ulf"}, "0 rows are that of"),
        ({"task": "irony"}, {"person2": "Ulf"}, "2 rows are that of"),
    ],
)
def test_a_repair_that_fits_no_single_row_is_refused(
    tmp_path: Path, row: dict[str, str], corrections: dict[str, str], fact: str
) -> None:
    files = table(tmp_path, OWN, OTHER)
    with pytest.raises(DataError) as caught:
        read(files, overlay(row, **corrections))

    assert fact in str(caught.value)
    assert str(files[0]) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"task": "ironies"}, "unknown task 'ironies'; did you mean irony"),
        ({"true_intention": " "}, ":2: nothing in true_intention"),
        ({"person2": ""}, ":2: nothing in person2"),
    ],
)
def test_a_faulty_cell_has_its_line(tmp_path: Path, changes: dict[str, str], fact: str) -> None:
    with pytest.raises(DataError) as caught:
        read(table(tmp_path, OWN | changes), None)
    assert fact in str(caught.value)


def test_an_overlay_may_state_a_text_that_is_blank_as_released(tmp_path: Path) -> None:
    column = REFERENCES["turn2_true"]
    spec = overlay({"item_id": "1"}, **{column: "Get another."})
    [sample] = read(table(tmp_path, OWN | {column: ""}), spec)

    assert texts(sample)[column] == "Get another."


def test_a_repeated_row_is_refused_with_both_places(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"csv:4: id .* is also that of .*csv:2"):
        read(table(tmp_path, OWN, OTHER, OWN), None)


@pytest.fixture(scope="module")
def corrections() -> OverlaySpec:
    """The project's overlay."""
    spec: OverlaySpec = load_spec(read_yaml(OVERLAY), OverlaySpec, where=str(OVERLAY))
    return spec


@needs_data
def test_the_released_file_has_84_samples() -> None:
    samples = read([RELEASED], None)
    counts = Counter(sample.group for sample in samples)

    assert counts == {"indirect_speech": 20, "irony": 25, "maxims": 19, "metaphor": 20}
    assert len({sample.id for sample in samples}) == 84


@needs_data
def test_the_overlay_changes_what_it_names_and_nothing_else(corrections: OverlaySpec) -> None:
    groups = {"indirectspeech": "indirect_speech"}
    named = {
        (groups.get(task := repair.row["task"], task), repair.row["item_id"], column)
        for repair in corrections.repairs
        for column in (*repair.set, *repair.swap, *repair.take)
    }

    changed = {
        (old.group, old.id.split("-")[1], column)
        for old, new in zip(read([RELEASED], None), read([RELEASED], corrections), strict=True)
        for column in texts(old)
        if texts(old)[column] != texts(new)[column]
    }

    assert changed == named | PADDED


@needs_data
def test_corrected_cues_and_quotations_are_well_formed(corrections: OverlaySpec) -> None:
    for sample in read([RELEASED], corrections):
        prefix, utterance = sample.fields["prefix"], sample.fields["utterance"]

        assert prefix[-1].isspace() or utterance[0].isspace(), sample.id
        assert '"' in utterance, sample.id
        assert all(text.count('"') % 2 == 0 for text in texts(sample).values()), sample.id
