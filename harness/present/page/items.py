"""Run folders to the data of a page, one run at a time; judges' prompts come from the ledger.

Texts are places in one table; -1 is the place of a text that is not there. Arrays hold the fields
of a record in their order, as `assets/report.js` reads them:

- a sample: task, id, group, cluster, fields and references by name, choices, gold;
- an item: run, sample, variant, decoding, answer, served, steps, verdicts;
- a step: name, prompt, text, reason, note, stop, scores of the choices;
- a verdict: judge (of its run), value, reason, note, details by name, shares, calls and replies.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Raw, Struct

from harness.analysis.boards.ranked import CONTROL
from harness.analysis.boards.scores import Row
from harness.analysis.pairings import ComparedRun
from harness.core import Sample
from harness.lazy import DataFrame
from harness.parts import Message, digest
from harness.pipeline.records import truncated_of
from harness.pipeline.score import RIGHT_OR_WRONG
from harness.pipeline.verdict_frame import OF_CHOICE
from harness.storage.find_runs import data_words
from harness.storage.ledger import Ledger
from harness.storage.read_tables import arrow_table
from harness.storage.run_tables import SampleRecord, StepRecord, VerdictRecord
from harness.storage.runs import RunFile, RunFolder, StoredRows
from harness.text.cleanup import repair_surrogates

NONE = -1
MOST_ANSWERS = 20_000  # the answers of a run up to which a page shows all of them
_LOT = 16
Cell = tuple[float | None, float | None, float | None, int]
"""A number with its interval and the place of what is behind it; None where it has none."""
Value = Cell | tuple[float | None, float | None, float | None, int, str] | str | float | int | None
Array = tuple[object, ...]


class PageTable(Struct, frozen=True):
    """A table of a section; of those with one `task` a reader picks one by its `pick`.

    A column has a `name` and a `kind`. `about` is above the table, `notes` below.
    """

    title: str
    columns: Sequence[Mapping[str, str]]
    rows: Sequence[Sequence[Value]]
    task: str = ""
    pick: str = ""
    about: str = ""
    notes: Sequence[str] = ()


class PageSection(Struct, frozen=True):
    """A part of the page: sentences, pictures, tables.

    A picture has a `title`, a `metric`, the levels of `chance`, which are lines, and `rows`: of
    each model its name, value, interval, and whether it is a control.
    """

    name: str
    title: str
    lines: Sequence[str] = ()
    dots: Sequence[Mapping[str, object]] = ()
    tables: Sequence[PageTable] = ()


@dataclass
class PageParts:
    """All that a page shows, and what it is made of, run by run.

    `places_of` has each text with its place; `runs` are facts for the script; `prompts` are lists
    of messages, each its role and its lines; `calls` has the step and prompt of each judge's call,
    None where the ledger does not have it. Of each run `cut` has how many answers ended at their
    token limit, of how many; `called` is its tag and day, `compared` reads its verdicts. `ledgers`
    opens that of a folder, once. `whys` are what is behind numbers, `chosen` lists of samples that
    numbers name.
    """

    scores: DataFrame = field(init=False)
    files: Sequence[RunFile] = ()
    called: Sequence[str] = ()
    folders: Mapping[str, int] = field(default_factory=dict)
    compared: Callable[[int], ComparedRun] = NotImplemented
    ledgers: Callable[[Path], Ledger] = field(
        default_factory=lambda: cache(partial(Ledger, is_snapshot=True))
    )
    title: str = ""
    sections: Sequence[PageSection] = ()
    calls: Sequence[tuple[int, int] | None] = ()
    places_of: dict[str, int] = field(default_factory=dict)
    runs: list[dict[str, object]] = field(default_factory=list)
    items: list[Raw] = field(default_factory=list)
    samples: list[Array] = field(default_factory=list)
    cut: list[tuple[int, int]] = field(default_factory=list)
    decodings: list[set[str]] = field(default_factory=list)
    by_sample: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    prompts: dict[tuple[tuple[int, ...], ...], int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    wanted: dict[Path, set[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    whys: list[dict[str, object]] = field(default_factory=list)
    chosen: list[list[int]] = field(default_factory=list)

    @cached_property
    def texts(self) -> list[str]:
        """All texts, in the order of their places; half a character becomes U+FFFD."""
        return [*map(repair_surrogates, self.places_of)]

    def text(self, text: str | None) -> int:
        """The place of a text, -1 for None."""
        return NONE if text is None else self.places_of.setdefault(text, len(self.places_of))

    def places(self, texts: Iterable[str]) -> tuple[int, ...]:
        """The places of some texts."""
        return tuple(map(self.text, texts))

    def file_of(self, row: Row) -> RunFile:
        """The run that a row of a board is of."""
        return self.files[self.folders[row.run]]

    def behind(self, signature: str, counts: tuple[int, int], **more: object) -> int:
        """The place of what is behind a number: recipe, n and clusters, missing, its items."""
        none = dict.fromkeys(("judge", "decoding", "group", "chosen", "other"), NONE)
        facts = {"recipe": self.text(signature), "n": counts[0], "clusters": counts[1]}
        self.whys.append({"missing": (), "runs": (), "variants": (), **none, **facts, **more})
        return len(self.whys) - 1

    def listed(self, runs: Iterable[int], names: Iterable[str]) -> int:
        """The place of a list: the samples of some ids in some runs, as far as they are shown."""
        kinds = {(self.files[run].run.task, self.files[run].data.label) for run in runs}
        known = [self.by_sample.get(kind, {}) for kind in kinds]
        names = list(names)
        self.chosen.append(sorted({own[name] for own in known for name in names if name in own}))
        return len(self.chosen) - 1

    def place_calls(self) -> None:
        """Look up the step and prompt of each judge's call in the ledgers."""
        asked = {
            key: request
            for folder, keys in self.wanted.items()
            for key, request in self.ledgers(folder).asked(keys).items()
        }
        # In the order of the verdicts: a ledger's own order is that of arrival.
        self.calls = [
            (self.text(asked[key].step), self.prompt(asked[key].messages)) if key in asked else None
            for key in self.keys
        ]
        if lost := list(self.calls).count(None):
            self.notes.append(
                f"The prompts of {lost} of {len(self.keys)} calls of judges are not shown: the "
                "calls ledger is not below the results folder, or does not hold them."
            )

    def prompt(self, messages: Sequence[Message]) -> int:
        """The place of a prompt, -1 where none is stored."""
        if not messages:
            return NONE
        made = tuple((self.text(m.role), *self.places(m.content.split("\n"))) for m in messages)
        return self.prompts.setdefault(made, len(self.prompts))


def collect_items(folders: Sequence[RunFolder], results: Path, answers: int) -> PageParts:
    """The items of some runs, and what their tables are made of; about `answers` items a run."""
    days = [datetime.fromtimestamp(folder.written, UTC).date().isoformat() for folder in folders]
    tags = [f"@{folder.tag}" if folder.tag else "" for folder in folders]
    files = [folder.read() for folder in folders]
    made = PageParts(
        files,
        [f"{tag}, {day}" if tag else day for tag, day in zip(tags, days, strict=True)],
        {folder.key: place for place, folder in enumerate(folders)},
        cache(lambda place: ComparedRun.read(folders[place])),
    )
    for place, folder in enumerate(folders):
        _collect(made, place, folder, answers, folder.results(results) / "calls")
    labels = zip(files, _labels(files, tags), strict=True)
    made.runs += [_facts(made, file, label) for file, label in labels]
    return made


def _collect(made: PageParts, run: int, folder: RunFolder, answers: int, calls: Path) -> None:
    """What a page shows of one run: its answers to some of the samples, read with their prompts."""
    file, files, rows = made.files[run], folder.tables(), StoredRows(folder, is_checked=False)
    # By the sample, so that a page shows the same samples in all variants and runs of a size.
    bound = 16**_LOT * answers // max(len(rows), answers)
    names = arrow_table(files["samples"], ["sample"]).column("sample").chunks
    lots = (int(digest(name)[:_LOT], 16) for part in names for name in part.to_pylist())
    is_shown = np.fromiter((lot < bound for lot in lots), bool)[rows.places]
    records = rows.prompted(rows.at(is_shown), made.ledgers)
    shown = [msgspec.json.encode(_item(made, run, row, calls)) for row in records]
    if len(shown) < len(rows):
        made.notes.append(
            f"Of the {len(rows)} answers of {file.model.name} on {file.run.task} the page shows "
            f"{len(shown)}: those to the samples whose ids have the least SHA-256, whatever was "
            "answered. Tables are of all answers; `harness report --answers N` shows about N a run."
        )
    made.items.append(Raw(b"[" + b",".join(shown) + b"]"))
    made.cut.append((truncated_of(files), len(rows)))
    decodings = arrow_table(files["answers"], ["decoding"], ["decoding"]).column("decoding")
    made.decodings.append({*decodings.unique().to_pylist()})


def _facts(made: PageParts, file: RunFile, label: str) -> dict[str, object]:
    judges = [
        {
            "name": made.text(judge.name),
            "metric": judge.metric,
            "recipe": judge.recipe,
            "asks": judge.asks,
            "is_share": judge.metric == RIGHT_OR_WRONG,
        }
        for judge in file.judges
    ]
    variants = file.task.variants
    return {
        "label": label,
        "task": file.run.task,
        "model": file.model.name,
        "kind": file.model.kind,
        "digest": file.digest,
        "is_control": file.model.kind == CONTROL,
        "judges": judges,
        "orders": {name: s.averaged_over for name, s in variants.items() if s.averaged_over},
    }


def _labels(files: Sequence[RunFile], tags: Sequence[str]) -> list[str]:
    """The model of each run; with its tag, its data or its digest where a task has others of it."""
    names = [file.model.name for file in files]
    for further in (tags, map(data_words, files), [file.digest[:8] for file in files]):
        keys = [(file.run.task, name) for file, name in zip(files, names, strict=True)]
        counts = Counter(keys)
        names = [
            f"{name} {own}".strip() if counts[key] > 1 else name
            for key, name, own in zip(keys, names, further, strict=True)
        ]
    return names


def _item(made: PageParts, run: int, row: SampleRecord, calls: Path) -> Array:
    file, verdicts = made.files[run], list[Array]()
    for place, judge in enumerate(file.judges):
        if (verdict := row.verdicts.get(judge.name)) is not None:
            if judge.asks is not None and verdict.keys:
                made.wanted.setdefault(calls / judge.asks, set()).update(verdict.keys)
            verdicts.append(_verdict(made, place, verdict))
    sample = _sample(made, file, row.sample)
    names = [*map(made.text, (row.variant, row.decoding, row.answer, row.served))]
    return (run, sample, *names, [_step(made, step) for step in row.steps], verdicts)


def _step(made: PageParts, step: StepRecord) -> Array:
    scores = [_rounded(one.logprob) for one in step.choice_scores]
    texts = (step.text, step.reason, step.note or None, step.stop)
    return (made.text(step.step), made.prompt(step.messages), *map(made.text, texts), scores)


def _verdict(made: PageParts, judge: int, verdict: VerdictRecord) -> Array:
    replies = (*verdict.replies, *[None] * (len(verdict.keys) - len(verdict.replies)))
    kept = {n: v for n, v in verdict.detail.items() if not n.startswith(OF_CHOICE)}
    return (
        judge,
        None if verdict.value is None else _rounded(verdict.value),
        made.text(verdict.reason),
        made.text(verdict.note or None),
        [(made.text(name), _rounded(value)) for name, value in kept.items()],
        [*map(_rounded, verdict.shares)],
        [
            (made.keys.setdefault(key, len(made.keys)), made.text(reply))
            for key, reply in zip(verdict.keys, replies, strict=False)
        ],
    )


def _sample(made: PageParts, file: RunFile, sample: Sample) -> int:
    known = made.by_sample.setdefault((file.run.task, file.data.label), {})
    if sample.id not in known:
        known[sample.id] = len(made.samples)
        text, places = made.text, made.places
        names = [*map(text, (file.run.task, sample.id, sample.group, sample.cluster))]
        fields = [(text(name), text(value)) for name, value in sample.fields.items()]
        references = [(text(name), places(own)) for name, own in sample.references.items()]
        made.samples.append((*names, fields, references, places(sample.choices), text(sample.gold)))
    return known[sample.id]


def _rounded(value: float) -> float:
    """Six significant digits: more would only make the file larger."""
    return float(f"{value:.6g}")
