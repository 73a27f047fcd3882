"""Names of runs to their folders, and how runs differ."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import count
from pathlib import Path

from harness.errors import LEFT_OUT, SpecError, StoreError, did_you_mean
from harness.parts import Mode
from harness.specs.models import CLASSIFIERS
from harness.storage.runs import EARLIER, RunFile, RunFolder

_log = logging.getLogger(__name__)
_MOST_LISTED = 20
_COVER = ("variants", "limit", "judges", "version of the program")
LAST = "@last"
"""The name of the run that was written last."""


class NoSuchRun(StoreError):
    """A name means no run, rather than several."""

    def __init__(self, name: str, results: Path) -> None:
        """What was named, and where."""
        placed = sorted(results.glob("runs/*/*"))
        found = [f"{p.parent.name}/{p.name}" for p in placed if name in (p.parent.name, p.name)]
        is_task = (results / "runs" / name).is_dir()
        task = [f"--task {name}, if the command has it"] * is_task
        hint = f" did you mean {' or '.join([*found[:3], *task])}?" if found else ""
        fact = f"no run {name!r} below {results}/runs;{hint}"
        super().__init__(f"{fact} `harness list runs` shows them")
        self.name = name

    def nor(self, kind: str, known: Iterable[str], listing: str) -> SpecError:
        """The error where the name could also be one of another kind, which is said first."""
        close = " or ".join(get_close_matches(self.name, sorted(known)))
        hint = f"did you mean {close}?" if close else f"`{listing}` lists the names"
        return SpecError(f"no {kind} {self.name!r}; {hint}; and {self}")


def find_run(results: Path, name: str, *, is_exact: bool = False) -> RunFolder:
    """The run that a name means (docs/storage.md).

    Raises StoreError where it means none (NoSuchRun), or several, with what these differ in; if it
    `is_exact`, none of several is taken as that of most answers.
    """
    if (Path(name) / "run.json").is_file():
        return RunFolder(Path(name))
    found = _meant(results, name)
    if len(found) == 1:
        return found[0]
    has_choice = found and not is_exact and "@" not in name and "/" in name
    if has_choice and (one := _widest(found)) is not None:
        words = "%s is %s, the newest run of most answers: %d others differ in variants or limit"
        _log.warning(words, name, one.path.name[: shortest(found, 4)], len(found) - 1)
        return one
    if found:
        raise _several(name, found)
    raise NoSuchRun(name, results)


def find_runs(results: Path, names: Iterable[str], *, may_be_part: bool = False) -> list[RunFolder]:
    """The runs that names mean, each once: as `find_run`, but `@TAG` is all runs of that tag.

    With `may_be_part` a name may mean several: also all runs of a task or a model.
    """
    found: dict[Path, RunFolder] = {}
    for name in names:
        own = [one for one in run_folders(results) if may_be_part and name in one.place.split("/")]
        if not own and (may_be_part or (name.startswith("@") and name != LAST)):
            own = _meant(results, name)
        for folder in own or [find_run(results, name)]:
            found.setdefault(folder.path.resolve(), folder)
    return apart(found.values())


def _meant(results: Path, name: str) -> list[RunFolder]:
    """The runs that a name may mean."""
    found = [RunFolder(path) for path in sorted(results.glob("runs/*/*/*")) if path.is_dir()]
    place, mark, tail = name.rpartition("@")
    if name == LAST:
        found = sorted(found, key=lambda folder: folder.written)[-1:]
    elif mark or "/" in name:
        place, tail = (place, tail) if mark else (name, "")
        placed = [one for one in found if place in ("", one.place)]
        begun = [one for one in placed if one.path.name.startswith(tail)] if place else []
        found = [one for one in placed if tail and one.tag == tail] or begun
    else:
        found = [o for o in found if name and (o.key.startswith(name) or name.startswith(o.key))]
    return found


def _widest(found: Sequence[RunFolder]) -> RunFolder | None:
    """The newest run of most answers, where some differ in variants or limits alone; or None."""
    try:
        files = {folder: folder.read() for folder in found}
    except StoreError:  # a damaged one may be meant
        return None
    rest = {tuple(run_facts(f)[n] for n in run_facts(f) if n not in _COVER) for f in files.values()}
    by = max(found, key=lambda folder: (files[folder].planned, folder.written))
    return by if len(rest) == 1 else None


def _several(name: str, found: Sequence[RunFolder]) -> StoreError:
    facts = [""] * len(found)
    with suppress(StoreError):  # a damaged one is listed too
        facts = run_differences([folder.read() for folder in found])
    verb = "means" if "@" in name or "/" in name else "begins"
    lines = [
        f"{name!r} {verb} {len(found)} runs, give more of one: TASK/MODEL@DIGEST, here "
        f"{found[0].place}@{found[0].path.name[: shortest(found, 4)]}, TASK/MODEL@TAG, or a path"
    ]
    for folder, fact in [*zip(found, facts, strict=True)][:_MOST_LISTED]:
        own = [f"@{folder.tag}" if folder.tag else "", fact]
        lines.append(": ".join(filter(None, (f"  {folder.path}", ", ".join(filter(None, own))))))
    more = len(found) - _MOST_LISTED
    return StoreError("\n".join(lines) + (f"\n  and {more} more" if more > 0 else ""))


def shortest(folders: Iterable[RunFolder], least: int) -> int:
    """How many first characters of their digests make some runs differ; at least so many."""
    digests = {folder.path.name for folder in folders}
    return next(n for n in count(least) if len({one[:n] for one in digests}) == len(digests))


_WAYS = {Mode.CHOOSE: "logprob", Mode.CHOOSE_TOKEN: "top_logprobs", Mode.GENERATE: "written"}
"""The ways of answering, as boards name them."""


def run_facts(file: RunFile) -> dict[str, str]:
    """What defines a run, in words, by the name of the fact."""
    run, drawn = file.run, file.run.decodings
    return {
        "task": run.task,
        "model": file.model.name,
        "model version": file.model.revision or file.model.identity,
        "variants": ", ".join(run.variants),
        "limit": "all items" if run.limit is None else f"{run.limit} items",
        "seed": str(run.seed),
        "temperatures": ", ".join(f"{one.temperature:g}" for one in drawn),
        "token limits": ", ".join(dict.fromkeys(str(one.max_tokens) for one in drawn)),
        "replies a prompt": ", ".join(str(one.n) for one in drawn),
        "answers": "label" if file.model.kind in CLASSIFIERS else _WAYS[file.task.mode],
        "data": file.data.label,
        "prompts": run.prompts[:8],
        "judges": ", ".join(entry.name for entry in file.judges) or "none",
        "version of the program": file.version,
    }


def side_names(folders: Sequence[RunFolder]) -> list[str]:
    """The shortest names of some runs that differ: models, with their tags, or all that differs."""
    files = [folder.read() for folder in folders]
    models = [file.model.name for file in files]
    tagged = [f"{name} @{one.tag}" for name, one in zip(models, folders, strict=True)]
    for own in (models, tagged if all(folder.tag for folder in folders) else []):
        if own and len({*own}) == len(own):
            return own
    facts = run_differences(files)
    return [f"{name}, {fact}" if fact else name for name, fact in zip(models, facts, strict=True)]


def distinguishing(facts: Sequence[Mapping[str, str]], names: Sequence[str]) -> list[str]:
    """The names of some facts, and of further ones in which alone runs of a model differ."""
    found = [*names]
    for name in ("token limits", "replies a prompt", "model version", "prompts"):
        seen, more = (
            {tuple(own[one] for one in ("model", *found, *added)) for own in facts}
            for added in ((), (name,))
        )
        found += [name] * (len(more) > len(seen))
    return found


def data_words(file: RunFile) -> str:
    """What data a run was of: a sample set, a source (released, corrected, changed), or files."""
    data = file.data
    if data.mode == "sample":
        return "the task's own samples"
    if file.task.data.map is None or data.mode == "changed":
        return f"{data.source}, {data.mode}"
    names = list(data.files)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{data.source}, file {names[0]}{more}"


def is_trial(file: RunFile) -> bool:
    """Whether a run was of a sample set that stands in for the data of its task."""
    data = file.task.data
    return file.data.mode == "sample" and bool(data.files or data.map)


def run_differences(files: Sequence[RunFile]) -> list[str]:
    """How some runs differ: for each of them its own value of each fact that differs."""
    facts = [run_facts(file) for file in files]
    names = [name for name in (facts[0] if facts else ()) if len({f[name] for f in facts}) > 1]
    return ["; ".join(f"{name} {own[name]}" for name in names) for own in facts]


def run_folders(results: str | Path) -> list[RunFolder]:
    """Every run folder below a results folder, in the order of their paths."""
    return [RunFolder(path.parent) for path in sorted(Path(results).glob("runs/*/*/*/run.json"))]


def shown_runs(results: Path, names: Iterable[str] = ()) -> list[RunFolder]:
    """The runs that names mean, else all, but for what `without_earlier` leaves out."""
    return without_earlier(find_runs(results, names) or run_folders(results))


def apart(folders: Iterable[RunFolder]) -> list[RunFolder]:
    """The same runs, each once and with a key of its own.

    One model under two names has one digest of runs, as its identity makes it: the key of a later
    one has its name too.
    """
    found = dict[str, RunFolder]()
    for folder in {folder.path.resolve(): folder for folder in folders}.values():
        if found.setdefault(folder.key, folder) is not folder:
            folder.key += f"={folder.path.parent.name}"
            found[folder.key] = folder
    return [*found.values()]


def without_earlier(folders: Sequence[RunFolder]) -> list[RunFolder]:
    """The runs, `apart`, that this version wrote; one warning of others; StoreError without any."""
    if lost := [folder for folder in folders if folder.is_earlier]:
        if len(lost) == len(folders):
            lost[0].read()  # raises the error
        words = f"%d of %d runs are left out, such as %s: {EARLIER}"
        _log.warning(words, len(lost), len(folders), lost[0].path, extra=LEFT_OUT)
    return apart(folder for folder in folders if folder not in lost)


def task_folders(folders: Iterable[RunFolder], task: str) -> list[RunFolder]:
    """The runs of a task, in their order; StoreError without any."""
    tasks = [(folder, folder.read().run.task) for folder in folders]
    runs = [folder for folder, own in tasks if own == task]
    if not runs:
        known = sorted({own for _, own in tasks})
        fact = f"no run of task {task!r}{did_you_mean(task, known)}"
        raise StoreError(f"{fact}; `harness run` makes one, or see --results")
    return runs


def freed(results: Path, runs: Sequence[RunFolder], *, has_calls: bool) -> list[Path]:
    """The folders that go with some runs; with `has_calls` also calls that no other run is of."""
    root, gone = (results / "runs").resolve(), {one.path for one in runs}
    if any(root not in path.resolve().parents for path in gone):
        raise SpecError(f"a run is not below {results}/runs; delete its folder yourself")
    if not has_calls:  # then a damaged run need not be read
        return sorted(gone)
    used: dict[bool, set[str]] = {True: set(), False: set()}
    for one in run_folders(results):
        file = one.read()
        used[one.path in gone] |= {file.model.name, *(j.asks or "" for j in file.judges)}
    calls = [results / "calls" / name for name in sorted(used[True] - used[False] - {""})]
    return [*sorted(gone), *(path for path in calls if path.is_dir())]


def megabytes(folder: Path) -> str:
    """What the files of a folder take on the disk."""
    return f"{sum(one.stat().st_size for one in folder.rglob('*') if one.is_file()) / 2**20:.2f} MB"
