"""Tables and cards to text: Markdown, LaTeX, HTML, CSV, and the cells of a screen."""

import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from itertools import accumulate, groupby, pairwise
from math import inf, isnan
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.analysis.boards.ranked import CONTROL
from harness.analysis.flags import RateQuery, lessons, positive_labels
from harness.analysis.rates import PRECISION, point_words
from harness.analysis.tables.pivot import PaperTable, number
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.pipeline.score import ALL
from harness.specs.layouts import CellStyle
from harness.specs.models import CLASSIFIERS
from harness.stats.estimate import NoValue
from harness.stats.scales import SIGNIFICANT
from harness.storage.cells import csv_text
from harness.storage.find_runs import data_words, is_trial
from harness.storage.frames import Row, load
from harness.storage.runs import RunFolder
from harness.storage.signature import short_labels
from harness.storage.tables import write_named
from harness.text.cleanup import without_controls

_LATEX: Final = str.maketrans(
    {
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
        **{"\N{MULTIPLICATION SIGN}": r"$\times$", "±": r"$\pm$"},
        **{char: f"{{{char}}}" for char in "[]*"},
        **{char: f"\\{char}" for char in "{}$&#_%"},
    }
)
FORMS: Final = (".tex", ".md", ".csv", ".html")  # the endings of the files of a table
_LONGEST: Final = 48  # the characters of a title in its label


def write(tables: Sequence[PaperTable], path: Path) -> None:
    """Write tables to a file by its ending: LaTeX, Markdown, CSV or HTML."""
    if path.suffix not in FORMS:
        raise SpecError(f"-o {path}: end its name in {', '.join(FORMS)}")
    forms = {".tex": to_latex, ".md": to_markdown, ".csv": to_csv, ".html": to_html}
    write_named(path, forms[path.suffix](tables).encode())


def frame_of(tables: Sequence[PaperTable]) -> DataFrame:
    """The values in full precision, NaN if missing; several tables one below the other.

    `attrs` has `title`, `notes` and `signatures`; several tables have titles in the column `table`.
    """
    frames = []
    for one in tables:
        rows = [[*names, *(cell.value for cell in cells)] for names, _, cells in one.lines()]
        frames.append(pandas.DataFrame(rows, columns=_head(one)))
        if len(tables) > 1:
            frames[-1].insert(0, "table", one.title)
    made = pandas.concat(frames, ignore_index=True)
    made.attrs["title"] = tables[0].caption if len(tables) == 1 else f"{len(tables)} tables"
    made.attrs["notes"] = list(dict.fromkeys(note for one in tables for note in one.notes))
    made.attrs["signatures"] = sorted({text for one in tables for text in one.signatures})
    return made


def _head(table: PaperTable, ends: Sequence[str] = ("",)) -> list[str]:
    """The headings of all columns, in one line each; of each number one with each of some ends."""
    return [*table.head, *(f"{name or 'value'}{end}" for name in table.headings for end in ends)]


def cell_text(cell: Row, style: CellStyle) -> str:
    """What a cell shows; a dash where there is no value."""
    if cell.value is None:
        return "-"
    parts = {"value": number(cell.value, style)}
    if cell.low is not None and cell.high is not None:
        parts["interval"] = f"[{number(cell.low, style)}, {number(cell.high, style)}]"
    if cell.sd is not None:
        parts["sd"] = f"(sd {number(cell.sd, style)})"
    parts |= {} if cell.n is None else {"n": f"n={cell.n}"}
    parts |= {} if cell.rank is None else {"rank": f"({cell.rank})"}
    return " ".join(parts[name] for name in style.shows if name in parts) or "-"


def screen_cells(table: PaperTable) -> tuple[list[str], list[list[str]]]:
    """The head and the rows for a terminal; a star marks what is bold elsewhere."""
    style = table.text_style
    rows = [
        [*names, *(cell_text(cell, style) + "*" * cell.is_best for cell in cells)]
        for names, _, cells in table.lines()
    ]
    return _head(table), rows


def to_json(table: PaperTable) -> dict[str, object]:
    """A table as JSON has it, all numbers in full precision."""
    names = ("title", "head", "columns", "notes", "signatures", "style", "shared")
    rows = [
        {"names": one, "cells": [cell._asdict() for cell in cells], "block": block}
        for one, block, cells in table.lines()
    ]
    return {**{name: getattr(table, name) for name in names}, "rows": rows}


def to_csv(tables: Sequence[PaperTable]) -> str:
    """All tables as one CSV: full precision, empty if missing, a column for each part of a cell."""
    blocks: dict[tuple[str, ...], list[list[object]]] = {}
    for one in tables:
        shown = {"value": (), "interval": ("low", "high")}
        parts = ["value", *(end for name in one.style.shows for end in shown.get(name, (name,)))]
        head = _head(one, [f" {part}".removesuffix(" value") for part in parts])
        title = [one.title] if len(tables) > 1 else []
        blocks.setdefault((*["table"] * len(title), *head), []).extend(
            [*title, *names, *(getattr(cell, part) for cell in cells for part in parts)]
            for names, _, cells in one.lines()
        )
    return "\n".join(csv_text(head, rows) for head, rows in blocks.items())


def to_markdown(tables: Sequence[PaperTable]) -> str:
    """All tables as Markdown for GitHub, with full signatures folded away."""
    return "\n".join(_form("md", one, head=_head(one)) for one in tables)


def _md(text: str) -> str:
    clean = " ".join(without_controls(text).split())
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", escape(clean, quote=False))


def to_html(tables: Sequence[PaperTable]) -> str:
    """All tables as a piece of HTML, all texts escaped."""
    return "".join(_form("html", one) for one in tables)


def to_latex(tables: Sequence[PaperTable]) -> str:
    r"""All tables as LaTeX that a paper takes in by \input; it needs booktabs and graphicx.

    A table that is wider than the line is made as wide as it.
    """
    head = "% Needs \\usepackage{booktabs,graphicx}; made by `harness table`.\n"
    texts, seen = [head], Counter[str]()
    for one in tables:
        words = "-".join(re.findall("[a-z0-9]+", one.title.lower()))
        label = "tab:" + words[:_LONGEST].strip("-")
        seen[label] += 1
        label += f"-{seen[label]}" if seen[label] > 1 else ""
        signatures = [" ".join(without_controls(text).split()) for text in one.signatures]
        texts.append(_form("tex", one, label=label, signatures=signatures))
    return "\n".join(texts)


def _form(ending: str, table: PaperTable, **more: object) -> str:
    """A table in the form of `forms/`."""
    style = table.text_style
    shown = {"shown": lambda cell: cell_text(cell, style), "lines": table.lines()}
    return "".join(form(f"table.{ending}", table=table, levels=_levels(table), **shown, **more))


def form(name: str, **values: object) -> Iterator[str]:
    """The text of a template of `forms/`, part by part; its filters escape what it shows."""
    return _forms().get_template(f"{name}.j2").generate(**values)


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
    made.filters["attr"] = quoteattr
    return made


def _levels(table: PaperTable) -> list[list[tuple[str, int, int]]]:
    """The headings of each level, from the top, with the first and last column each is over."""
    levels, width = [], len(table.head)
    for level in range(max(1, *map(len, table.columns))):
        spans = groupby(names[: level + 1] or ("value",) for names in table.columns)
        names, counts = zip(*((key[-1], len(list(own))) for key, own in spans), strict=True)
        places = pairwise(accumulate(counts, initial=width))
        levels.append([(n, at + 1, end) for n, (at, end) in zip(names, places, strict=True)])
    return levels


def latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    clean = " ".join(without_controls(unicodedata.normalize("NFC", text)).split())
    return clean.translate(_LATEX)


_HEADS = {HITS: "found (TPR)", FALSE_ALARMS: "flagged falsely (FPR)", "precision": "precision"}


def card_markdown(
    folder: RunFolder, query: RateQuery, texts: DataFrame, rates: DataFrame, gaps: DataFrame
) -> str:
    """The card of a run as a page of Markdown, by the template `forms/card.md.j2`.

    `texts` are its flagged texts, `rates` and `gaps` the rates of these by group.
    """
    tested = gaps[gaps["p_holm"].notna()]
    sure = tested[tested["p_holm"] <= SIGNIFICANT].sort_values("p_holm", kind="stable")
    facts = _facts(folder, query, texts, rates)
    found = {"file": folder.read(), "facts": facts, "rates": _rates(rates)}
    found |= {"sure": [*sure.itertuples()], "tested": len(tested)}
    limits = _limits(folder, texts, rates, gaps)
    return "".join(form("card.md", **found, **limits))


def _facts(
    folder: RunFolder, query: RateQuery, texts: DataFrame, rates: DataFrame
) -> list[tuple[str, str]]:
    """What was run, by name."""
    file = folder.read()
    model, data, variants = file.model, file.data, file.run.variants
    kind = "a control, no model" if model.kind == CONTROL else model.kind
    # Digests are as long as elsewhere.
    identity = re.sub(r"[0-9a-f]{40,}", lambda found: found[0][:16], model.identity)
    files = ", ".join(f"{name} (sha256 {digest[:16]})" for name, digest in data.files.items())
    is_set = data.mode == "sample"
    source = f"{data_words(file)}, " if is_set else f"{data.source}, {data.label}: "
    asked = f"asked by the prompt of variant{'s' * (len(variants) > 1)} {', '.join(variants)}"
    if model.kind in CLASSIFIERS:
        asked = "read as they are, without a prompt"
    for _, own in texts.groupby("signature", sort=False):
        if left_out := int((~own["is_measured"]).sum()):
            measured = len(own) - left_out
            asked += f"; {measured} answers measured, {left_out} left out to choose the threshold"
    points = rates[rates["threshold"].notna()].to_dict("records")
    facts = {
        "Model": f"{model.name} ({kind}): {identity}"
        + (f", revision {model.revision}" if model.revision else ""),
        "Task": f"{file.run.task}: {file.task.about}",
        "Data": f"{source}{files}".rstrip(" :,"),
        "Texts": f"{file.samples}, {asked}",
        "To detect": ", ".join(query.positive or positive_labels(folder)),
        "Judge": query.judge,
        "Run": f"{file.digest[:16]}, harness {file.version}",
        "Operating point": "; ".join(sorted({point_words(row) for row in points})),
    }
    return [(name, said) for name, said in facts.items() if said]


def _rates(rates: DataFrame) -> Iterator[tuple[str, list[str], list[tuple[str, ...]]]]:
    """The title, the head and the lines of the rates of each recipe by each column."""
    called = short_labels(dict.fromkeys(rates["signature"], ""))
    for (signature, column), own in rates.groupby(["signature", "column"], sort=False):
        cells = {(row["group"], row["rate"]): _rate(row) for row in own.to_dict("records")}
        lines = [(g, *(cells[g, rate] for rate in _HEADS)) for g in own["group"].unique()]
        title = f"{called[signature]}, {f'by {column}' if column else 'all texts'}"
        yield title, [column or "texts", *_HEADS.values()], lines


def _rate(row: Mapping[Hashable, Any]) -> str:
    if isnan(row["value"]):
        return f"none ({row['note']})"
    ends = "" if isnan(row["low"]) else f" ({row['low']:.3f} to {row['high']:.3f})"
    lost = f", {row['missing']} missing" if row["missing"] else ""
    return f"{row['value']:.3f}{ends}, n {row['n']}{lost}"


def _limits(
    folder: RunFolder, texts: DataFrame, rates: DataFrame, gaps: DataFrame
) -> dict[str, object]:
    """What limits the rates: counts and names that the template words."""
    file = folder.read()
    flags = load([folder], "samples", ["sample", "flags"])
    is_known = [own is not None and "scorer_trained_on" in own for own in flags["flags"]]
    answers = load([folder], "answers", ["sample"])["sample"]
    is_few = (gaps["note"] == NoValue.TOO_FEW) & (gaps["rate"] != PRECISION)
    few = gaps[is_few].groupby("column")["group"].unique()
    is_whole = (rates["group"] == ALL) & (rates["rate"] == HITS)
    return {
        "data_set": data_words(file) if is_trial(file) else "",
        "of": "this data" + ", this prompt" * (file.model.kind not in CLASSIFIERS),
        "lost": int(texts["flagged"].isna().sum()),
        "texts": len(texts),
        "positive": int(texts["is_positive"].sum()),
        "lessons": lessons(folder, texts["row"]),
        "trained_on": int(answers.isin(set(flags["sample"][is_known])).sum()),
        "few": "; ".join(f"{column} ({', '.join(sorted(own))})" for column, own in few.items()),
        "originals": rates[is_whole]["clusters"].min() if is_whole.any() else inf,
    }
