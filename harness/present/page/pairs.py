"""Runs to the tables of differences: the leader with each other model, and knowing with acting.

Every statistic is a function of `analysis.compare`. The counts of a table name their items.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from harness.analysis.compare import (
    DIFFERENCE,
    GIVEN_RIGHT,
    compare,
    decided_items,
    read_items,
)
from harness.analysis.pairings import Kind, Pairing, between, have_common, within
from harness.errors import HarnessError
from harness.lazy import DataFrame
from harness.pipeline.score import ALL
from harness.present.page.records import PageCell, PageColumn, PageTable, PageWhy, Value
from harness.present.page.tables import PageNumbers, best, members
from harness.stats.comparison import holm
from harness.stats.estimate import BootstrapSettings
from harness.storage.frames import Row, records

_MOST = 12
"""So many models are compared with the leader."""
_SETTINGS = BootstrapSettings(0, 1000)
_COUNTS = {
    "both": (True, True),
    "only_a": (True, False),
    "only_b": (False, True),
    "neither": (False, False),
    "ties": None,
}
"""The counts of a comparison, and whether A and B are right in them; None where one is neither."""


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """A pairing with the rows of its comparison, and the places of its two runs.

    `p` is that of the difference over all samples, corrected for all pairings that were made
    with it, and not for groups; None where there is none.
    """

    pairing: Pairing
    rows: tuple[Row, ...]
    runs: tuple[int, int]
    p: float | None = None

    @property
    def overall(self) -> Row | None:
        """The difference over all samples; None of intentions, which have none."""
        wanted = (r for r in self.rows if r.group == ALL and r.statistic == DIFFERENCE)
        return next(wanted, None)


def leader_and_others(
    numbers: PageNumbers, board: DataFrame
) -> tuple[list[ComparedRuns], list[str]]:
    """The leader of a board with each other ranked model; and which cannot be compared, and why."""
    lines, pairs, notes = best(board), [], []
    for other in lines[1 : _MOST + 1]:
        row, runs = lines[0], (numbers.run_of(lines[0]), numbers.run_of(other))
        first, second = (numbers.made.stored[place] for place in runs)
        try:
            found, _, _ = between(first, second, (row.judge, row.judge))
        except HarnessError as error:
            notes.append(f"{row.model} and {other.model} are not compared: {error}")
            continue
        label = row.decoding
        pairs += [
            (pairing, runs)
            for pairing in found
            if pairing.kind is Kind.RUNS
            and (pairing.second.variant, pairing.decodings[0]) == (row.variant, label)
        ]
    return _compared(pairs), notes


def _compared(pairs: Sequence[tuple[Pairing, tuple[int, int]]]) -> list[ComparedRuns]:
    """Each pairing with its own rows; p is corrected for all of them together."""
    rows = iter(records(compare([pairing for pairing, _ in pairs], _SETTINGS)))
    made = []
    for pairing, runs in pairs:
        groups = 1 + len({*pairing.items["group"]} - {ALL})
        count = groups * (3 if pairing.kind is Kind.INTENTION else 1)
        made.append(ComparedRuns(pairing, tuple(next(rows) for _ in range(count)), runs))
    overall = [one.overall for one in made]
    has_exact = all(row is not None and row.p_exact is not None for row in overall)
    each = [_p(row, has_exact=has_exact) for row in overall]
    return [replace(one, p=p) for one, p in zip(made, holm(each), strict=True)]


def _p(row: Row | None, *, has_exact: bool) -> float | None:
    if row is None:
        return None
    found: float | None = row.p_exact if has_exact else row.p_permutation
    return found


def know_and_act(numbers: PageNumbers) -> list[ComparedRuns]:
    """What a model chooses rightly against what it writes; intentions against replies; gaps."""
    stored, pairs = numbers.made.stored, []
    for one, run in enumerate(stored):
        try:
            found, _, _ = within(run)
        except HarnessError:  # it has neither gaps nor intentions
            continue
        pairs += [(pairing, (one, one)) for pairing in found]
    for one, other in permutations(range(len(stored)), 2):
        know, act = stored[one], stored[other]
        is_pair = know.file.task.has_choices and not act.file.task.has_choices
        if not is_pair or know.file.model.name != act.file.model.name:
            continue
        if not have_common(know, act):
            continue
        try:
            found, _, _ = between(know, act)
        except HarnessError as error:
            numbers.made.notes.append(str(error))
            continue
        pairs += [(p, (one, other)) for p in found if p.kind is Kind.CHOICE_AND_WORDS]
    # Of several decodings, all together.
    pooled = {_what(p) for p, _ in pairs if p.is_pooled}
    return _compared([(p, runs) for p, runs in pairs if p.is_pooled or _what(p) not in pooled])


def _what(pairing: Pairing) -> tuple[str, ...]:
    sides = pairing.first, pairing.second
    names = [(s.file.digest, s.variant, s.judge.name) for s in sides]
    return (pairing.name, *names[0], *names[1])


def difference_table(
    numbers: PageNumbers, found: Sequence[ComparedRuns], task: str, pick: str
) -> PageTable:
    """The leader less each other model, over all samples and by group."""
    head = (*map(PageColumn, ("A", "B", "group")), *_head("A only right", "B only right"))
    lines = [
        [*_models(one), row.group, *_line(numbers, one, row)] for one in found for row in _rows(one)
    ]
    about = "A less B on the items that both have. A count opens its items."
    title = f"{task}, the leader and each other model: {pick}"
    return PageTable(title, head, lines, task, pick, about)


def know_tables(numbers: PageNumbers, found: Sequence[ComparedRuns]) -> Iterator[PageTable]:
    """What is known, what is done, and how many items are which: a table a kind and group."""
    order = list(Kind)
    for name in dict.fromkeys(
        one.pairing.name for one in sorted(found, key=lambda one: order.index(one.pairing.kind))
    ):
        own = [one for one in found if one.pairing.name == name]
        groups = {row.group for one in own for row in one.rows} - {ALL}
        for group in (ALL, *sorted(groups)):
            yield _know_table(numbers, own, group)


def _know_table(numbers: PageNumbers, own: Sequence[ComparedRuns], group: str) -> PageTable:
    kind, name = own[0].pairing.kind, own[0].pairing.name.replace("_", " ")
    is_gap = kind is Kind.CONTRAST
    sides = ("A", "B") if is_gap else ("knows (A)", "acts (B)")
    only = ("A only right", "B only right") if is_gap else ("knows only", "acts only")
    head = (*map(PageColumn, ("model", *sides)), *_head(*only))
    lines = [
        [_models(one)[0], *_sides(one.pairing), *_line(numbers, one, row)]
        for one in own
        for row in _rows(one)
        if row.group == group
    ]
    pick = "all samples" if group == ALL else group
    return PageTable(f"{name}: {pick}", head, lines, name, pick, _about(kind))


def _about(kind: Kind) -> str:
    if kind is Kind.CHOICE_AND_WORDS:
        return (
            "The same samples, answered by choices (A) and in words (B). A count opens its items."
        )
    if kind is Kind.INTENTION:
        return "The intention that a model spelled out (A) and its response (B), sample by sample."
    return "Two variants of one run (A and B), sample by sample."


def _head(only_a: str, only_b: str) -> tuple[PageColumn, ...]:
    counts = ("n", "both right", only_a, only_b, "both wrong", "tie")
    shares = ("A less B", "B right if A is")
    numbers = (
        *(PageColumn(n, "count") for n in counts),
        *(PageColumn(n, "number") for n in shares),
    )
    return (*numbers, PageColumn("p (Holm)", "p"))


def _models(one: ComparedRuns) -> list[str]:
    return [side.file.model.name for side in (one.pairing.first, one.pairing.second)]


def _sides(pairing: Pairing) -> list[Value]:
    return [
        f"{side.file.run.task}, {side.variant}, by {side.judge.name}"
        for side in (pairing.first, pairing.second)
    ]


def _rows(one: ComparedRuns) -> list[Row]:
    """A row a group: its difference; of intentions, how often the response is right with them."""
    return [row for row in one.rows if row.statistic in (DIFFERENCE, GIVEN_RIGHT)]


def _line(numbers: PageNumbers, one: ComparedRuns, row: Row) -> list[Value]:
    why = _why(numbers, one, row)
    cell = PageCell(row.value, row.low, row.high, why)
    is_difference = row.statistic == DIFFERENCE
    return [
        PageCell(row.n if is_difference else _read(row), why=why),
        *_counts(numbers, one, row),
        cell if is_difference else None,
        _given(row) if is_difference else cell,
        row.p_holm,
    ]


def _read(row: Row) -> int:
    counts = (row.both, row.only_a, row.only_b, row.neither, row.ties)
    return sum(count or 0 for count in counts)


def _given(row: Row) -> float | None:
    right = (row.both or 0) + (row.only_a or 0)
    return (row.both or 0) / right if right else None


def _why(numbers: PageNumbers, one: ComparedRuns, row: Row, chosen: int = -1) -> int:
    """What is behind a number of a pair: the recipes of both, and the items of both runs."""
    text, pairing = numbers.made.texts, one.pairing
    variants = [
        *members(pairing.first.file.task, pairing.first.variant),
        *members(pairing.second.file.task, pairing.second.variant),
    ]
    judges = {pairing.first.judge.name, pairing.second.judge.name}
    missing = ((text.place("in A"), row.missing_a), (text.place("in B"), row.missing_b))
    return numbers.behind(
        PageWhy(
            recipe=text.place(row.signature_a),
            other=text.place(row.signature_b),
            n=row.n,
            clusters=row.clusters,
            missing=tuple(part for part in missing if part[1]),
            runs=tuple(dict.fromkeys(one.runs)),
            variants=text.places(list(dict.fromkeys(variants))),
            judge=text.place(judges.pop()) if len(judges) == 1 else -1,
            group=-1 if row.group == ALL else text.place(row.group),
            chosen=chosen,
        )
    )


def _counts(numbers: PageNumbers, one: ComparedRuns, row: Row) -> Iterator[Value]:
    """How many samples are right in both, in one alone, in neither; each names its samples."""
    if row.both is None:
        yield from [None] * len(_COUNTS)
        return
    items = one.pairing.items
    items = items if row.group == ALL else items[items["group"] == row.group]
    for name, rights in _COUNTS.items():
        names = _of_rights(items, rights)["id"]
        samples = [place for run in one.runs for place in numbers.made.places(run, names)]
        why = _why(numbers, one, row, numbers.listed(samples))
        yield PageCell(getattr(row, name), why=why)


def _of_rights(items: DataFrame, rights: tuple[bool, bool] | None) -> DataFrame:
    if rights is None:
        return read_items(items).drop(decided_items(items).index)
    return items[(items["a"] == float(rights[0])) & (items["b"] == float(rights[1]))]
