"""Tables to text: Markdown, LaTeX, HTML, CSV, and the cells of a screen.

Names come from models and data: each form escapes them. A missing number is a dash in text, an
empty cell in CSV, never a zero.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from itertools import accumulate, groupby
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import structs

from harness.analysis.tables.pivot import LayoutCell, LayoutRow, PaperTable, number
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.specs.layouts import CellStyle
from harness.storage.cells import csv_text
from harness.storage.files import write_whole
from harness.text.cleanup import without_controls

_PLAIN: Final = frozenset(
    "§ßæøåœÆØÅŒ…“”\N{EN DASH}\N{EM DASH}\N{LEFT SINGLE QUOTATION MARK}"
    "\N{RIGHT SINGLE QUOTATION MARK}"
)
"""Characters beyond ASCII that every LaTeX prints; letters with common accents are others."""
_ACCENTS: Final = frozenset("\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0327")
_LATEX: Final[Mapping[str, str]] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "±": r"$\pm$",
    **{char: f"\\{char}" for char in "$&#_%"},
}


FORMS: Final = (".tex", ".md", ".csv", ".html")
"""The endings of the files that a table can be written to."""
TEXT_WIDTH: Final = 345.0
"""The width of the text of LaTeX's `article` at ten points, in points."""
_LONGEST: Final = 48
"""So many characters of a title stand in a label."""
_NARROW, _WIDE, _THIN = 0.3, 0.53, frozenset(" .,[]()-:;il|")
"""The width of a thin letter and of any other as a share of their size, and the thin letters."""


def check_form(path: Path) -> None:
    """SpecError for a file whose ending is no form."""
    if path.suffix not in FORMS:
        raise SpecError(f"-o {path}: end its name in {', '.join(FORMS)}")


def write(tables: Sequence[PaperTable], path: Path) -> None:
    """Write tables to a file by its ending: LaTeX, Markdown, CSV or HTML."""
    check_form(path)
    forms = {".tex": to_latex, ".md": to_markdown, ".csv": to_csv, ".html": to_html}
    write_whole(path, forms[path.suffix](tables).encode())


def frame_of(tables: Sequence[PaperTable]) -> DataFrame:
    """The values in full precision, NaN if missing; several tables one below the other.

    `attrs` has `title`, `notes` and `signatures`.
    """
    frames = []
    for one in tables:
        rows = [[*row.names, *(cell.value for cell in row.cells)] for row in one.rows]
        frames.append(pandas.DataFrame(rows, columns=[*one.head, *_headings(one)]))
    for one, frame in zip(tables, frames, strict=True):
        if len(tables) > 1:
            frame.insert(0, "table", one.title)
    made = pandas.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    made.attrs["title"] = "; ".join(one.caption for one in tables)
    made.attrs["notes"] = list(dict.fromkeys(note for one in tables for note in one.notes))
    made.attrs["signatures"] = sorted({text for one in tables for text in one.signatures})
    return made


def cell_text(cell: LayoutCell, style: CellStyle) -> str:
    """What a cell shows; a dash where there is no value."""
    if cell.value is None:
        return "-"
    parts = {
        "value": number(cell.value, style),
        "interval": ""
        if cell.low is None or cell.high is None
        else f"[{number(cell.low, style)}, {number(cell.high, style)}]",
        "sd": "" if cell.sd is None else f"(sd {number(cell.sd, style)})",
        "n": "" if cell.n is None else f"n={cell.n}",
        "rank": "" if cell.rank is None else f"({cell.rank})",
    }
    return " ".join(filter(None, (parts[name] for name in style.shows))) or "-"


def screen_cells(table: PaperTable) -> tuple[list[str], list[list[str]]]:
    """The head and the rows for a terminal; a star marks what is bold elsewhere."""
    rows = [
        [*row.names, *(cell_text(c, table.text_style) + "*" * c.is_best for c in row.cells)]
        for row in table.rows
    ]
    return [*table.head, *_headings(table)], rows


def _headings(table: PaperTable) -> tuple[str, ...]:
    return tuple(name or "value" for name in table.headings)


def to_csv(tables: Sequence[PaperTable]) -> str:
    """All tables as one CSV: full precision, missing cells empty, a column for each part of a cell.

    Of several tables, the first column has the title.
    """
    texts, blocks = [], [(table, _csv_head(table)) for table in tables]
    for head, members in groupby(blocks, key=lambda pair: pair[1]):
        titled = len(tables) > 1
        rows = [
            [*([table.title] if titled else []), *row.names, *_csv_cells(row, table.style)]
            for table, _ in members
            for row in table.rows
        ]
        texts.append(csv_text([*(["table"] if titled else []), *head], rows))
    return "\n".join(texts)


def _csv_head(table: PaperTable) -> list[str]:
    further = {"interval": (" low", " high"), "sd": (" sd",), "n": (" n",), "rank": (" rank",)}
    ends = ["", *(end for name in table.style.shows for end in further.get(name, ()))]
    return [*table.head, *(f"{name}{end}" for name in _headings(table) for end in ends)]


def _csv_cells(row: LayoutRow, style: CellStyle) -> list[object]:
    parts: Mapping[str, Callable[[LayoutCell], tuple[object, ...]]] = {
        "interval": lambda cell: (cell.low, cell.high),
        "sd": lambda cell: (cell.sd,),
        "n": lambda cell: (cell.n,),
        "rank": lambda cell: (cell.rank,),
    }
    made: list[object] = []
    for cell in row.cells:
        made += [cell.value, *(v for s in style.shows if s in parts for v in parts[s](cell))]
    return made


def to_markdown(tables: Sequence[PaperTable]) -> str:
    """All tables as Markdown for GitHub, with full signatures folded away."""
    ends = (["---"] * len(one.head) + ["---:"] * len(one.columns) for one in tables)
    heads = ([*one.head, *_headings(one)] for one in tables)
    parts = zip(tables, heads, ends, strict=True)
    return "\n".join(_form("md", t, head=head, ends=end) for t, head, end in parts)


def _md(text: str) -> str:
    clean = " ".join(without_controls(text).split())
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", escape(clean, quote=False))


def to_html(tables: Sequence[PaperTable]) -> str:
    """All tables as a piece of HTML, all texts escaped."""
    return "".join(_form("html", one, levels=_levels(one)) for one in tables)


def _form(ending: str, table: PaperTable, **more: object) -> str:
    """A table in the form of `forms/`."""
    shown = {"shown": lambda cell: cell_text(cell, table.text_style)}
    return _forms().get_template(f"table.{ending}.j2").render(table=table, **shown, **more)


@cache
def _forms() -> Environment:
    made = Environment(  # noqa: S701 - each form escapes by a filter of its own
        variable_start_string="<<",
        variable_end_string=">>",
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        loader=FileSystemLoader(Path(__file__).parent / "forms"),
    )
    made.filters |= {"md": _md, "h": lambda text: escape(without_controls(text)), "latex": latex}
    return made


def _levels(table: PaperTable) -> list[list[tuple[str, int]]]:
    """The headings of each level, from the top, each with the columns it is over."""
    depth = max(map(len, table.columns), default=0) or 1
    return [_spans(table, level) for level in range(depth)]


def _spans(table: PaperTable, level: int) -> list[tuple[str, int]]:
    """The headings of a level, each with the columns it is over."""
    if table.columns == ((),):
        return [("value", 1)]
    spans = groupby(table.columns, key=lambda names: names[: level + 1])
    return [(key[level], len(list(members))) for key, members in spans]


def to_latex(tables: Sequence[PaperTable]) -> str:
    r"""All tables as LaTeX that a paper takes in by \input; it needs the package booktabs.

    Intervals stand below their values where a table is wider than the text of an `article`.
    """
    head = "% Needs \\usepackage{booktabs}; made by `harness table`.\n"
    return "\n".join([head, *map(_latex, tables, _labels(tables))])


def too_wide(tables: Sequence[PaperTable]) -> list[tuple[str, int]]:
    """The labels of tables that are wider than the text, with their widths in points, about."""
    widths = (_width(table, is_stacked=_is_stacked(table)) for table in tables)
    return [
        (label, round(width))
        for label, width in zip(_labels(tables), widths, strict=True)
        if width > TEXT_WIDTH
    ]


def _labels(tables: Sequence[PaperTable]) -> list[str]:
    """A label for each table, of the words of its title; a number where several have the same."""
    made: list[str] = []
    for table in tables:
        words = re.findall("[a-z0-9]+", table.title.lower())
        ends = accumulate(len(word) + 1 for word in words)
        fitting = (word for word, end in zip(words, ends, strict=True) if end <= _LONGEST)
        name = "tab:" + "-".join(fitting)
        count = sum(one == name or re.fullmatch(rf"{name}-\d+", one) is not None for one in made)
        made.append(f"{name}-{count + 1}" if count else name)
    return made


def _latex(table: PaperTable, label: str) -> str:
    lines, block = [], table.rows[0].block if table.rows else 0
    for row in table.rows:
        lines += [r"\midrule"] if row.block != block else []
        block = row.block
        lines += _latex_row(row, table)
    columns = "l" * len(table.head) + "r" * len(table.columns)
    signatures = [" ".join(without_controls(text).split()) for text in table.signatures]
    more = {"heads": [*_latex_heads(table)], "lines": lines, "signatures": signatures}
    return _form("tex", table, label=label, columns=columns, **more)


def _latex_row(row: LayoutRow, table: PaperTable) -> list[str]:
    """A row; of a wide table with a second line, the intervals."""
    if not _is_stacked(table):
        cells = [*map(latex, row.names), *(_latex_cell(cell, table) for cell in row.cells)]
        return [" & ".join(cells) + r" \\"]
    own, below = _parted(table)
    values = [*map(latex, row.names), *(_latex_cell(cell, own) for cell in row.cells)]
    texts = ["" if cell.low is None else cell_text(cell, below) for cell in row.cells]
    ends = [rf"\scriptsize {latex(text).replace('-', '$-$')}" if text else "" for text in texts]
    lines = [" & ".join(values) + r" \\", " & ".join([*[""] * len(row.names), *ends]) + r" \\"]
    return lines if any(ends) else lines[:1]


def _parted(table: PaperTable) -> tuple[PaperTable, CellStyle]:
    """A table without its intervals, and the style of these alone."""
    shows = tuple(name for name in table.text_style.shows if name != "interval")
    style = structs.replace(table.style, shows=shows or ("value",))
    return replace(table, style=style), structs.replace(table.style, shows=("interval",))


def _is_stacked(table: PaperTable) -> bool:
    is_able = {"interval", "value"} <= {*table.text_style.shows}
    return is_able and _width(table, is_stacked=False) > TEXT_WIDTH


def _width(table: PaperTable, *, is_stacked: bool) -> float:
    """About how wide LaTeX sets a table, in points."""
    own, below = _parted(table) if is_stacked else (table, None)
    columns = [
        _widest([name, *(row.names[n] for row in table.rows)]) for n, name in enumerate(table.head)
    ]
    for place, levels in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        above = _widest([*levels[-1:], *(cell_text(cell, own.text_style) for cell in cells)])
        ends = _widest([cell_text(cell, below) for cell in cells], 7.3) if below else 0.0
        columns.append(max(above, ends))
    return sum(columns) + 12 * (len(columns) - 1)


def _widest(texts: Iterable[str], size: float = 9) -> float:
    """The width of the longest text in points, at a size of Computer Modern."""
    widths = (sum(_NARROW if char in _THIN else _WIDE for char in text) for text in texts)
    return size * max(widths, default=0)


def _latex_heads(table: PaperTable) -> Iterable[str]:
    *above, last = _levels(table)
    for spans in above:
        cells = [rf"\multicolumn{{{span}}}{{c}}{{{latex(name)}}}" for name, span in spans]
        yield " & ".join([*[""] * len(table.head), *cells]) + r" \\"
        yield " ".join(_rules(spans, len(table.head) + 1))
    yield " & ".join(map(latex, (*table.head, *(name for name, _ in last)))) + r" \\"


def _rules(spans: Sequence[tuple[str, int]], first: int) -> Iterable[str]:
    for _, span in spans:
        yield rf"\cmidrule(lr){{{first}-{first + span - 1}}}"
        first += span


def _latex_cell(cell: LayoutCell, table: PaperTable) -> str:
    if cell.value is None:
        return "--"
    text = latex(cell_text(cell, table.text_style)).replace("-", "$-$")
    return rf"\textbf{{{text}}}" if cell.is_best else text


def latex(text: str) -> str:
    """Text that LaTeX prints as it is; a character it may lack is printed by its number."""
    clean = " ".join(without_controls(unicodedata.normalize("NFC", text)).split())
    return "".join(map(_latex_char, clean))


def _latex_char(char: str) -> str:
    if char in _LATEX:
        return _LATEX[char]
    parts = unicodedata.normalize("NFD", char)
    is_letter = parts[0].isascii() and parts[0].isalpha()
    if char.isascii() or char in _PLAIN or (is_letter and parts[1:] in _ACCENTS):
        return char
    return f"{{[}}U+{ord(char):04X}{{]}}"
