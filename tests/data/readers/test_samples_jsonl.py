"""Sample sets of our own writing to samples."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.each import each

from harness.data.readers import emphasized_talk, hu2022, ludwig, samples_jsonl, topical_chat
from harness.data.readers.samples_jsonl import read
from harness.errors import DataError, SpecError
from harness.specs.data import OverlaySpec

OWN: dict[str, Any] = {
    "group": "irony",
    "fields": {"utterance": "Sturdy thing."},
    "references": {"true": ["It is flimsy."]},
}
OTHER = OWN | {"fields": {"utterance": "What a bargain."}}


def sample_set(folder: Path, *lines: dict[str, Any] | str) -> list[Path]:
    """The only file of a sample set that holds these lines."""
    path = folder / "set.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return [path]


def test_a_line_becomes_a_sample(tmp_path: Path) -> None:
    more = {"id": "a", "cluster": "c", "choices": ["x", "y"], "gold": "x", "flags": ["f"]}

    [sample] = read(sample_set(tmp_path, OWN | more), None)

    assert (sample.id, sample.cluster, sample.group) == ("a", "c", "irony")
    assert (sample.choices, sample.gold, sample.flags) == (("x", "y"), "x", ("f",))
    assert sample.fields == {"utterance": "Sturdy thing."}
    assert sample.references == {"true": ("It is flimsy.",)}


def test_an_id_comes_from_group_and_fields_alone(tmp_path: Path) -> None:
    changed = OWN | {"references": {"true": ["It will not last."]}}

    [first] = read(sample_set(tmp_path, OWN), None)
    [second] = read(sample_set(tmp_path, changed), None)
    [third] = read(sample_set(tmp_path, OTHER), None)

    assert first.id == second.id != third.id
    assert first.id.startswith("irony-")
    assert len(first.id) == len("irony-") + 10


def test_samples_keep_the_order_of_lines_and_blank_lines_are_none(tmp_path: Path) -> None:
    samples = read(sample_set(tmp_path, OTHER, "", OWN), None)
    assert [s.fields["utterance"] for s in samples] == ["What a bargain.", "Sturdy thing."]


def test_a_line_ends_at_a_newline_alone(tmp_path: Path) -> None:
    line = '{"group": "g", "fields": {"utterance": "one\u2028two"}, "references": {}}'
    [sample] = read(sample_set(tmp_path, line), None)
    assert sample.fields["utterance"] == "one\u2028two"


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("{", ":2: not JSON"),
        ("[]", ":2: list, not an object"),
        (OTHER | {"feilds": {}}, ":2: unknown key `feilds`; did you mean fields"),
        ({"group": "irony", "references": {}}, ":2: missing required key `fields`"),
        (OTHER | {"fields": {"utterance": 3}}, ":2: Expected `str`, got `int`"),
        (OTHER | {"references": {"true": []}}, ":2: reference 'true' has no text"),
        (OTHER | {"references": {"true": [" "]}}, ":2: reference 'true' has no text"),
        (OTHER | {"references": {"utterance": ["x"]}}, "in fields and in references"),
    ],
)
def test_a_fault_is_named_by_line(tmp_path: Path, line: dict[str, Any] | str, fact: str) -> None:
    files = sample_set(tmp_path, OWN, line)
    with pytest.raises(DataError) as caught:
        read(files, None)

    assert f"{files[0]}:2: " in str(caught.value)
    assert fact in str(caught.value)


def test_a_repeated_id_is_refused_with_both_places(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"jsonl:3: id 'irony-.*' is also that of .*jsonl:1;"):
        read(sample_set(tmp_path, OWN, OTHER, OWN), None)


@pytest.mark.parametrize(
    ("content", "fact"), [(b"", "the file is empty"), (b'{"\xff"}', "not UTF-8 at byte 2")]
)
def test_a_faulty_file_has_its_fault_told(tmp_path: Path, content: bytes, fact: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(content)

    with pytest.raises(DataError, match=rf"set\.jsonl: {fact}"):
        read([path], None)


@each("reader", [emphasized_talk, hu2022, ludwig, samples_jsonl, topical_chat])
def test_data_that_takes_no_overlay_refuses_one(reader: ModuleType) -> None:
    with pytest.raises(SpecError, match="takes no overlay"):
        reader.read([], OverlaySpec(about="", repairs=()))
