"""The records of a page's JSON: tables, runs, samples, items; texts are places in one table.

Arrays hold the fields of a record in their order, as `assets/report.js` reads them; -1 is the
place of a text that is not there.
"""

from collections.abc import Mapping, Sequence

from msgspec import Raw, Struct

from harness.text.cleanup import repair_surrogates

NONE = -1


class PageTexts:
    """Different texts, each once, and their places."""

    def __init__(self) -> None:
        """No text is known yet."""
        self._places: dict[str, int] = {}

    def place(self, text: str | None) -> int:
        """The place of a text, -1 for None."""
        if text is None:
            return NONE
        found = self._places.get(text)
        return self._places.setdefault(text, len(self._places)) if found is None else found

    def places(self, texts: Sequence[str]) -> tuple[int, ...]:
        """The places of some texts."""
        return tuple(map(self.place, texts))

    @property
    def texts(self) -> list[str]:
        """The texts in the order of their places; half a character becomes U+FFFD."""
        return [text if _is_whole(text) else repair_surrogates(text) for text in self._places]


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class PageWhy(Struct, frozen=True):
    """What stands behind a number: its recipe, counts, what is missing by reason, its items.

    `runs` and `variants` are empty, and `judge`, `decoding` and `group` -1, where the number is of
    all. `chosen` is the place of a list of samples, -1 for none.
    """

    recipe: int
    n: int
    clusters: int
    missing: tuple[tuple[int, int], ...] = ()
    runs: tuple[int, ...] = ()
    variants: tuple[int, ...] = ()
    judge: int = NONE
    decoding: int = NONE
    group: int = NONE
    chosen: int = NONE
    other: int = NONE


class PageCell(Struct, frozen=True, array_like=True):
    """A number with its interval and the place of what is behind it; None where it has none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: int = NONE


Value = PageCell | str | float | int | None


class PageColumn(Struct, frozen=True):
    """A heading and the kind of its cells: text, number, count, usd or p."""

    name: str
    kind: str = "text"


class PageTable(Struct, frozen=True):
    """A table of a section; of those with one `task` a reader picks one by its `pick`.

    `about` stands above it, `notes` below.
    """

    title: str
    columns: tuple[PageColumn, ...]
    rows: Sequence[Sequence[Value]]
    task: str = ""
    pick: str = ""
    about: str = ""
    notes: Sequence[str] = ()


class PageCurve(Struct, frozen=True):
    """One curve or its bins: places, values and intervals; `to` is the end of each bin."""

    task: str
    pick: str
    label: str
    rate: str
    shape: str
    x: Sequence[float]
    to: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]


class PageSection(Struct, frozen=True):
    """A part of the page above the items."""

    name: str
    title: str
    about: str = ""
    lines: Sequence[str] = ()
    tables: Sequence[PageTable] = ()
    curves: Sequence[PageCurve] = ()


PageFacts = Mapping[str, object]
"""A run: its `label` within its task, `task`, `model`, `kind`, `digest`, `is_control`, its `judges`
(name, metric, recipe, asks, is_share), and `orders`, which maps variants to their average."""
PageRow = tuple[object, ...]
"""A record as an array; texts are places in the table of texts.

- a sample: task, id, group, cluster, fields and references by name, choices, gold;
- an item: run, sample, variant, decoding, answer, served, steps, verdicts;
- a step: name, prompt, text, reason, note, stop, scores of the choices;
- a verdict: judge (of its run), value, reason, note, details by name, shares, calls and replies.
"""


class PageData(Struct, frozen=True):
    """All that a page shows; `items` are lists of items, one a run.

    `prompts` are lists of messages, each its role and its lines: many prompts share lines, and both
    orders of a judge share nearly all. `calls` has the step and prompt of each judge's call,
    None where the ledger does not have it; `chosen` has lists of samples that numbers name.
    """

    title: str
    version: str
    texts: Sequence[str]
    runs: Sequence[PageFacts]
    sections: Sequence[PageSection]
    samples: Sequence[PageRow]
    prompts: Sequence[Sequence[tuple[int, ...]]]
    calls: Sequence[tuple[int, int] | None]
    items: Sequence[Raw]
    whys: Sequence[PageWhy]
    chosen: Sequence[Sequence[int]]
    notes: Sequence[str] = ()
