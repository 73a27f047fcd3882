"""The layout of rated replies: known by its content, the criterion read in the prompt alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from support.each import each
from support.rated_files import answered

from harness.core import Sample
from harness.data.readers.topical_chat import shown
from harness.errors import DataError
from harness.importers.formats.topical_chat import read
from harness.importers.record import SampleLookup, StoredAnswer
from harness.registry import Registry, shipped_home
from harness.text.prompts import Prompts

WHERE = Path("gpt_coh.json")


def stored(*items: Mapping[str, Any]) -> Sequence[StoredAnswer]:
    parts = {f"s{at}": part for at, part in enumerate(answered())}
    samples = [
        Sample(name, shown(p["source"], p["context"], p["system_output"]), group=p["system_id"])
        for name, p in parts.items()
    ]
    task = Registry((shipped_home(),), {}, Path()).load("tasks", "topical_chat")
    posed = SampleLookup(
        "topical_chat", task, samples=samples, prompts=Prompts([]), data="released"
    )
    return read(WHERE, json.encode(items).decode(), posed)[0]


def variant(prompt: str) -> str:
    [answer] = stored({**answered()[0], "prompt": prompt})
    return answer.variant


@each(
    ("prompt", "expected"),
    [
        ("Naturalness (1-3) Is it natural?", "naturalness"),
        ("Criteria:\n\nGroundedness (0-1) given the fact", "groundedness"),
        ("OVERALL (1 - 5)", "overall"),
        ("Form (scores ONLY):\n- Coherence:\n", "coherence"),
        ("Overall (1-5) all in all\n\nSaid:\n\nCoherence (1-3)\n", "overall"),
        ("Lakers (1-3) lost\n- Naturalness:", "naturalness"),
    ],
)
def test_the_variant_is_the_first_criterion_its_prompt_names(prompt: str, expected: str) -> None:
    assert variant(prompt) == expected


@pytest.mark.parametrize(
    "prompt", ["", "Rate the coherence (1-3).", "Coherence is asked for", "Fluency (1-3)"]
)
def test_a_criterion_is_not_fished_out_of_prose(prompt: str) -> None:
    with pytest.raises(DataError, match=r"gpt_coh\.json, item 1: its prompt names no criterion"):
        variant(prompt)


def test_prompt_and_texts_are_kept_to_the_letter() -> None:
    item = answered(texts=(" 2\n", ""))[0]
    answer, *others = stored(item, *answered()[1:])

    assert [part.sample_id for part in (answer, *others)] == ["s0", "s1", "s2", "s3"]
    assert answer.messages[0].content == item["prompt"]
    assert answer.texts == (" 2\n", "")


def test_a_damaged_item_is_named() -> None:
    items = answered()
    items[3]["all_responses"] = [None]

    with pytest.raises(DataError, match=r"\$\[3\]\.all_responses\[0\]"):
        stored(*items)
