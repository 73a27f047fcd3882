"""Run folders to the items of a page, one run at a time; judges' prompts come from the ledger.

What the tables need of each run is kept as columns, so that many runs fit into memory.
Nothing here computes a statistic.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Raw

from harness.analysis.boards.ranked import CONTROL
from harness.analysis.curves import curve_rows
from harness.analysis.run_views import ComparedRun
from harness.core import Sample
from harness.lazy import DataFrame
from harness.parts import Message, digest
from harness.pipeline.score import OF_CHOICE, RIGHT_OR_WRONG
from harness.present.page.records import NONE, PageFacts, PageRow, PageTexts
from harness.storage.find_runs import data_words
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord, StepRecord, VerdictRecord
from harness.storage.runs import RunFile, RunFolder, StoredRows

_DIGITS = 6
_LOT = 16
_ALL = 16**_LOT
"""Lots are drawn below this number."""
MOST_ANSWERS = 20_000
"""The answers of a run up to which a page shows all of them."""
_SHORT, _CHUNK = 8, 10_000


@dataclass
class PageParts:
    """The parts of a page that grow run by run.

    `stored` has runs as columns, `cut` how many answers of each ended at their token limit,
    `called` its tag and the day on which it was written.
    """

    texts: PageTexts = field(default_factory=PageTexts)
    runs: list[PageFacts] = field(default_factory=list)
    items: list[Raw] = field(default_factory=list)
    samples: list[PageRow] = field(default_factory=list)
    stored: list[ComparedRun] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    curves: list[DataFrame] = field(default_factory=list)
    folders: dict[str, int] = field(default_factory=dict)
    by_sample: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    prompts: dict[tuple[tuple[int, ...], ...], int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    wanted: dict[Path, set[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def places(self, run: int, names: Iterable[str]) -> list[int]:
        """The places of a run's samples of some ids, as far as the page shows them."""
        file = self.stored[run].file
        known = self.by_sample.get((file.run.task, file.data.label), {})
        return [known[name] for name in names if name in known]

    def calls(self) -> list[tuple[int, int] | None]:
        """The step and prompt of each judge's call, from the ledgers; None where it is absent."""
        asked = {
            key: request
            for folder, keys in self.wanted.items()
            for key, request in Ledger(folder).asked(keys).items()
        }
        # Placed in the order of the verdicts: a ledger's own order is that of arrival.
        found = {
            key: (self.texts.place(asked[key].step), self.prompt(asked[key].messages))
            for key in self.keys
            if key in asked
        }
        if lost := len(self.keys) - len(found):
            self.notes.append(
                f"The prompts of {lost} of {len(self.keys)} calls of judges are not shown: the "
                "calls ledger is not below the results folder, or does not hold them."
            )
        return [found.get(key) for key in self.keys]

    def prompt(self, messages: Sequence[Message]) -> int:
        """The place of a prompt, -1 where none is stored."""
        if not messages:
            return NONE
        place = self.texts.place
        made = tuple((place(m.role), *map(place, m.content.split("\n"))) for m in messages)
        return self.prompts.setdefault(made, len(self.prompts))


def collect_items(folders: Sequence[RunFolder], results: Path, answers: int) -> PageParts:
    """The items of some runs, and what their tables are made of; about `answers` items a run."""
    made = PageParts()
    for place, folder in enumerate(folders):
        rows = StoredRows(folder)
        made.folders[folder.path.name] = place
        made.called.append(_called(folder))
        _collect(made, folder, rows, answers, folder.results(results) / "calls")
    labels = zip(made.stored, _labels(made), strict=True)
    made.runs += [_facts(made, run.file, label) for run, label in labels]
    return made


def _collect(
    made: PageParts, folder: RunFolder, rows: StoredRows, answers: int, calls: Path
) -> None:
    """Go through the records of one run once."""
    file = folder.read()
    shown, left, cut = list[PageRow](), iter(rows), 0
    # By the sample, so that a page shows the same samples in all variants and runs of a size.
    bound = _ALL if len(rows) <= answers else _ALL * answers // len(rows)
    while part := list(islice(left, _CHUNK)):
        cut += sum(row.answer is not None and row.steps[-1].stop == "length" for row in part)
        chosen = [
            row for row in part if bound == _ALL or int(digest(row.sample.id)[:_LOT], 16) < bound
        ]
        shown += [_item(made, file, row, calls) for row in rows.prompted(chosen)]
    if len(shown) < len(rows):
        made.notes.append(
            f"Of the {len(rows)} answers of {file.model.name} on {file.run.task} the page shows "
            f"{len(shown)}: those to the samples whose ids have the least SHA-256, whatever was "
            "answered. Tables are of all answers; `harness report --answers N` shows about N a run."
        )
    made.items.append(Raw(msgspec.json.encode(shown)))
    files, source = folder.tables(), data_words(file)
    found = [curve_rows(file, files, judge.name) for judge in file.judges]
    made.curves += [rows.assign(source=source) for rows in found if len(rows)]
    made.cut.append(cut)
    made.stored.append(ComparedRun.of(file, files))


def _facts(made: PageParts, file: RunFile, label: str) -> PageFacts:
    judges = [
        {
            "name": made.texts.place(judge.name),
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


def _labels(made: PageParts) -> list[str]:
    """The model of each run; with its tag, its data or its digest where a task has others of it."""
    files = [run.file for run in made.stored]
    names = [file.model.name for file in files]
    tags = [called.partition(", ")[0] if "@" in called else "" for called in made.called]
    further: tuple[Sequence[str], ...] = (
        tags,
        [data_words(file) for file in files],
        [file.digest[:_SHORT] for file in files],
    )
    for more in further:
        keys = [(file.run.task, name) for file, name in zip(files, names, strict=True)]
        names = [
            f"{name} {own}".strip() if keys.count(key) > 1 else name
            for name, own, key in zip(names, more, keys, strict=True)
        ]
    return names


def _called(folder: RunFolder) -> str:
    day = datetime.fromtimestamp(folder.written, UTC).date().isoformat()
    return f"@{folder.tag}, {day}" if folder.tag else day


def _item(made: PageParts, file: RunFile, row: SampleRecord, calls: Path) -> PageRow:
    text, verdicts = made.texts.place, list[PageRow]()
    for place, judge in enumerate(file.judges):
        if (verdict := row.verdicts.get(judge.name)) is not None:
            if judge.asks is not None and verdict.keys:
                made.wanted.setdefault(calls / judge.asks, set()).update(verdict.keys)
            verdicts.append(_verdict(made, place, verdict))
    sample = _sample(made, file, row.sample)
    names = [*map(text, (row.variant, row.decoding, row.answer, row.served))]
    steps = [_step(made, step) for step in row.steps]
    return (len(made.stored), sample, *names, steps, verdicts)


def _step(made: PageParts, step: StepRecord) -> PageRow:
    text, scores = made.texts.place, [_rounded(one.logprob) for one in step.choice_scores]
    prompt = text(step.step), made.prompt(step.messages)
    return (*prompt, *map(text, (step.text, step.reason, step.note or None, step.stop)), scores)


def _verdict(made: PageParts, judge: int, verdict: VerdictRecord) -> PageRow:
    text = made.texts.place
    replies = (*verdict.replies, *[None] * (len(verdict.keys) - len(verdict.replies)))
    kept = {n: v for n, v in verdict.detail.items() if not n.startswith(OF_CHOICE)}
    return (
        judge,
        None if verdict.value is None else _rounded(verdict.value),
        text(verdict.reason),
        text(verdict.note or None),
        [(text(name), _rounded(value)) for name, value in kept.items()],
        [*map(_rounded, verdict.shares)],
        [
            (made.keys.setdefault(key, len(made.keys)), text(reply))
            for key, reply in zip(verdict.keys, replies, strict=False)
        ],
    )


def _sample(made: PageParts, file: RunFile, sample: Sample) -> int:
    known = made.by_sample.setdefault((file.run.task, file.data.label), {})
    if sample.id not in known:
        known[sample.id] = len(made.samples)
        text, places = made.texts.place, made.texts.places
        names = [*map(text, (file.run.task, sample.id, sample.group, sample.cluster))]
        fields = [(text(name), text(value)) for name, value in sample.fields.items()]
        references = [(text(name), places(own)) for name, own in sample.references.items()]
        own = (*names, fields, references, places(sample.choices), text(sample.gold))
        made.samples.append(own)
    return known[sample.id]


def _rounded(value: float) -> float:
    """Six significant digits: more would only make the file larger."""
    return float(f"{value:.{_DIGITS}g}")
