"""The commands that the table of scale is of: each does its work, by itself and in shards."""

import pytest

from benchmarks.scale import COMMANDS, stages

MILLION, MOST_MB = 1_000_000, 1500


@pytest.mark.slow
def test_every_command_does_its_work_and_is_measured() -> None:
    found = [*stages(20, 1), *stages(20, 2)]

    assert [(one.command, one.workers) for one in found] == [
        *((name, 1) for name in (*COMMANDS, "shard", "merge")),
        *(("shard", 2), ("merge", 2)),
    ]
    assert all(one.items == 20 and one.cpu_s > 0 and one.most_mb > 0 for one in found)


@pytest.mark.slow
def test_a_million_items_would_fit_into_a_gigabyte_and_a_half_by_what_more_items_take() -> None:
    few, many = 20_000, 60_000  # each more than is held at once
    held = {one.command: one.most_mb for one in stages(few, 1)}
    most = {
        one.command: one.most_mb
        + (one.most_mb - held[one.command]) * (MILLION - many) / (many - few)
        for one in stages(many, 1)
    }

    assert set(most) == {*COMMANDS, "shard", "merge"}
    assert {command: mb for command, mb in most.items() if mb > MOST_MB} == {}
