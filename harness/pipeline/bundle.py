"""Stored runs to a bundle, all that derives their numbers again, and a bundle to its proof.

Of the ledger only the lines of the runs' own calls; of prompts and judges only what they used.
Keys and paths of this machine are looked for before anything is written.
"""

import os
import platform
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec import structs

from harness import __version__
from harness.errors import SpecError, StoreError
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import Progress
from harness.pipeline.prove import IMPORTED, Proof, call_keys, prove
from harness.registry import Registry, Section
from harness.specs.models import HostedSpec
from harness.specs.plugins import OWN
from harness.storage.bundle import changed, pack, unpack
from harness.storage.cells import decode_json
from harness.storage.files import write_whole
from harness.storage.find_runs import run_folders
from harness.storage.ledger import Ledger
from harness.storage.ledger_index import mark_of, shard_of
from harness.storage.runs import NAMES, SUMS, RunFile, RunFolder, StoredRun
from harness.workspace import Workspace

HOME, RESULTS, CALLS = "home", "results", "calls{mark}.jsonl"
ABOUT, INDEX = "README.md", "bundle.json"
PACKAGES = ("jinja2", "msgspec", "numpy", "scipy")
"""The packages that numbers come from, in addition to this one."""
_LEAST_SECRET = 8

README = """# A bundle of evaluation results

This zip holds {count} of the pragmatics harness, version {version}, and all that derives
their numbers again: without a key, without the internet, without asking a model.

    harness bundle --check FILE.zip

unpacks it into a temporary folder, renders every prompt again, finds each stored call by what it
asked, reads and judges the answers again, computes the scores again, and compares all files byte
for byte. It says `the same`, or what differs.

| in it | is |
|---|---|
| `bundle.json` | the runs, the versions of the programs that made them, what is left out |
| `results/runs/` | each run: `run.json` (what was run), its tables, `scores.csv` |
| `results/calls/` | the calls behind these runs alone: each request, its response, time and cost |
| `home/` | the task, the judges and the prompts that were used; Python code is never run |
| `SHA256SUMS` | the sum of every file; `sha256sum -c SHA256SUMS` checks them |

What it shows: that these numbers follow from these calls. What it does not show: that the calls
are what a model said, or that the texts are those of the data set; `bundle.json` has the sums of
the data files, to compare with the release. The texts of the samples and the answers are in the
bundle: mind the licence of the data, and that some of it may offend.

## Runs

{runs}
"""


@dataclass(frozen=True, slots=True)
class BundleProof:
    """The files of a bundle that are not as its sums say, and each of its runs derived again."""

    changed: tuple[str, ...]
    runs: tuple[Proof, ...]

    @property
    def is_same(self) -> bool:
        """Whether no file was changed, and every run came out the same."""
        return not self.changed and all(proof.is_same for proof in self.runs)


def write_bundle(workspace: Workspace, folders: Sequence[RunFolder], out: Path) -> tuple[int, int]:
    """Write the bundle of some runs; how many files and how many bytes it has."""
    files = bundle_files(workspace, folders)
    data = pack(files)
    write_whole(out, data)
    return len(files) + 1, len(data)


def prove_bundle(path: Path, progress: Progress) -> BundleProof:
    """Derive every run of a bundle again, offline, in a temporary folder.

    Only what the bundle brings is used: no file of a home folder, and no key. Raises StoreError
    for what is no bundle, or not safe to unpack.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory(prefix="harness-prove-") as place:
        unpack(path, folder := Path(place).resolve())
        folders = run_folders(folder / RESULTS)
        if not folders or not (folder / INDEX).is_file():
            raise StoreError(f"{path}: no {INDEX} or no run in it; name what `harness bundle` made")
        (home := folder / HOME).mkdir(exist_ok=True)
        registry = replace(Registry.open(home), homes=(home,), environ={})
        space = Workspace(registry, folder / RESULTS, None, "corrected", progress)
        proofs = tuple(_without(folder, prove(space, one)) for one in folders)
        return BundleProof((*changed(folder), *_unlisted(folder, folders)), proofs)


def _unlisted(folder: Path, folders: Sequence[RunFolder]) -> Iterator[str]:
    """What an index says that its runs do not, and results that nothing derives."""
    named = {_place(one): one for one in _listed(folder / INDEX)}
    found = dict[str, dict[str, object]]()
    for run in folders:
        with suppress(StoreError):  # its proof says so
            found |= {_place(entry := _entry(run.read())): entry}
    for place in sorted({*named, *found}):
        if place not in found:
            yield f"{INDEX}: names the run {place}, which is not in the bundle"
        elif named.get(place) != found[place]:
            yield f"{INDEX}: says otherwise of the run {place} than its run.json"
    for path in sorted(p for p in (folder / RESULTS).rglob("*") if p.is_file()):
        match path.relative_to(folder / RESULTS).parts:
            case ("runs", _, _, _, file) if file in (*NAMES, SUMS):
                pass
            case ("calls", _, str(file)) if file == CALLS.format(mark=mark_of(shard_of(path))):
                pass
            case _:
                yield f"{path.relative_to(folder).as_posix()}: nothing derives this file"


def _without(folder: Path, proof: Proof) -> Proof:
    """A proof whose lines do not name the folder that the bundle was unpacked to."""
    differences, unproven = (
        tuple(line.replace(f"{folder}{os.sep}", "") for line in part)
        for part in (proof.differences, proof.unproven)
    )
    return replace(proof, differences=differences, unproven=unproven)


def _listed(index: Path) -> list[dict[str, object]]:
    """The runs that bundle.json names; none where it is no such file."""
    try:
        return msgspec.convert(decode_json(index.read_bytes())["runs"], list[dict[str, object]])
    except (msgspec.DecodeError, KeyError, TypeError):  # of them its ValidationError
        return []


def bundle_files(workspace: Workspace, folders: Sequence[RunFolder]) -> dict[str, bytes]:
    """The files of a bundle of some runs, by their paths in it.

    Raises StoreError for a run that is not whole, or whose calls are not all stored, and SpecError
    where a file has a key or a path of this machine in it.
    """
    found = [(folder, StoredRun.read_all(folder)) for folder in folders]
    runs = sorted(found, key=lambda pair: (pair[1].file.run.task, pair[1].file.digest))
    files: dict[str, bytes] = {}
    for folder, run in runs:
        place = f"{RESULTS}/runs/{run.file.run.task}/{run.file.model.name}/{run.file.digest[:16]}"
        if f"{place}/run.json" in files:
            raise SpecError(f"{folder.path}: this run is named twice; name it once")
        files |= {f"{place}/{file}": data for file, data in _run_files(folder, run).items()}
        files |= _specs(workspace.registry, run.file)
    files |= _calls(workspace, runs)
    left_out = sorted({line for _, run in runs for line in _left_out(workspace.registry, run.file)})
    files[INDEX] = _index([run.file for _, run in runs], left_out)
    files[ABOUT] = _readme([run.file for _, run in runs]).encode()
    _refuse_secrets(workspace, files)
    return files


def _run_files(folder: RunFolder, run: StoredRun) -> dict[str, bytes]:
    """The files of a run as they are; a column map named by a path is now named by its stem."""
    data = run.file.task.data
    if data.map is None or not data.map.endswith((".yaml", ".yml")):
        names = [name for name in (*NAMES, SUMS) if (folder.path / name).exists()]
        return {name: (folder.path / name).read_bytes() for name in names}
    own = structs.replace(data, map=Path(data.map).stem)
    file = replace(run.file, task=structs.replace(run.file.task, data=own))
    with tempfile.TemporaryDirectory() as place:
        RunFolder(Path(place)).write(file, run.rows, folder.read_scores() or None)
        return {path.name: path.read_bytes() for path in Path(place).iterdir()}


def _calls(workspace: Workspace, runs: Sequence[tuple[RunFolder, StoredRun]]) -> dict[str, bytes]:
    """The ledger lines of the runs' calls, each once, by the model that was asked.

    Those of each shard are apart: a call that two shards made counts otherwise than a second try.
    """
    found: dict[str, dict[bytes, float]] = {}
    for folder, run in runs:
        results = folder.results(workspace.results)
        keys = call_keys(run.rows)
        names = {run.file.model.name, *(e.asks for e in run.file.judges if e.asks is not None)}
        for name in sorted(names):
            for moment, mark, line in Ledger(results / "calls" / name).stored_lines(keys):
                found.setdefault(f"{name}/{CALLS.format(mark=mark)}", {})[line] = moment
        stored = {key for name in names for key in Ledger(results / "calls" / name).find(keys)}
        if lost := sorted(keys - stored):
            raise StoreError(
                f"{folder.path}: {len(lost)} of its calls are not in the ledger (first: "
                f"{lost[0][:12]}); copy its folder back, or repeat the run"
            )
    # Sorted by time; of one time in the order of the ledger, which `sorted` keeps.
    ordered = {file: sorted(lines, key=lines.__getitem__) for file, lines in found.items()}
    return {f"{RESULTS}/calls/{file}": b"".join(lines) for file, lines in ordered.items()}


def _asked_prompts(registry: Registry, file: RunFile) -> dict[str, str]:
    """The templates that a run was asked in, by their names."""
    prompts, task, texts = registry.prompts, file.task, dict[str, str]()
    if file.model.kind != IMPORTED:
        for variant in (task.variants[name] for name in file.run.variants):
            for template in (*(step.template for step in variant.steps), *variant.slots.values()):
                texts |= prompts.sources(template)
        for phrase in task.phrases:
            texts |= prompts.sources_below(f"{task.origin(file.run.task)}/{phrase}")
    return texts


def _specs(registry: Registry, file: RunFile) -> dict[str, bytes]:
    """The task, column map, judges and prompts of a run, by their paths in the bundle."""
    files, prompts, texts = dict[str, bytes](), registry.prompts, _asked_prompts(registry, file)
    for name in _yaml_judges(registry, file):
        path = registry.file("configs/judges", name)
        files[f"{HOME}/configs/judges/{name}.yaml"] = path.read_bytes()
        spec = registry.load("configs/judges", name)
        template, slots = getattr(spec, "template", None), getattr(spec, "slots", {})
        for file_name in filter(None, (template, *slots.values())):
            texts |= prompts.sources(file_name)
        if str(type(spec).__struct_config__.tag) == OWN and (own := _own_file(spec, path.parent)):
            files[f"{HOME}/configs/judges/{own.name}"] = own.read_bytes()
    named_files: tuple[tuple[Section, str | None], ...] = (
        ("tasks", file.run.task),
        ("configs/tables", file.task.data.map),
    )
    for section, named in named_files:
        if named is not None and (found := _found(registry, section, named)):
            files[f"{HOME}/{section}/{found.stem}.yaml"] = found.read_bytes()
    return files | {f"{HOME}/prompts/{name}": text.encode() for name, text in texts.items()}


def _found(registry: Registry, section: Section, name: str) -> Path | None:
    """The file of a name; None where it is gone: a run holds its task, and needs neither."""
    try:
        path = registry.file(section, name)
    except SpecError:
        return None
    return path if path.is_file() else None


def _own_file(spec: object, folder: Path) -> Path | None:
    place = Path(str(getattr(spec, "entry", "")).rpartition(":")[0])
    return place if place.suffix == ".py" and place.parent == folder and place.is_file() else None


def _yaml_judges(registry: Registry, file: RunFile) -> list[str]:
    known = registry.names("configs/judges")
    named = (JudgeLabel.parse(entry.name).name for entry in file.judges)
    return [name for name in dict.fromkeys(named) if name in known]


def _left_out(registry: Registry, file: RunFile) -> Iterator[str]:
    known = _yaml_judges(registry, file)
    for entry in file.judges:
        name = JudgeLabel.parse(entry.name).name
        if name not in known:
            yield f"judge {entry.name}: has no YAML; its verdicts are kept as stored"
        elif str(type(registry.load("configs/judges", name)).__struct_config__.tag) == OWN:
            yield f"judge {entry.name}: Python code; its verdicts are kept as stored"


def _index(files: Iterable[RunFile], left_out: Sequence[str]) -> bytes:
    runs = [*map(_entry, files)]
    programs = {"harness": __version__, "python": platform.python_version()}
    programs |= {name: version(name) for name in PACKAGES}
    index = {"bundle": 1, "runs": runs, "versions": programs, "not_derived": left_out}
    return msgspec.json.format(msgspec.json.encode(index), indent=2) + b"\n"


def _entry(file: RunFile) -> dict[str, object]:
    """What bundle.json says of a run."""
    return {
        "task": file.run.task,
        "model": file.model.name,
        "digest": file.digest,
        "harness": file.version,
        "judges": [entry.name for entry in file.judges],
        "data": {"source": file.data.source, "files": dict(file.data.files)},
    }


def _place(entry: Mapping[str, object]) -> str:
    """The name of the folder of a run that bundle.json names."""
    return f"{entry.get('task')}/{entry.get('model')}/{str(entry.get('digest'))[:16]}"


def _readme(files: Sequence[RunFile]) -> str:
    lines = [
        f"- {file.run.task}, {file.model.name}: {file.samples} samples, {file.planned} answers, "
        f"judged by {', '.join(entry.name for entry in file.judges) or 'nobody'}"
        for file in files
    ]
    count = f"{len(files)} run{'s' * (len(files) != 1)}"
    return README.format(count=count, version=__version__, runs="\n".join(lines))


def _refuse_secrets(workspace: Workspace, files: Mapping[str, bytes]) -> None:
    """Refuse a bundle with a key of the environment, or a path of this machine, in it."""
    for what, text in [*_keys(workspace.registry), *_paths(workspace)]:
        for name, data in files.items():
            if text.encode() in data:
                raise SpecError(
                    f"{name} has {what} in it, which is not to be handed on; repeat the run "
                    "without it"
                )


def _keys(registry: Registry) -> Iterator[tuple[str, str]]:
    named = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN"}
    for model in registry.names("configs/models"):
        spec = registry.load("configs/models", model)
        named |= {spec.key_env} if isinstance(spec, HostedSpec) and spec.key_env else set()
    for variable in sorted(named):
        value = registry.environ.get(variable, "")
        if len(value) >= _LEAST_SECRET:
            yield f"the key in {variable}", value


def _paths(workspace: Workspace) -> Iterator[tuple[str, str]]:
    places = [Path.home(), Path.cwd(), workspace.results.resolve(), *workspace.registry.homes]
    for place in dict.fromkeys(str(one) for one in places):
        if len(Path(place).parts) > 2:
            yield f"a path of this machine ({place})", place
