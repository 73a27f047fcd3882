"""Ways take turns as whole processes, and one that fails is not counted."""

from pathlib import Path

import pytest

from benchmarks.turns import Command, Way, WayFailed, measure, take_turns


def shell(script: str, folder: Path) -> Command:
    return Command(["sh", "-c", script], folder)


def test_ways_take_turns_and_each_has_a_new_folder(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def way(name: str) -> Way:
        def command(folder: Path) -> Command:
            script = f"ls | wc -l | tr -d '\\n ' >> {log}; echo {name} >> {log}; echo 7 > out"
            words = ["sh", "-c", script]
            return Command(words, folder, read=lambda: [float((folder / "out").read_text())])

        return Way(name, name, command)

    found = take_turns([way("a"), way("b")], 3, say=lambda line: None)

    assert log.read_text().split() == ["0a", "0b"] * 3
    assert [(one.way.name, len(one.seen), one.values) for one in found] == [
        ("a", 3, (7.0,)),
        ("b", 3, (7.0,)),
    ]


def test_a_process_is_measured_with_its_children(tmp_path: Path) -> None:
    script = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; sleep 0.05"
    seen = measure(shell(script, tmp_path))

    assert seen.wall_s > 0.05
    assert seen.cpu_s > 0.01
    assert 0 < seen.most_mb < 2000


def test_a_way_that_fails_is_told_by_its_last_words_but_not_for_missing_items(
    tmp_path: Path,
) -> None:
    with pytest.raises(WayFailed, match=r"ended with 3:\nno weights here"):
        measure(shell("echo no weights here; exit 3", tmp_path))
    assert measure(shell("exit 1", tmp_path)).wall_s > 0
