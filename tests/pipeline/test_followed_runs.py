"""Runs that are read, judged and written while other processes make their calls."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

from support import jobs
from support.toy import Toy

from harness.errors import HarnessError
from harness.models.client.cached import Others
from harness.pipeline.resolve import RunOptions, resolve
from harness.pipeline.studies.shards import Shard, run_each
from harness.storage.runs import RunFolder
from harness.workspace import Workspace

OPTIONS = RunOptions("toy", "oracle", variants=("base", "think"))


def following(space: Workspace, others: Others) -> Workspace:
    return replace(space, terms=replace(space.terms, others=others))


class Parts:
    """Two shards of a run, of which so many are made by a thread of their own."""

    def __init__(self, space: Workspace, made: Sequence[int]) -> None:
        self._space, self._made = space, made
        self._thread = Thread(target=self._make)

    def start(self) -> None:
        """Do nothing: the thread reads what it needs when it begins."""

    def begin(self) -> None:
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _make(self) -> None:
        for number in self._made:
            plan = resolve(replace(self._space, shard=(number, 2)), OPTIONS)
            [_] = run_each([plan], Shard(number, 2))


class LateReply:
    """Another process that, as it ends, stores an earlier reply to a call that was read already."""

    def __init__(self, segment: Path) -> None:
        self._segment, self._is_over = segment, False

    def start(self) -> None:
        """Do nothing: it is there already."""

    def begin(self) -> None:
        raise HarnessError("it has begun already")

    def wait(self, seconds: float | None = None) -> bool:
        if seconds is None and not self._is_over:
            record = json.loads(self._segment.read_text("utf-8").splitlines()[0])
            text = record["response"]["texts"][0]
            record["response"]["texts"] = [f"{text}, said before"]
            line = json.dumps(record | {"time": record["time"] - 1}, separators=(",", ":"))
            self._segment.with_suffix(".shard2of2.jsonl").write_text(line + "\n", "utf-8")
            self._is_over = True
        return self._is_over


def test_a_run_that_follows_others_has_the_bytes_of_one_process(toy: Toy, tmp_path: Path) -> None:
    alone = jobs.run(replace(toy.space(), results=tmp_path / "alone"), OPTIONS).folder

    for made in ([1, 2], [2], []):
        space = replace(toy.space(), results=tmp_path / f"{made}")
        others = Parts(space, made)
        others.begin()
        followed = jobs.run(following(space, others), OPTIONS).folder

        names = sorted(path.name for path in alone.path.iterdir())
        assert sorted(path.name for path in followed.path.iterdir()) == names
        for name in names:
            assert (followed.path / name).read_bytes() == (alone.path / name).read_bytes()
        written = [path.name for path in space.results.glob("calls/oracle/*")]
        assert sum("of2" in name for name in written) == len(made)


def test_a_call_that_others_store_twice_counts_as_it_does_for_every_later_reader(toy: Toy) -> None:
    jobs.run(toy.space(), OPTIONS)
    [segment] = toy.results.glob("calls/oracle/*")
    for path in toy.results.glob("runs/*/*/*/*"):
        path.unlink()

    followed = jobs.run(following(toy.space(), LateReply(segment)), OPTIONS).folder

    def texts(folder: RunFolder) -> list[str | None]:
        return [step.text for row in folder.read_rows() for step in row.steps]

    found = texts(followed)
    assert any("said before" in (text or "") for text in found)
    for path in followed.path.iterdir():
        path.unlink()
    assert texts(jobs.run(toy.space(), OPTIONS).folder) == found
