"""The commands that the table of scale is of: each does its work, by itself and in shards."""

import pytest

from benchmarks.scale import COMMANDS, stages


@pytest.mark.slow
def test_every_command_does_its_work_and_is_measured() -> None:
    found = [*stages(20, 1), *stages(20, 2)]

    assert [(one.command, one.workers) for one in found] == [
        *((name, 1) for name in (*COMMANDS, "shard", "merge")),
        *(("shard", 2), ("merge", 2)),
    ]
    assert all(one.items == 20 and one.cpu_s > 0 and one.most_mb > 0 for one in found)
