"""Measured numbers to the page results.md, and to the table of speed in the README.

The numbers are kept in results.json next to the page: a part that is measured again takes the place
of its earlier numbers, and the page is written again from all of them. Nothing here measures.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import msgspec

OURS, LIMIT = "program", "hand"
"""The names of this program and of the limit among the ways of a comparison."""
DISTURBED = 0.1
"""The share of the machine that others may use before a comparison is called disturbed."""
FOLDER = Path(__file__).parent
FIGURES, PAGE = FOLDER / "results.json", FOLDER / "results.md"
BEGIN, END = "<!-- speed: written by python -m benchmarks -->", "<!-- end of speed -->"
CAPACITY = "<!-- capacity: written by python -m benchmarks.scale -->", "<!-- end of capacity -->"
"""Between which lines of the README, and of docs/money.md, what was measured is written."""
AT = (10_000, 1_000_000, 100_000_000)
"""The numbers of items whose cost docs/money.md has."""
INTRODUCTION = """# Results

Written by `python -m benchmarks`; [README.md](README.md) says what is measured and how. Whole
processes, in turns: imports, loading, work and writing count. "x program" is the median of the
ratios of each turn, so that 2 means twice as long as this program in the same turn; in brackets the
lowest and the highest. "by hand" is the limit: a script for that purpose alone, which imports
nothing of this program. "apart" is the largest difference of a value from this program's.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What one way took in each turn: seconds on the clock, CPU seconds, MB at most.

    `apart` is how far its values are from this program's at most; None where it gives none.
    """

    way: str
    title: str
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    most_mb: tuple[float, ...]
    apart: float | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a part was measured.

    `is_idle` is false where the measurement was forced on a loaded machine; `others` is the share
    of the machine that other processes used meanwhile, None where the system does not say.
    """

    machine: str
    versions: Mapping[str, str]
    date: str
    is_idle: bool
    others: float | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether the figures are of the measured processes alone."""
        return self.is_idle and (self.others is None or self.others <= DISTURBED)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ways to do one piece of work, each measured in the same turns; this program is among them.

    `work` says what was done, such as "170 prompts, 615 choices".
    """

    name: str
    title: str
    work: str
    setting: Setting
    rows: tuple[Row, ...]

    def row(self, way: str) -> Row | None:
        """The row of a way; None where it was not measured."""
        return next((row for row in self.rows if row.way == way), None)

    def ratio(self, way: str, to: str = OURS, what: str = "wall_s") -> float | None:
        """The median of the ratios of each turn of one way to another; None if one is not there."""
        one, other = self.row(way), self.row(to)
        return None if one is None or other is None else median(_ratios(one, other, what))


@dataclass(frozen=True, slots=True)
class Stage:
    """One command on so many items: seconds, CPU seconds, and the most memory it held."""

    command: str
    items: int
    workers: int
    wall_s: float
    cpu_s: float
    most_mb: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Commands at several sizes. `base_mb` is what a command holds that does nothing."""

    setting: Setting
    base_mb: float
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """All that has been measured; None where the scale has not."""

    comparisons: tuple[Comparison, ...] = ()
    scale: Scale | None = None

    def having(self, comparison: Comparison) -> "Results":
        """These, with one comparison in place of the earlier one of its name, or behind all."""
        known = {one.name: one for one in self.comparisons} | {comparison.name: comparison}
        return Results(tuple(known.values()), self.scale)


def _ratios(one: Row, other: Row, what: str) -> list[float]:
    pairs = zip(getattr(one, what), getattr(other, what), strict=True)
    return [first / second for first, second in pairs]


def read(path: Path = FIGURES) -> Results:
    """What results.json holds; nothing where it is not there."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def write(results: Results, folder: Path = FOLDER, root: Path | None = None) -> None:
    """Write results.json and results.md; below `root` also what README and capacity page say."""
    (folder / FIGURES.name).write_text(json.dumps(asdict(results), indent=1) + "\n", "utf-8")
    (folder / PAGE.name).write_text(page(results), "utf-8")
    if root is not None:
        _fill(root / "README.md", (BEGIN, END), speed(results))
        _fill(root / "docs" / "money.md", CAPACITY, capacity(results.scale))


def _fill(path: Path, marks: tuple[str, str], text: str) -> None:
    before, rest = path.read_text("utf-8").split(marks[0])
    _, after = rest.split(marks[1])
    path.write_text(f"{before}{marks[0]}\n{text}\n{marks[1]}{after}", "utf-8")


def capacity(scale: Scale | None) -> str:
    """What each command costs at AT; beyond what was measured it is counted from an item's cost.

    The cost of an item is that between the two largest sizes, so that start-up is not in it.
    """
    if scale is None:
        return "Nothing has been measured since the last change."
    caveat = "" if scale.setting.is_quiet else " **on a loaded machine: not to be quoted**"
    heads = [f"{items:,} items" for items in AT]
    lines = [f"Measured{caveat}: {scale.setting.date}, {scale.setting.machine}.", ""]
    lines += [f"| command | {' | '.join(heads)} |", "|---" * (len(AT) + 1) + "|"]
    alone = [stage for stage in scale.stages if stage.workers == 1]
    for command in dict.fromkeys(stage.command for stage in alone):
        sizes = sorted((s for s in alone if s.command == command), key=lambda stage: stage.items)
        lines.append(f"| {command} | {' | '.join(_cost(sizes, items) for items in AT)} |")
    return "\n".join(lines)


def _cost(sizes: Sequence[Stage], items: int) -> str:
    for stage in sizes:
        if stage.items == items:
            return f"{_long(stage.wall_s)}, {_large(stage.most_mb)}"
    if len(sizes) < 2:
        return "not measured"
    near, far = sizes[-2:]
    more = (items - far.items) / (far.items - near.items)
    wall_s = far.wall_s + more * max(far.wall_s - near.wall_s, 0.0)
    most_mb = far.most_mb + more * max(far.most_mb - near.most_mb, 0.0)
    return f"{_long(wall_s)}, {_large(most_mb)} (counted from {far.items:,})"


def _long(seconds: float) -> str:
    units = ((86_400, "days"), (3_600, "h"), (60, "min"))
    return next(
        (f"{seconds / n:.1f} {u}" for n, u in units if seconds >= 2 * n), f"{seconds:.1f} s"
    )


def _large(mb: float) -> str:
    return f"{mb:.0f} MB" if mb < 2048 else f"{mb / 1024:.1f} GB"


def page(results: Results) -> str:
    """The page of all results."""
    parts = [INTRODUCTION, "## In short\n\n" + speed(results) + "\n"]
    parts += [section(one) for one in results.comparisons]
    if results.scale is not None:
        parts.append(_scale_section(results.scale))
    return "\n".join(parts)


def section(one: Comparison) -> str:
    """One comparison, as the page has it."""
    turns = len(one.rows[0].wall_s)
    lines = [f"## {one.title}", "", f"{one.work}; medians of {turns} turn{'s' * (turns != 1)}."]
    lines += [_told(one.setting), "", *_heads(), *(_line(row, one) for row in one.rows), ""]
    return "\n".join(lines)


def _heads() -> list[str]:
    heads = ("way", "seconds", "x program", "CPU s", "x program", "MB", "apart")
    return ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]


def _line(row: Row, among: Comparison) -> str:
    ours = among.row(OURS)
    cells = [row.title]
    for what in ("wall_s", "cpu_s"):
        cells.append(_spread(getattr(row, what)))
        cells.append("" if ours is None else _spread(_ratios(row, ours, what)))
    cells.append(f"{median(row.most_mb):.0f}")
    cells.append("" if row.apart is None or row.way == OURS else f"{row.apart:.1e}")
    return "| " + " | ".join(cells) + " |"


def _spread(values: Sequence[float]) -> str:
    middle, low, high = (_number(value) for value in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _told(setting: Setting) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in setting.versions.items())
    lines = [f"{setting.date}: {setting.machine}; {packages}."]
    if not setting.is_idle:
        lines.append("**Forced on a loaded machine: not to be quoted.**")
    elif not setting.is_quiet:
        lines.append(
            f"**Others used {setting.others:.0%} of the machine meanwhile: not to be quoted.**"
        )
    return "\n".join(lines)


def speed(results: Results) -> str:
    """The table of speed that the README has; of quiet machines alone."""
    quiet = {one.name: one for one in results.comparisons if one.setting.is_quiet}
    if not (rows := [row for claim in CLAIMS for row in claim.rows(quiet)]):
        return "Nothing has been measured on an idle machine since the last change."
    head = "| what | other programs: times as long as this one | this one: times a script by hand |"
    return "\n".join([head, "|---|---|---|", *rows])


@dataclass(frozen=True, slots=True)
class Claim:
    """Rows of the table: what was done, the comparisons with words for each, and the peers.

    Each peer is a way with its words. Whole processes are compared, by the clock.
    """

    subject: str
    comparisons: Mapping[str, str]
    peers: Mapping[str, str]

    def rows(self, quiet: Mapping[str, Comparison]) -> Iterator[str]:
        """A row for each comparison of which something was measured."""
        for one, words in ((quiet[n], own) for n, own in self.comparisons.items() if n in quiet):
            ratios = {name: one.ratio(way) for way, name in self.peers.items()}
            peers = [f"{name} {_number(ratio)}" for name, ratio in ratios.items() if ratio]
            limit = one.ratio(OURS, LIMIT)
            if peers or limit:
                own = _number(limit) if limit else ""
                yield f"| {self.subject}{words} | {', '.join(peers)} | {own} |"


CLAIMS = (
    Claim(
        "Choices by log-probability",
        {"choices-digits": " (digits)", "choices-texts": " (texts)"},
        {"lm_eval": "lm-evaluation-harness"},
    ),
    Claim(
        "Calls of a hosted model",
        {"calls": ""},
        {"sdk": "a bare loop over the official client", "inspect": "Inspect AI"},
    ),
    Claim("BERTScore", {"bertscore": ""}, {"library": "one call of bert-score"}),
    Claim("Implicitness", {"implicitness": ""}, {"sentence_transformers": "sentence-transformers"}),
)


def _scale_section(scale: Scale) -> str:
    heads = ("command", "items", "workers", "seconds", "CPU s", "us an item", "MB", "kB an item")
    lines = ["## Scale", "", "Whole commands on synthetic items, a scripted model.", ""]
    lines += [f"A command that does nothing holds {scale.base_mb:.0f} MB; it is taken off before"]
    lines += ["memory is divided by items.", _told(scale.setting), ""]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += [_stage(stage, scale.base_mb) for stage in scale.stages]
    return "\n".join([*lines, ""])


def _stage(stage: Stage, base_mb: float) -> str:
    cells = (
        stage.command,
        f"{stage.items:,}",
        str(stage.workers),
        _number(stage.wall_s),
        _number(stage.cpu_s),
        f"{1e6 * stage.wall_s / stage.items:.0f}",
        f"{stage.most_mb:.0f}",
        f"{1024 * max(stage.most_mb - base_mb, 0) / stage.items:.2f}",
    )
    return "| " + " | ".join(cells) + " |"
