"""What becomes of a published number: ok, differs, known, lost, or no data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.released_layouts import write_dialogues

from harness.analysis.verify import DIFFERS, KNOWN, NO_DATA, OK, TARGET, verify
from harness.errors import SpecError
from harness.specs.data import GoldenSpec
from harness.specs.schema import load_spec
from harness.storage.frames import Row, records

CELL = {"table": "t", "cell": "c", "recompute": "emphasized_talk", "value": "items", "published": 3}
RULE = {"recompute": "none", "value": None, "rule": "sum", "of": ["*half"]}
NAMED = {"known_difference": "counted otherwise", "found": 3}


def golden(cell: dict[str, Any], **rest: object) -> GoldenSpec:
    content = {"paper": "p", "about": "a", "cells": [{**CELL, **cell}], **rest}
    spec: GoldenSpec = load_spec(content, GoldenSpec, where="toy.yaml")
    return spec


def only(cell: dict[str, Any], folder: Path | None, **rest: object) -> Row:
    """The one cell, with this folder as that of every source."""
    (found,) = records(verify({"toy": golden(cell, **rest)}, lambda _: folder))
    return found


@pytest.mark.parametrize(
    ("cell", "status", "reason"),
    [
        ({}, OK, None),
        ({"published": 4}, DIFFERS, None),
        ({"published": 4, "tolerance": 1.0}, OK, None),
        ({"published": 4, **NAMED}, KNOWN, "counted otherwise"),
        ({"published": 4, **NAMED, "found": 5}, DIFFERS, None),
        (NAMED, OK, None),
        ({"value": "words_per_fragment", "published": "1.33"}, OK, None),
        ({"value": "words_per_fragment", "published": "1.330"}, DIFFERS, None),
    ],
)
def test_a_cell_is_judged_by_its_last_digit_and_by_what_is_known(
    tmp_path: Path, cell: dict[str, Any], status: str, reason: str | None
) -> None:
    write_dialogues(tmp_path)
    found = only(cell, tmp_path)
    assert (found.status, found.reason) == (status, reason)


def test_half_a_unit_away_still_rounds_to_the_printed_number() -> None:
    cell = {**RULE, "published": "0.50", "tolerance": 0.5}
    found = only(cell, None, inputs={"half": [1, 2], "other half": [-2]})
    assert (found.recomputed, found.status, found.by) == (1.0, OK, "figures")


def test_a_share_of_nothing_is_no_value() -> None:
    cell = {**RULE, "rule": "share", "of": ["own", "whole"], "published": "0.50"}

    found = only(cell, None, inputs={"own": [1], "whole": [0]})

    assert (found.status, found.reason) == (DIFFERS, "the data at hand gives no value")


def test_a_rule_serves_where_files_are_not_at_hand(tmp_path: Path) -> None:
    cell = {"rule": "sum", "of": ["n", "-m"]}
    write_dialogues(tmp_path)
    inputs = {"n": [5], "m": [1]}

    of_rule, of_file = (only(cell, folder, inputs=inputs) for folder in (None, tmp_path))

    assert (of_rule.recomputed, of_rule.status, of_rule.by) == (4, DIFFERS, "figures")
    assert (of_file.recomputed, of_file.status, of_file.by) == (3, OK, "files")


def test_what_nobody_can_recompute_says_why() -> None:
    found = only({"recompute": "none", "value": None, "reason": "not released"}, None)
    assert (found.status, found.reason) == (TARGET, "not released")
    assert found.recomputed is None


@pytest.mark.parametrize(("has_folder", "named"), [(False, "no folder"), (True, "data.json")])
def test_a_cell_without_its_file_has_no_data(tmp_path: Path, has_folder: bool, named: str) -> None:
    found = only({}, tmp_path if has_folder else None)
    assert found.status == NO_DATA
    assert named in (found.reason or "")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def drop_an_implication(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace(', "not on a table"', ""), "utf-8")


@pytest.mark.parametrize("tamper", [truncate, drop_an_implication])
def test_a_file_tampered_with_differs(tmp_path: Path, tamper: Callable[[Path], None]) -> None:
    write_dialogues(tmp_path)
    tamper(tmp_path / "data.json")
    assert only({"value": "implications", "published": 6}, tmp_path).status == DIFFERS


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        ({"recompute": "emphasised_talk"}, "did you mean emphasized_talk"),
        ({"value": "item"}, "did you mean items"),
        ({**RULE, "rule": "sums"}, "did you mean sum"),
        (RULE, "no cell or input '[*]half'"),
    ],
)
def test_an_unknown_name_is_the_user_s(tmp_path: Path, cell: dict[str, Any], named: str) -> None:
    write_dialogues(tmp_path)
    with pytest.raises(SpecError, match=named):
        only(cell, tmp_path)
