"""Runs to answers that are read side by side: which items, in which order, with which verdicts.

A block is one item with its answers: of one run, of several runs, or of several variants where
these are compared. Nothing here computes a statistic, prints or asks a model.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Literal, NamedTuple

from harness.analysis.pairings import judge_named
from harness.analysis.run_views import describe_run
from harness.core import Sample
from harness.data.choices import LABELS
from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.custom import JudgeLabel
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.pipeline.items import (
    choice_text,
    expected_texts,
    item_cells,
    item_columns,
    item_texts,
    missing_reason,
)
from harness.pipeline.plan import options
from harness.pipeline.score import RIGHT_OR_WRONG
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import JudgeEntry, RunFile, StoredRun

Where = Literal["right", "wrong", "disagree", "missing", "flip"]
Sort = Literal["data", "worst", "best"]
RATING, ADJACENT = "mean_rating", 1.0
"""Ratings that differ by more than one point disagree: they are not even adjacent."""
_WAY, _DECODING, _NOTHING = "{row.variant} {row.decoding}", "{row.decoding}", ""
"""What the answers of a block share."""
_SHORT = 50
_KNOWN = ("label", LABELS, IMPLICITNESS)
"""Choices of at most so many characters together stand in one line."""


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which answers are wanted, and in which order; empty names mean all.

    `below` keeps answers whose value by the one judge is below it. With `has_pairs` the other
    items of a wanted item's cluster are shown too, under each other.
    """

    where: Where | None = None
    judges: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    below: float | None = None
    sort: Sort = "data"
    has_pairs: bool = False


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """One answer, and the name of what it differs by from the others of its block."""

    file: RunFile
    label: str
    rows: Sequence[SampleRecord]
    place: int

    @property
    def record(self) -> SampleRecord:
        """The record of the answer, whose rows may be in a file."""
        return self.rows[self.place]


@dataclass(frozen=True, slots=True)
class ItemBlock:
    """One item and its answers; `title` names the variant and decoding that all of them share."""

    name: str
    cluster: str
    title: str
    answers: tuple[ItemAnswer, ...]

    @property
    def sample(self) -> Sample:
        """The item."""
        return self.answers[0].record.sample


@dataclass(frozen=True, slots=True)
class ItemSelection:
    """The wanted blocks in order, the number of all blocks, the judges to be shown."""

    blocks: tuple[ItemBlock, ...]
    total: int
    judges: tuple[JudgeEntry, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answers, as in items.csv."""
        return item_columns(self.judges)

    def cells(self) -> Iterator[dict[str, object]]:
        """The rows of the answers one by one, by column."""
        columns = self.columns
        return (dict(zip(columns, row, strict=True)) for row in self.rows())

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows of the answers one by one, as in items.csv."""
        answers = (answer for block in self.blocks for answer in block.answers)
        return (item_cells(answer.file, answer.record, self.judges) for answer in answers)


@dataclass(frozen=True, slots=True)
class ShownText:
    """One line of a block as a reader sees it: its label and its text, and what it is."""

    kind: Literal["text", "answer", "verdict"]
    label: str
    text: str


def select_items(runs: Sequence[StoredRun], query: ItemQuery) -> ItemSelection:
    """The blocks of some runs that a query wants.

    Raises SpecError for names that no run has, and where the query needs other judges.
    """
    _check_names(runs, query)
    judges = _judges(runs, query)
    blocks = _blocks(runs, query)
    if not blocks:
        raise StoreError(
            f"{describe_run(runs[0].file)}: no answer of this group and variant; leave out --group "
            "or --variant"
        )
    wanted = _wanted(query, judges)
    kept = [block for block in blocks if wanted(block)]
    if query.has_pairs:
        clusters = {(block.cluster, block.title) for block in kept}
        kept = [block for block in blocks if (block.cluster, block.title) in clusters]
    return ItemSelection(tuple(_sorted(kept, query, judges)), len(blocks), tuple(judges))


def entries(block: ItemBlock, judges: Sequence[JudgeEntry]) -> Iterator[ShownText]:
    """What a reader sees of a block: the item, what was expected, each answer, its verdicts."""
    first = block.answers[0]
    for name, text in item_texts(first.record).items():
        yield ShownText("text", name, text)
    for name, texts in kept_columns(first).items():
        yield ShownText("text", name, " / ".join(texts))
    choices = block.sample.choices
    if len(" / ".join(choices)) > _SHORT:
        yield from _choice_texts(block)
    else:
        if choices:
            yield ShownText("text", "choices", " / ".join(choices))
        for text in expected_texts(block.sample, first.file.task, first.record.variant):
            yield ShownText("text", "expected", text)
    for answer in block.answers:
        yield from _answer_entries(answer, judges, is_alone=len(block.answers) == 1)


def kept_columns(answer: ItemAnswer) -> dict[str, tuple[str, ...]]:
    """The columns of a table that its map keeps with text and label, where they have texts."""
    if answer.file.task.data.map is None or answer.file.data.mode == "sample":
        return {}
    kept = answer.record.sample.references
    return {name: texts for name, texts in kept.items() if name not in _KNOWN}


def _choice_texts(block: ItemBlock) -> Iterator[ShownText]:
    """The choices as they were numbered; without numbers where the answers saw several orders."""
    sample = block.sample
    orders = {
        tuple(option.index for option in options(a.file.task, a.record.variant, sample))
        for a in block.answers
    }
    has_one = len(orders) == 1
    order = orders.pop() if has_one else range(len(sample.choices))
    for place, index in enumerate(order, 1):
        label = f"choice {place}" if has_one else "choice"
        is_right = sample.choices[index] == sample.gold
        yield ShownText("text", f"{label}{', right' * is_right}", sample.choices[index])


def _answer_entries(
    answer: ItemAnswer, judges: Sequence[JudgeEntry], *, is_alone: bool
) -> Iterator[ShownText]:
    record, task = answer.record, answer.file.task
    for step in () if task.has_choices else record.steps[:-1]:
        label = step.step if is_alone else f"{answer.label}: {step.step}"
        yield ShownText("text", label, step.text or "-")
    if record.answer is None:
        said = f": {note}" if (note := record.steps[-1].note) else ""
        text = f"(no answer: {missing_reason(record, task)}{said})"
    else:
        words = choice_text(record, task)
        is_more = words is not None and words != record.answer
        text = f"{record.answer}: {words}" if is_more else record.answer
    yield ShownText("answer", answer.label, text)
    for judge in judges:
        if (verdict := record.verdicts.get(judge.name)) is not None:
            yield ShownText("verdict", judge.name, _said(verdict, judge))


def _said(verdict: VerdictRecord, judge: JudgeEntry) -> str:
    """A verdict, then what the judge replied or why there is none."""
    if verdict.value is None:
        value = f"missing, {verdict.reason}"
    elif judge.metric == RIGHT_OR_WRONG:
        value = {1.0: "right", 0.0: "wrong", 0.5: "tie"}.get(verdict.value, f"{verdict.value:.4g}")
    else:
        value = f"{verdict.value:.4g}"
    replies = [f'"{reply.strip()}"' for reply in verdict.replies if reply is not None]
    note = verdict.note if verdict.value is None else ""
    return ": ".join(filter(None, (value, "; ".join(replies) or note)))


def _check_names(runs: Sequence[StoredRun], query: ItemQuery) -> None:
    known: dict[str, set[str]] = {"group": set(), "variant": set()}
    for row in (row for run in runs if query.groups or query.variants for row in run.rows):
        known["group"].add(row.sample.group)
        known["variant"].add(row.variant)
    for what, names in (("group", query.groups), ("variant", query.variants)):
        for name in (name for name in names if name not in known[what]):
            hint = did_you_mean(name, sorted(known[what]))
            raise SpecError(f"--{what} {name!r}: no answer of these runs is of it{hint}")


def _judges(runs: Sequence[StoredRun], query: ItemQuery) -> list[JudgeEntry]:
    """The named judges, or all; each once, in the order of the runs."""
    entries = {entry.name: entry for run in reversed(runs) for entry in reversed(run.file.judges)}
    if lost := [name for name in query.judges if name not in entries]:
        judge_named(runs[0].file, lost[0])
    found = {entry.name: entry for run in runs for entry in run.file.judges}
    return [found[name] for name in query.judges or found]


def _blocks(runs: Sequence[StoredRun], query: ItemQuery) -> list[ItemBlock]:
    """Every item with its answers: items of one variant together, of these clusters together."""
    labels = _run_labels([run.file for run in runs])
    chosen = list(_found(runs, query))
    ways = [
        {(one.variant, one.decoding) for one in chosen if one.run == n} for n in range(len(runs))
    ]
    has_shared = len(runs) > 1 and bool(set.intersection(*ways))
    if len(runs) == 1:
        shared = _DECODING if query.where == "flip" else _WAY
    else:
        shared = _WAY if has_shared else _NOTHING
    members: dict[tuple[str, str], list[_Found]] = {}
    for one in chosen:
        title = intern(shared.format(row=one))
        members.setdefault((title, one.sample_id), []).append(one)
    title_order = list(dict.fromkeys(title for title, _ in members))
    rank = {name: n for n, name in enumerate(dict.fromkeys(one.cluster for one in chosen))}
    made = [
        ItemBlock(name, own[0].cluster, title, tuple(_answer(runs, labels, o, shared) for o in own))
        for (title, name), own in members.items()
    ]
    return sorted(made, key=lambda b: (title_order.index(b.title), rank[b.cluster]))


class _Found(NamedTuple):
    """Where an answer stands, and what its block is found by."""

    run: int
    place: int
    variant: str
    decoding: str
    sample_id: str
    cluster: str


def _found(runs: Sequence[StoredRun], query: ItemQuery) -> Iterator[_Found]:
    for number, run in enumerate(runs):
        for place, row in enumerate(run.rows):
            is_group = not query.groups or row.sample.group in query.groups
            if is_group and (not query.variants or row.variant in query.variants):
                names = (row.variant, row.decoding, row.sample.id, row.sample.cluster)
                yield _Found(number, place, *map(intern, names))  # a text that recurs is held once


def _answer(
    runs: Sequence[StoredRun], labels: Sequence[str], one: _Found, shared: str
) -> ItemAnswer:
    run, label = runs[one.run], intern(_label(labels[one.run], one, shared))
    return ItemAnswer(run.file, label, run.rows, one.place)


def _label(run: str, row: _Found, shared: str) -> str:
    """What an answer differs by from the others of its block; a run alone is its model."""
    way = {_WAY: "", _DECODING: row.variant, _NOTHING: f"{row.variant} {row.decoding}"}[shared]
    return ", ".join(filter(None, ("" if shared is _DECODING else run, way)))


def _run_labels(files: Sequence[RunFile]) -> list[str]:
    """A name for each run: its model, with the task or the digest where two are alike."""
    names = [file.model.name for file in files]
    if len({*names}) < len(names) and len({file.run.task for file in files}) > 1:
        names = [f"{name} on {file.run.task}" for name, file in zip(names, files, strict=True)]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{name} {file.digest[:6]}"
        for name, file in zip(names, files, strict=True)
    ]


def _wanted(query: ItemQuery, judges: Sequence[JudgeEntry]) -> Callable[[ItemBlock], bool]:
    """Whether a block is wanted: by `where`, then by `below`."""
    conditions = []
    if query.where is not None:
        conditions.append(_condition(query, judges))
    if query.below is not None:
        least, judge = query.below, _one_judge(judges, "--below")
        conditions.append(lambda block: any(v < least for v in _known(block, [judge])))
    return lambda block: all(condition(block) for condition in conditions)


def _condition(query: ItemQuery, judges: Sequence[JudgeEntry]) -> Callable[[ItemBlock], bool]:
    if query.where == "missing":
        return lambda block: any(
            answer.record.answer is None or None in _values(answer, judges)
            for answer in block.answers
        )
    if query.where == "disagree":
        alike = _comparable(judges)
        return lambda block: any(_is_split(a, alike) for a in block.answers)
    deciding = _deciding(judges, query)
    match query.where:
        case "right":
            return lambda b: any({*_values(answer, deciding)} == {1.0} for answer in b.answers)
        case "wrong":
            return lambda b: any(0.0 in _values(answer, deciding) for answer in b.answers)
        case _:
            return lambda b: any({0.0, 1.0} <= {*_known(b, [judge])} for judge in deciding)


def _deciding(judges: Sequence[JudgeEntry], query: ItemQuery) -> list[JudgeEntry]:
    """The judges that say right or wrong; of all, those of responses that are not swapped."""
    found = [judge for judge in judges if judge.metric == RIGHT_OR_WRONG]
    if not query.judges:
        found = [j for j in found if not j.step and not JudgeLabel.parse(j.name).is_swapped]
    if not found:
        names = ", ".join(f"{judge.name} ({judge.metric})" for judge in judges) or "nobody"
        raise SpecError(
            f"--where {query.where}: no judge says right or wrong (judged by {names}); for ratings "
            "use --below VALUE or --sort worst with --judge NAME, or have another judge read it"
        )
    return found


def _comparable(judges: Sequence[JudgeEntry]) -> list[list[JudgeEntry]]:
    """The sets of at least two judges that give values on one scale."""
    plain = [judge for judge in judges if not JudgeLabel.parse(judge.name).is_swapped]
    sets = [
        [j for j in plain if (j.metric, j.step) == key]
        for key in dict.fromkeys((j.metric, j.step) for j in plain)
        if key[0] in (RIGHT_OR_WRONG, RATING)
    ]
    if found := [members for members in sets if len(members) > 1]:
        return found
    names = ", ".join(f"{judge.name} ({judge.metric})" for judge in judges) or "nobody"
    raise SpecError(
        f"--where disagree: no two judges of these runs are on one scale (judged by {names}); have "
        "one more read them: harness judge RUN --judge NAME"
    )


def _is_split(answer: ItemAnswer, alike: Iterable[Sequence[JudgeEntry]]) -> bool:
    for members in alike:
        room = 0.0 if members[0].metric == RIGHT_OR_WRONG else ADJACENT
        values = [value for value in _values(answer, members) if value is not None]
        if values and max(values) - min(values) > room:
            return True
    return False


def _one_judge(judges: Sequence[JudgeEntry], option: str) -> JudgeEntry:
    if len(judges) != 1:
        names = ", ".join(judge.name for judge in judges) or "none has read these runs"
        raise SpecError(f"{option} goes by the values of one judge; add --judge NAME ({names})")
    return judges[0]


def _values(answer: ItemAnswer, judges: Iterable[JudgeEntry]) -> list[float | None]:
    """The value of each judge that has read the answer's run; None where it is missing."""
    read = {entry.name for entry in answer.file.judges}
    verdicts = [answer.record.verdicts.get(j.name) for j in judges if j.name in read]
    return [verdict.value if verdict else None for verdict in verdicts]


def _known(block: ItemBlock, judges: Sequence[JudgeEntry]) -> list[float]:
    values = [value for answer in block.answers for value in _values(answer, judges)]
    return [value for value in values if value is not None]


def _sorted(
    blocks: Sequence[ItemBlock], query: ItemQuery, judges: Sequence[JudgeEntry]
) -> list[ItemBlock]:
    """The blocks by the value of the one judge, those without one last; whole clusters in pairs."""
    if query.sort == "data":
        return list(blocks)
    judge, sign = _one_judge(judges, f"--sort {query.sort}"), 1 if query.sort == "worst" else -1
    worst: dict[tuple[str, str], float] = {}
    for block in blocks:
        values = [sign * value for value in _known(block, [judge])]
        name = _place(block, query)
        worst[name] = min([worst.get(name, float("inf")), *values])
    return sorted(blocks, key=lambda block: worst[_place(block, query)])


def _place(block: ItemBlock, query: ItemQuery) -> tuple[str, str]:
    """What is sorted as one: an item, or with `has_pairs` its whole cluster."""
    return (block.cluster if query.has_pairs else block.name, block.title)
