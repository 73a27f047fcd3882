"""Stored runs to a bundle, all that derives their numbers again, and a bundle to its proof.

Of the ledger only the lines of the runs' own calls; of prompts and judges only what they used.
Keys and paths of this machine are looked for before anything is written. A proof renders the
prompts again, so that every call is found by what it asked, and reads, judges and scores the
answers again, offline. Samples are taken as they are stored; no judge's own code is run.
"""

import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, replace
from graphlib import TopologicalSorter
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from harness import __version__
from harness.core import Sample
from harness.errors import HarnessError, SpecError, StoreError
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import CachedClient, CallPolicy, OfflineModel, Progress
from harness.parts import digest
from harness.pipeline.calls import call_frame
from harness.pipeline.execute import answer, with_judge
from harness.pipeline.plan import Plan, variant_digest
from harness.pipeline.records import SamplesOf, summed, with_verdicts
from harness.pipeline.resolve import stored_responses
from harness.pipeline.score import rows_of
from harness.pipeline.setup import joined, stored_setup
from harness.pipeline.walk import rebuild
from harness.registry import JUDGES, Registry, Section
from harness.specs.models import HostedSpec
from harness.specs.plugins import OWN
from harness.storage.bundle import changed, pack, unpack
from harness.storage.cells import decode_json
from harness.storage.files import write_whole
from harness.storage.find_runs import run_folders
from harness.storage.ledger import Ledger
from harness.storage.ledger_index import mark_of, shard_of
from harness.storage.run_tables import RunTables, SampleRecord, VerdictRecord
from harness.storage.runs import NAMES, RUN, SCORES, SUMS, RunFile, RunFolder, StoredRun
from harness.workspace import Workspace

HOME, RESULTS, CALLS = "home", "results", "calls{mark}.jsonl"
ABOUT, INDEX = "README.md", "bundle.json"
PACKAGES = ("jinja2", "msgspec", "numpy", "scipy")
"""The packages that numbers come from, in addition to this one."""
IMPORTED = "replay"
"""The kind of a model whose answers were imported: what it was asked is not ours to derive."""
MOST_SHOWN, LEAST_SECRET = 10, 8

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
class Proof:
    """One run derived again: its name, how many calls it is of, and each thing that differs.

    `unproven` are judges whose verdicts were not derived, and why: these are kept as stored.
    """

    run: str
    calls: int
    differences: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether every file came out the same, and every judge was derived."""
        return not self.differences and not self.unproven


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
    """Write the bundle of some runs; how many files and how many bytes it has.

    Raises StoreError for a run that is not whole, or whose calls are not all stored, and SpecError
    where a file has a key or a path of this machine in it.
    """
    found = [(folder, StoredRun.read_all(folder)) for folder in folders]
    runs = sorted(found, key=lambda pair: (pair[1].file.run.task, pair[1].file.digest))
    files, left_out = dict[str, bytes](), set[str]()
    for folder, run in runs:
        place = f"{RESULTS}/runs/{_place(_entry(run.file))}"
        if f"{place}/{RUN}" in files:
            raise SpecError(f"{folder.path}: this run is named twice; name it once")
        files |= {f"{place}/{name}": data for name, data in _run_files(folder, run).items()}
        files |= _specs(workspace.registry, run.file, left_out)
    files |= _calls(workspace, runs)
    made = [run.file for _, run in runs]
    programs = {"harness": __version__, "python": platform.python_version()}
    programs |= {name: version(name) for name in PACKAGES}
    listed = [*map(_entry, made)]
    index = {"bundle": 1, "runs": listed, "versions": programs, "not_derived": sorted(left_out)}
    files[INDEX] = msgspec.json.format(msgspec.json.encode(index), indent=2) + b"\n"
    lines = [
        f"- {file.run.task}, {file.model.name}: {file.samples} samples, {file.planned} answers, "
        f"judged by {', '.join(entry.name for entry in file.judges) or 'nobody'}"
        for file in made
    ]
    count = f"{len(made)} run{'s' * (len(made) != 1)}"
    about = README.format(count=count, version=__version__, runs="\n".join(lines))
    files[ABOUT] = about.encode()
    _refuse_secrets(workspace, files)
    data = pack(files)
    write_whole(out, data)
    return len(files) + 1, len(data)


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
        results, keys, stored = folder.results(workspace.results), _call_keys(run.rows), set[str]()
        asked = {entry.asks for entry in run.file.judges if entry.asks is not None}
        for name in sorted({run.file.model.name, *asked}):
            ledger = Ledger(results / "calls" / name)
            stored |= ledger.find(keys).keys()
            for moment, mark, line in ledger.stored_lines(keys):
                found.setdefault(f"{name}/{CALLS.format(mark=mark)}", {})[line] = moment
        if lost := sorted(keys - stored):
            raise StoreError(
                f"{folder.path}: {len(lost)} of its calls are not in the ledger (first: "
                f"{lost[0][:12]}); copy its folder back, or repeat the run"
            )
    # Sorted by time; of one time in the order of the ledger, which `sorted` keeps.
    ordered = {file: sorted(lines, key=lines.__getitem__) for file, lines in found.items()}
    return {f"{RESULTS}/calls/{file}": b"".join(lines) for file, lines in ordered.items()}


def _call_keys(records: Sequence[SampleRecord]) -> set[str]:
    """The keys of every call behind some records: of their steps and of their judges."""
    verdicts = (verdict for record in records for verdict in record.verdicts.values())
    return {step.key for record in records for step in record.steps} | {
        key for verdict in verdicts for key in verdict.keys
    }


def _specs(registry: Registry, file: RunFile, left_out: set[str]) -> dict[str, bytes]:
    """The task, column map, judges and prompts of a run, by their paths in the bundle.

    Judges whose verdicts cannot be derived from these are added to `left_out`.
    """
    files, prompts, texts = dict[str, bytes](), registry.prompts, dict[str, str]()
    if file.model.kind != IMPORTED:
        for variant in (file.task.variants[name] for name in file.run.variants):
            for template in (*(step.template for step in variant.steps), *variant.slots.values()):
                texts |= prompts.sources(template)
        for phrase in file.task.phrases:
            texts |= prompts.sources_below(f"{file.task.origin(file.run.task)}/{phrase}")
    for entry in file.judges:
        name = JudgeLabel.parse(entry.name).name
        if name not in registry.names("configs/judges"):
            left_out.add(f"judge {entry.name}: has no YAML; its verdicts are kept as stored")
            continue
        path, spec = registry.file("configs/judges", name), registry.load("configs/judges", name)
        files[f"{HOME}/configs/judges/{name}.yaml"] = path.read_bytes()
        shown = (getattr(spec, "template", None), *getattr(spec, "slots", {}).values())
        for template in filter(None, shown):
            texts |= prompts.sources(template)
        if _kind(spec) == OWN:
            left_out.add(f"judge {entry.name}: Python code; its verdicts are kept as stored")
            own = Path(str(getattr(spec, "entry", "")).rpartition(":")[0])
            if own.suffix == ".py" and own.parent == path.parent and own.is_file():
                files[f"{HOME}/configs/judges/{own.name}"] = own.read_bytes()
    named: dict[Section, str | None] = {
        "tasks": file.run.task,
        "configs/tables": file.task.data.map,
    }
    for section, one in named.items():
        with suppress(SpecError):  # it may be gone: a run holds its task, and needs neither
            if one is not None and (path := registry.file(section, one)).is_file():
                files[f"{HOME}/{section}/{path.stem}.yaml"] = path.read_bytes()
    return files | {f"{HOME}/prompts/{name}": text.encode() for name, text in texts.items()}


def _kind(spec: Any) -> str:  # noqa: ANN401 - a spec of any plugin
    return str(type(spec).__struct_config__.tag)


def _entry(file: RunFile) -> dict[str, Any]:
    """What bundle.json says of a run."""
    return {
        "task": file.run.task,
        "model": file.model.name,
        "digest": file.digest,
        "harness": file.version,
        "judges": [entry.name for entry in file.judges],
        "data": {"source": file.data.source, "files": dict(file.data.files)},
    }


def _place(entry: Mapping[str, Any]) -> str:
    """The name of the folder of a run that bundle.json names."""
    return f"{entry.get('task')}/{entry.get('model')}/{str(entry.get('digest'))[:16]}"


def _refuse_secrets(workspace: Workspace, files: Mapping[str, bytes]) -> None:
    """Refuse a bundle with a key of the environment, or a path of this machine, in it."""
    registry = workspace.registry
    specs = [registry.load("configs/models", name) for name in registry.names("configs/models")]
    named = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN"}
    named |= {spec.key_env for spec in specs if isinstance(spec, HostedSpec) and spec.key_env}
    values = {registry.environ.get(key, ""): f"the key in {key}" for key in sorted(named)}
    found = {value: what for value, what in values.items() if len(value) >= LEAST_SECRET}
    for place in (Path.home(), Path.cwd(), workspace.results.resolve(), *registry.homes):
        if len(place.parts) > 2:
            found.setdefault(str(place), f"a path of this machine ({place})")
    for text, what in found.items():
        for name, data in files.items():
            if text.encode() in data:
                fact = f"{name} has {what} in it, which is not to be handed on"
                raise SpecError(f"{fact}; repeat the run without it")


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
        proofs = tuple(_prove(space, one) for one in folders)
        return BundleProof((*changed(folder), *_unlisted(folder, folders)), proofs)


def _unlisted(folder: Path, folders: Sequence[RunFolder]) -> Iterator[str]:
    """What an index says that its runs do not, and results that nothing derives."""
    listed, found = list[dict[str, Any]](), dict[str, dict[str, Any]]()
    with suppress(msgspec.DecodeError, KeyError, TypeError):
        known = decode_json((folder / INDEX).read_bytes())["runs"]
        listed = msgspec.convert(known, list[dict[str, Any]])
    for run in folders:
        with suppress(StoreError):  # its proof says so
            found |= {_place(entry := _entry(run.read())): entry}
    named = {_place(one): one for one in listed}
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


def _prove(workspace: Workspace, folder: RunFolder) -> Proof:
    """Derive a stored run from the calls of a workspace, and compare its files byte for byte."""
    calls, found, unproven = 0, list[str](), list[str]()
    try:
        run = StoredRun.read_all(folder)
        file, records = _derived(workspace, run, found, unproven)
        calls = len(_call_keys(run.rows))
        found += _compared(workspace, folder, run, (file, records))
        if found and file.version != __version__:
            found.append(f"version {file.version} scored it, and this is {__version__}; try that")
    except HarnessError as error:
        found, unproven = [str(error)], []
    # Lines do not name the folder that the bundle was unpacked to.
    here = f"{workspace.results.parent}{os.sep}"
    lines = [tuple(line.replace(here, "") for line in part) for part in (found, unproven)]
    return Proof("/".join(folder.path.parts[-3:]), calls, *lines)


def _derived(
    workspace: Workspace, run: StoredRun, found: list[str], unproven: list[str]
) -> tuple[RunFile, list[SampleRecord]]:
    """A run and its records made again, with what differs and what was not derived."""
    file, responses, registry = replace(run.file, judges=()), {}, workspace.registry
    ledger = Ledger(workspace.results / "calls" / file.model.name)
    if file.model.kind == IMPORTED:  # others asked, in words that only they know
        bare = [replace(row, verdicts={}) for row in run.rows]
        responses = stored_responses(ledger, bare, file.task)
        records = [rebuild(record, responses, file.task) for record in bare]
    else:
        found += _unlike_digests(workspace, file)
        asked, samples = file.model, _in_order(run.rows)
        model = OfflineModel(asked.name, asked.kind, asked.identity, frozenset({file.task.mode}))
        plan = Plan(file.run, file.task, samples, registry.prompts, asked.identity)
        policy = CallPolicy(is_offline=True, retry="none")
        records = answer(plan, CachedClient(model, ledger, workspace.progress, policy))
    if file.run.digest != file.digest:
        said = f"its digest is {file.run.digest[:16]}, and it says {file.digest[:16]}"
        found.insert(0, f"{RUN}: {said}")
    for entry in run.file.judges:
        try:
            if (name := JudgeLabel.parse(entry.name).name) not in registry.names("configs/judges"):
                raise SpecError("it has no YAML, so that its verdicts are kept as stored")
            if (kind := _kind(registry.load("configs/judges", name))) == OWN or kind not in JUDGES:
                said = f"it is code of its own (kind {kind}), which is not run"
                raise SpecError(f"{said}; read it, then run it")
            setup = stored_setup(workspace, entry, SamplesOf(records))
            if setup.judge.recipe != entry.recipe:
                said = f"its YAML or prompts give {setup.judge.recipe}, and it judged as"
                found.append(f"judge {entry.name}: {said} {entry.recipe}")
            with setup.client or nullcontext():
                records = with_judge(records, file.task, setup, responses)
        except (HarnessError, ImportError, OSError) as error:
            unproven.append(f"judge {entry.name}: {error}")
            stored = {n: row.verdicts[entry.name] for n, row in enumerate(run.rows)}
            records = with_verdicts(records, entry.name, stored)
        file = replace(file, judges=joined(file.judges, entry))
    return file, records


def _unlike_digests(workspace: Workspace, file: RunFile) -> Iterator[str]:
    """What is wrong with the digests of the words that a run was asked in."""
    prompts = workspace.registry.prompts
    for variant in file.run.variants:
        words = variant_digest(file.task, variant, prompts=prompts, name=file.run.task)
        if file.variants.get(variant) != words:
            yield f"variant {variant}: its prompts are not those that the run asked"
    if digest(dict(file.variants)) != file.run.prompts:
        yield f"{RUN}: its variants are not those of its digest"


def _in_order(records: Sequence[SampleRecord]) -> tuple[Sample, ...]:
    """The samples in an order that gives each variant its own, as a variant may lack some."""
    lines: dict[tuple[str, str], list[str]] = {}
    for record in records:
        lines.setdefault((record.variant, record.decoding), []).append(record.sample.id)
    before = TopologicalSorter({record.sample.id: () for record in records})
    for line in lines.values():
        for first, second in pairwise(line):
            before.add(second, first)
    by_id = {sample.id: sample for sample in SamplesOf(records)}
    return tuple(by_id[name] for name in before.static_order())


def _compared(
    workspace: Workspace,
    folder: RunFolder,
    run: StoredRun,
    derived: tuple[RunFile, list[SampleRecord]],
) -> Iterator[str]:
    """The files that hold other values than the derived records give, and the first of these."""
    file, records = derived
    tables = RunTables(folder.path)
    tables.add(records)
    called = call_frame(tables.files)
    file = summed(file, tables.files, called)
    known, scores = folder.read_scores(), rows_of(file, tables.files, called)
    if scores != known:
        scores = rows_of(_as_in_yaml(workspace.registry, file), tables.files, called)
    with tempfile.TemporaryDirectory() as place:
        other_folder = RunFolder(Path(place))
        # A run that a judge has read has scores, though somebody took them away.
        has_scores = folder.scores.exists() or bool(file.judges)
        other_folder.put(file, tables, scores if has_scores else None)
        places = (folder.path, other_folder.path)
        differing = [name for name in NAMES if _held(places[0] / name) != _held(places[1] / name)]
    yield from (f"{name}: other values are derived" for name in differing)
    found = [line for pair in zip(run.rows, records, strict=False) for line in _of(*pair)]
    if SCORES in differing:
        found += [
            f"score {row.score.metric} of {row.score.variant}, {row.score.group} by "
            f"{row.score.judge}: {row.score.value} is derived"
            for row in scores
            if repr(row) not in set(map(repr, known))
        ]
    yield from found[:MOST_SHOWN]
    if len(found) > MOST_SHOWN:
        yield f"and {len(found) - MOST_SHOWN} more answers, verdicts or scores"


def _as_in_yaml(registry: Registry, file: RunFile) -> RunFile:
    """The run with its task's variants in the order of the YAML, where there is one.

    run.json has them by name, and the rows of averages follow the order they were scored in.
    """
    name, own = file.run.task, file.task.variants
    listed = registry.load("tasks", name).variants if name in registry.names("tasks") else {}
    variants = {variant: own[variant] for variant in {**listed, **own} if variant in own}
    return replace(file, task=structs.replace(file.task, variants=variants))


def _held(path: Path) -> object:
    """The values of a table, its columns by name, or the bytes of another file."""
    if not path.is_file():
        return None
    if path.suffix != ".parquet":
        return path.read_bytes()
    from pyarrow.parquet import read_table

    table = read_table(path)
    return table.select(sorted(table.column_names))


def _of(stored: SampleRecord, derived: SampleRecord) -> Iterator[str]:
    """What differs of one answer."""
    where = f"{stored.sample.id} {stored.variant} {stored.decoding}"
    if stored.answer != derived.answer:
        yield f"{where}: answer {stored.answer!r} is stored, {derived.answer!r} derived"
    elif replace(stored, verdicts={}) != replace(derived.unprompted, verdicts={}):
        yield f"{where}: another call or another text of it is derived"
    for name, verdict in stored.verdicts.items():
        if (other := derived.verdicts.get(name)) != verdict:
            yield f"{where}: {name} {_unlike(verdict, other)}"


def _unlike(stored: VerdictRecord, derived: VerdictRecord | None) -> str:
    """The first part in which two verdicts differ, and both of its values."""
    if derived is None:
        return f"{stored.value} is stored, none derived"
    parts = {
        part.name: (getattr(stored, part.name), getattr(derived, part.name))
        for part in fields(stored)
    }
    name, (one, other) = next(item for item in parts.items() if item[1][0] != item[1][1])
    said = "" if name == "value" else f"{stored.value}: "
    if isinstance(one, Mapping):
        name = next(key for key in {**one, **other} if one.get(key) != other.get(key))
        one, other = one.get(name), other.get(name)
    return f"{said}{f'{name} ' * bool(said)}{one!r:.60} is stored, {other!r:.60} derived"
