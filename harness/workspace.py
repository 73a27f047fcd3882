"""Where a command finds its specs and data, and where it keeps its results."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from msgspec import structs

from harness.core import Model, Sample
from harness.data.choices import derive
from harness.data.download import is_complete, sha256
from harness.data.readers import labelled_table, samples_jsonl
from harness.errors import DataError, HarnessError, SpecError
from harness.implicitness.open import MEASURES, CachedScorer, add_implicitness
from harness.models.client import cached
from harness.models.client.batches import BatchFiles, BatchModel
from harness.models.client.cached import CachedClient, CallPolicy, Progress
from harness.parts import digest
from harness.registry import Registry
from harness.specs.data import OverlaySpec, SourceSpec, TableSpec
from harness.specs.schema import load_spec, read_yaml
from harness.specs.tasks import DataSpec, ImplicitnessSpec
from harness.storage.ledger import Ledger
from harness.storage.runs import DataEntry
from harness.storage.stored_samples import StoredSamples
from harness.storage.tables import is_table

_log = logging.getLogger(__name__)
SAMPLES_JSONL = "samples_jsonl"
DataMode = Literal["corrected", "released"]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where things are found and kept, and whether calls may be made.

    `opened` are the models that runs share, by name; None where each run opens its own. `warned`
    are the warnings of data that a person has had; None where nobody is to be warned.
    """

    registry: Registry
    results: Path
    data: Path | None
    data_mode: DataMode
    progress: Progress
    terms: CallPolicy = field(default_factory=CallPolicy)
    opened: WeakValueDictionary[str, Model] | None = None
    warned: set[str] | None = field(default_factory=set)

    @classmethod
    def open(
        cls,
        home: Path | str = ".",
        results: Path | str = "results",
        *,
        data: Path | str | None = None,
        data_mode: DataMode = "corrected",
        prompts: Path | str | None = None,
        progress: Progress | None = None,
    ) -> "Workspace":
        """Open the folders of a project.

        `home` has the user's own tasks/, configs/ and prompts/. `data` is a folder with a subfolder
        for each source, or a table's file; None takes the folder that HARNESS_DATA names, else the
        fetched data, else the samples that ship. `prompts` has templates that replace shipped ones.
        `progress` is called with a stage and how many of its calls are done, planned and failed.
        """
        given = data or os.environ.get("HARNESS_DATA")
        path = Path(given) if given else None
        if path is not None and not path.exists():
            fact = f"data {path}: no such folder and no such file"
            raise SpecError(f"{fact}; correct --data or HARNESS_DATA")
        registry = Registry.open(Path(home), Path(prompts) if prompts else None)
        return cls(registry, Path(results), path, data_mode, progress or (lambda *_: None))

    def with_budget(self, usd: float | None) -> "Workspace":
        """The same workspace, whose calls may cost so many US dollars at most; None: as before."""
        if usd is None:
            return self
        if not isinstance(usd, int | float) or not 0 <= usd < inf:
            raise SpecError(f"budget_usd {usd}: give US dollars from 0 on")
        return replace(self, terms=replace(self.terms, budget=cached.Budget(usd)))

    def of_stored(self) -> "Workspace":
        """The same workspace for what is stored: no call is made, and no data warned of."""
        return replace(self, terms=replace(self.terms, is_offline=True), warned=None)

    @property
    def is_offline(self) -> bool:
        """Whether no call may be made."""
        return self.terms.is_offline

    def for_counting(self) -> "Workspace":
        """The same workspace for what calls would be made: also of what cannot be opened here."""
        return replace(self, terms=replace(self.terms, is_dry=True))

    def desk(self, model: Model, *, is_checked: bool = True) -> CachedClient:
        """Open the cached client of a model, with its ledger of calls and its price, if known."""
        if is_checked and model.kind in cached.HOSTED:
            self.check_price(model.name)
        folder, price, priced_as = self.results / "calls" / model.name, None, None
        if model.kind in cached.HOSTED and (spec := self.registry.hosted(model.name)):
            price = self.registry.price(model.name)
            priced_as = None if self.registry.is_unpaid(model.name) else spec.model
        files = BatchFiles(folder / "batches")
        waiting = [record.keys for record in files.read() if record.state != "collected"]
        client = CachedClient(
            *(model, self._ledger(folder, model), self.progress, self.terms, price),
            priced_as=priced_as,
            waiting=frozenset(key for keys in waiting for key in keys),
        )
        if (
            self.terms.is_batch
            and not self.is_offline
            and not isinstance(model, cached.OfflineModel)
        ):
            server = self.registry.batch_server(model)
            batches = BatchModel(server, files=files, progress=self.progress)
            return replace(client, model=batches, is_batch=True)
        if waiting:
            self._warn(
                f"model {model.name}: {len(waiting)} batches with {sum(map(len, waiting))} "
                "requests were handed in and not collected; the command that did so collects "
                "them, with --batch"
            )
        return client

    def _ledger(self, folder: Path, model: Model) -> Ledger:
        """The calls of a model, with those of the same model by other names.

        Of servers on this machine, whose models may have equal names, only by the same address.
        """
        is_free = model.kind == "scripted"  # its answers cost nothing
        places = [] if is_free else sorted(folder.parent.glob("*/"))
        others = [one for one in places if one != folder and Ledger(one).is_of(model.identity)]
        own = self._address(model.name) if others else None
        return Ledger(folder, alike=[Ledger(o) for o in others if self._address(o.name) == own])

    def _address(self, name: str) -> str | None:
        """The address of a model's server on this machine; None for any other, or without YAML."""
        with suppress(HarnessError):
            server = self.registry.endpoint(name)
            return server.url if server and not server.remote_host else None
        return None

    def check_price(self, name: str) -> None:
        """Refuse a hosted model that needs a key, and has no price, where there is a budget."""
        is_paid = self.terms.budget and not self.terms.is_dry
        spec = self.registry.hosted(name) if is_paid else None
        if spec and spec.key_env is not None and self.registry.price(name) is None:
            raise SpecError(
                f"--budget: no price is known of model {name}; put it under {spec.model!r} (the "
                "model of its YAML) into configs/prices.yaml of your own folder, or leave the "
                "budget out"
            )

    def training(self, spec: DataSpec, table: TableSpec) -> tuple[list[Sample], DataEntry]:
        """Read the samples of a table to train a classifier on; say where they came from."""
        is_named = table.train or (self.data is not None and self.data.is_file())
        known = self._files(spec, structs.replace(table, files=table.train)) if is_named else None
        if (files := known) is None:
            raise DataError(
                f"column map {spec.map}: nothing to train on; write `train: [FILE]` into the map, "
                f"and name the data with --data or fetch {table.source}"
            )
        entry = self._compared(_entry(spec, files, overlay=None, is_sample=False, table=table))
        return labelled_table.read(files, table, spec.choices), entry

    def samples(self, spec: DataSpec) -> tuple[Sequence[Sample], DataEntry]:
        """Read a task's samples, or the choice samples made of them; say where they came from."""
        source = self.source(spec)
        return self.read(source), source.entry

    def source(self, spec: DataSpec) -> "DataSource":
        """Where a task's samples come from; they are not read yet."""
        table = self.registry.load("configs/tables", spec.map) if spec.map else None
        files = self._files(spec, table)
        if files is None:
            files = [self.registry.resource(spec.sample)]
            entry = _entry(spec, files, overlay=None, is_sample=True, table=table)
            if spec.files or table:
                self._warn_of_sample_set(spec)
            return DataSource(spec, tuple(files), None, None, entry, is_own=False)
        overlay: OverlaySpec | None = None
        if spec.overlay and self.data_mode == "corrected":
            path = self.registry.resource(spec.overlay)
            overlay = load_spec(read_yaml(path), OverlaySpec, where=str(path))
        entry = self._compared(_entry(spec, files, overlay=overlay, is_sample=False, table=table))
        if code := self.registry.reader(spec.reader).source:  # one's own is part of the data
            entry = replace(entry, label=digest((entry.label, code))[:8])
        return DataSource(spec, tuple(files), table, overlay, entry, is_own=bool(code))

    def read(self, source: "DataSource") -> StoredSamples:
        """The samples of a task's data, or the choice samples made of them."""
        spec, files = source.spec, source.files
        if source.table:
            read = StoredSamples(labelled_table.read(files, source.table, spec.choices))
        elif spec.reader == SAMPLES_JSONL or source.entry.mode == "sample":
            read = StoredSamples(samples_jsonl.each(files, source.overlay))
            if read.repeated():
                samples_jsonl.read(files, source.overlay)  # which says where they are
        else:
            read = StoredSamples(self.registry.read(spec.reader, files, source.overlay))
        _check_ids(read, files)
        if spec.derive is not None:
            read = StoredSamples(derive(list(read), spec.derive))
            _check_ids(read, files)
        return read

    def original_rows(
        self, spec: DataSpec, entry: DataEntry, known: Sequence[Path] = ()
    ) -> labelled_table.OriginalRows:
        """The rows of a table that a run's samples were made of.

        They are read where the run read them (`known`) while these files are as they were, else in
        the data of this workspace. Raises DataError where that is none, or not that of the run.
        """
        if spec.map is None:
            raise DataError(f"the data of this run ({', '.join(entry.files)}) is no table")
        table = self.registry.load("configs/tables", spec.map)
        files = list(known)
        if not _are_those(files, entry):
            has_data = self.data or table.source in self.registry.names("configs/data")
            files = (self._files(spec, table) if has_data else None) or []
        if not _are_those(files, entry):
            places = ", ".join(map(str, files or known)) or "no place"
            raise DataError(
                f"the data of this run ({', '.join(entry.files)}) is not at hand: at {places} it "
                "is absent or was changed; name that file with --data FILE (in Python data=FILE), "
                "or add `keep: {NAME: COLUMN}` to the column map and run again"
            )
        return labelled_table.original_rows(files, table, spec.choices)

    def measured(
        self, samples: Sequence[Sample], data: DataEntry, spec: ImplicitnessSpec | None
    ) -> tuple[Sequence[Sample], DataEntry]:
        """Add to each sample its implicitness, and to the data the scorer that measured it."""
        return add_implicitness(samples, data, spec=spec, scorer=self._measure)

    def _measure(self, name: str) -> CachedScorer:
        return CachedScorer(
            self.registry.text_scorer(name),
            self.registry.cache / MEASURES,
            lambda _, done, total: self.progress("implicitness", done, total),
        )

    def _files(self, spec: DataSpec, table: TableSpec | None) -> list[Path] | None:
        if table is None:  # without files a task of its sample set alone, wherever other data is
            folder = self._folder(spec.source) if spec.files else None
            return [folder / spec.source / name for name in spec.files] if folder else None
        if self.data is not None and self.data.is_file():
            return [self.data]
        folder = self._folder(table.source)
        if folder is None and table.source == spec.source:
            return None
        below = (folder or Path()) / table.source
        named = [below / name for name in table.files]
        paths = named or sorted(filter(is_table, below.iterdir() if folder else ()))
        if folder is None or not paths:
            raise DataError(
                f"--map {spec.map}: no table of its data (CSV, TSV, JSON lines or Parquet) is at "
                f"hand; name its file with --data FILE, or put it into a folder {table.source} and "
                "name the folder above with --data DIR"
            )
        return paths

    def _warn_of_sample_set(self, spec: DataSpec) -> None:
        """Warn that a sample set is used in place of the data, and how to get that."""
        fetch = f"`harness data fetch {spec.source}` or " if self._released(spec.source) else ""
        name = spec.sample.removeprefix("samples/")
        self._warn(f"the sample set {name} is used ({fetch}--data DIR for other data)")

    def _compared(self, entry: DataEntry) -> DataEntry:
        """The entry of some data; after a warning "changed", if a file is not as released."""
        released = self._released(entry.source)
        stated = {file.name: file.sha256 for file in released.files} if released else {}
        changed = {name: sha for name, sha in entry.files.items() if stated.get(name, sha) != sha}
        for name, sha in changed.items():
            self._warn(
                f"{entry.source}/{name} is not the file as it was released (sha256 {sha[:8]}..., "
                f"not {stated[name][:8]}...): `harness data fetch {entry.source}` brings that one"
            )
        return replace(entry, mode="changed") if changed else entry

    def _warn(self, message: str) -> None:
        """Warn once a command."""
        if self.warned is not None and message not in self.warned:
            self.warned.add(message)
            _log.warning("%s", message)

    def _released(self, source: str) -> SourceSpec | None:
        is_known = source in self.registry.names("configs/data")
        return self.registry.load("configs/data", source) if is_known else None

    def _folder(self, source: str) -> Path | None:
        if self.data is not None:
            if not (self.data / source).is_dir():
                raise DataError(
                    f"{self.data}: no folder {source!r} in it; name a folder that has one "
                    f"subfolder a source, or run `harness data fetch {source}`"
                )
            return self.data
        fetched = self.registry.cache / "data"
        spec = self._released(source)
        return fetched if spec and is_complete(source, spec, fetched) else None


@dataclass(frozen=True, slots=True)
class DataSource:
    """The files of a task's data, and how they are read and described; `is_own`: by own code."""

    spec: DataSpec
    files: tuple[Path, ...]
    table: TableSpec | None
    overlay: OverlaySpec | None
    entry: DataEntry
    is_own: bool

    @property
    def tables(self) -> tuple[Path, ...]:
        """The files of a table; none where no table is read."""
        return self.files if self.table else ()


def _are_those(files: Sequence[Path], entry: DataEntry) -> bool:
    """Whether these are the files that a run read, unchanged."""
    is_there = bool(files) and all(path.is_file() for path in files)
    return is_there and {path.name: sha256(path) for path in files} == dict(entry.files)


def _entry(
    spec: DataSpec,
    files: Sequence[Path],
    *,
    overlay: OverlaySpec | None,
    is_sample: bool,
    table: TableSpec | None,
) -> DataEntry:
    names = [path.name for path in files] if is_sample or table else spec.files
    found = {name: sha256(path) for name, path in zip(names, files, strict=True)}
    # A task that derives nothing and reads no table keeps the label it always had.
    extra: list[object] = [spec.derive] if spec.derive else []
    if table and not is_sample:
        columns = structs.replace(table, about="", files=(), train=())
        extra += [columns, spec.choices]
    version = digest((found, overlay, *extra))[:8]
    source = table.source if table else spec.source
    if is_sample:
        return DataEntry(source=source, mode="sample", label=f"sample:{version}", files=found)
    mode: DataMode = "corrected" if overlay else "released"
    return DataEntry(source=source, mode=mode, label=version, files=found)


def _check_ids(samples: StoredSamples, files: Sequence[Path]) -> None:
    named = ", ".join(map(str, files))
    if not samples:
        raise DataError(f"{named}: no samples in it; give rows that have a text, or fetch it again")
    if twice := samples.repeated():
        raise DataError(f"{named}: sample ids given twice: {', '.join(twice)}; make them unique")
