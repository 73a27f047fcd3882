"""The rated replies to samples: what people gave is a reference, the system the group."""

from collections import Counter
from pathlib import Path

import pytest
from msgspec import json
from support.packages import DATA, needs_data
from support.rated_files import SYSTEMS, TALKS, rated

from harness.data.readers.topical_chat import read
from harness.errors import DataError


def file(folder: Path, content: object) -> list[Path]:
    """The only file of the source."""
    path = folder / "topical_chat.json"
    path.write_bytes(content if isinstance(content, bytes) else json.encode(content))
    return [path]


def test_a_rated_reply_becomes_a_sample(tmp_path: Path) -> None:
    [sample] = read(file(tmp_path, [rated(TALKS[0], "quick")]), None)

    assert sample.group == "quick"
    assert sample.fields["conversation"] == "Is it raining?\nSince noon."
    assert sample.fields["reply"] == "The quick one says: so I thought."
    assert sample.references["coherence"] == ("2.3333333333",)


def test_replies_to_one_conversation_cluster(tmp_path: Path) -> None:
    parts = [rated(talk, system) for talk in TALKS for system in SYSTEMS]
    samples = read(file(tmp_path, parts), None)

    assert len({sample.id for sample in samples}) == 4
    assert samples[0].cluster == samples[1].cluster != samples[2].cluster


def test_an_id_is_of_the_reply_and_its_system_and_not_of_the_rating(tmp_path: Path) -> None:
    part = rated(TALKS[0], "quick")
    first, other = read(file(tmp_path, [part, {**part, "system_id": "slow"}]), None)
    [unrated] = read(file(tmp_path, [{**part, "scores": {}}]), None)

    assert first.fields == other.fields
    assert unrated.id == first.id != other.id


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b'[{"source": "a"', "truncated"),
        ([{**rated("a", "b"), "scores": {"overall": "2"}}], "Expected `float`"),
        ([{"source": "a"}], "system_id"),
        ({}, "Expected `array`"),
    ],
)
def test_another_layout_is_refused(tmp_path: Path, content: object, fact: str) -> None:
    with pytest.raises(DataError, match=fact):
        read(file(tmp_path, content), None)


@needs_data
def test_the_released_file_is_sixty_conversations_by_six_systems() -> None:
    samples = read([Path(DATA or "", "topical_chat", "topical_chat.json")], None)

    assert Counter(s.group for s in samples).most_common()[-1][1] == 60
    assert len(samples) == len({s.id for s in samples}) == 360
    assert len({s.cluster for s in samples}) == 60
    assert all(len(s.references) == 6 for s in samples)
