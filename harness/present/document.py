"""Tables to text: Markdown, LaTeX, HTML, CSV, and the cells of a screen.

Names come from models and data: each form escapes them. A missing number is a dash in text, an
empty cell in CSV, never a zero.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, takewhile
from pathlib import Path
from typing import Final

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
    return "\n".join(map(_markdown, tables))


def _markdown(table: PaperTable) -> str:
    head = [*table.head, *_headings(table)]
    ends = ["---"] * len(table.head) + ["---:"] * len(table.columns)
    rows = [[*map(_md, row.names), *(_md_cell(c, table) for c in row.cells)] for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in (map(_md, head), ends, *rows)]
    notes = [f"{_md(note)}  " for note in table.notes]
    folded = [f"<li><code>{_md(text)}</code></li>" for text in table.signatures]
    signatures = ["", "<details><summary>signatures</summary><ul>", *folded, "</ul></details>"]
    parts = [f"**{_md(table.caption)}**", "", *lines, "", *notes]
    return "\n".join([*parts, *(signatures if folded else []), ""])


def _md_cell(cell: LayoutCell, table: PaperTable) -> str:
    text = _md(cell_text(cell, table.text_style))
    return f"**{text}**" if cell.is_best else text


def _md(text: str) -> str:
    clean = " ".join(without_controls(text).split())
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", escape(clean, quote=False))


def to_html(tables: Sequence[PaperTable]) -> str:
    """All tables as a piece of HTML, all texts escaped."""
    return "\n".join(map(_html, tables)) + "\n"


def _html(table: PaperTable) -> str:
    body, block = [], _first_block(table)
    for row in table.rows:
        rule = ' style="border-top:1px solid"' if row.block != block else ""
        block = row.block
        names = "".join(f'<th scope="row">{_h(name)}</th>' for name in row.names)
        cells = "".join(f"<td>{_html_cell(cell, table)}</td>" for cell in row.cells)
        body.append(f"<tr{rule}>{names}{cells}</tr>")
    notes = "".join(f"<p>{_h(note)}</p>" for note in table.notes)
    items = "".join(f"<li><code>{_h(text)}</code></li>" for text in table.signatures)
    folded = f"<details><summary>signatures</summary><ul>{items}</ul></details>" if items else ""
    return (
        f'<figure class="harness-table"><table><caption>{_h(table.caption)}</caption>'
        f"<thead>{''.join(_html_heads(table))}</thead>\n<tbody>{chr(10).join(body)}</tbody></table>"
        f"<figcaption>{notes}{folded}</figcaption></figure>"
    )


def _first_block(table: PaperTable) -> int:
    """The block whose first row has no rule of its own above it."""
    return table.rows[0].block if table.rows else 0


def _html_heads(table: PaperTable) -> Iterable[str]:
    depth = max(map(len, table.columns), default=0) or 1
    for level in range(depth):
        left = [f'<th rowspan="{depth}">{_h(name)}</th>' for name in table.head if not level]
        spans = [f'<th colspan="{span}">{_h(name)}</th>' for name, span in _spans(table, level)]
        yield f"<tr>{''.join(left + spans)}</tr>"


def _html_cell(cell: LayoutCell, table: PaperTable) -> str:
    text = _h(cell_text(cell, table.text_style))
    return f"<b>{text}</b>" if cell.is_best else text


def _h(text: str) -> str:
    return escape(without_controls(text))


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
    names = _labels(tables)
    return "\n".join([head, *map(_latex, tables, names)])


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
        name = "tab:" + "-".join(takewhile(_Room(_LONGEST).has, words))
        count = sum(one == name or re.fullmatch(rf"{name}-\d+", one) is not None for one in made)
        made.append(f"{name}-{count + 1}" if count else name)
    return made


@dataclass
class _Room:
    """How many characters are left."""

    left: int

    def has(self, word: str) -> bool:
        """Whether a word fits, which is then taken off."""
        self.left -= len(word) + 1
        return self.left >= 0


def _latex(table: PaperTable, label: str) -> str:
    lines, block = [], _first_block(table)
    for row in table.rows:
        lines += [r"\midrule"] if row.block != block else []
        block = row.block
        lines += _latex_row(row, table)
    notes = [rf"\par\smallskip\footnotesize\raggedright {latex(' '.join(table.notes))}"]
    signatures = [" ".join(["%", *without_controls(text).split()]) for text in table.signatures]
    columns = "l" * len(table.head) + "r" * len(table.columns)
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{latex(table.caption)}}}",
            rf"\label{{{label}}}",
            r"\small",
            rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            *(r"\toprule", *_latex_heads(table), r"\midrule"),
            *lines,
            *(r"\bottomrule", r"\end{tabular}"),
            *(notes if table.notes else []),
            *signatures,
            r"\end{table}",
            "",
        ]
    )


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
    depth = max(map(len, table.columns), default=0) or 1
    for level in range(depth):
        is_last = level == depth - 1
        left = [latex(name) if is_last else "" for name in table.head]
        spans = _spans(table, level)
        cells = [
            latex(name) if is_last else rf"\multicolumn{{{span}}}{{c}}{{{latex(name)}}}"
            for name, span in spans
        ]
        yield " & ".join([*left, *cells]) + r" \\"
        if not is_last:
            yield " ".join(_rules(spans, len(table.head) + 1))


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
