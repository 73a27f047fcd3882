"""Tables as LaTeX, Markdown, HTML and CSV: names from models and data are escaped."""

import csv
import io
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.paper_tables import cells

from harness.analysis.tables.pivot import PaperTable
from harness.present.document import latex, to_csv, to_html, to_latex, to_markdown
from harness.specs.layouts import CellStyle

HOSTILE = (
    r"a_b & 50% $x$ #1 {c} ~ ^ \input{/etc/passwd} \\",
    "<script>alert(1)</script>",
    "=1+1",
    "[0.4] | `code` **bold** \u0142 \xe9 \x1b[31m red",
)
SHOWN = CellStyle(shows=("value", "interval", "n", "rank"))


def table(style: CellStyle = SHOWN) -> PaperTable:
    best = {"value": 0.98765, "low": 0.91, "high": 1.0, "n": 120, "rank": 1, "is_best": True}
    return PaperTable(
        title="Scores & more_",
        head=("model", "set"),
        columns=(("irony", HOSTILE[1]), ("irony", "b%")),
        rows=((HOSTILE[0], "x"), (HOSTILE[1], "y"), (HOSTILE[2], HOSTILE[3])),
        blocks=(0, 0, 1),
        cells=cells(
            [best, {"value": -0.25, "n": 3}],
            [{"reason": "no run"}, {"value": 0.5, "low": 0.4, "high": 0.6}],
            [{"value": 0.0}, {"value": 1.0}],
        ),
        style=style,
        notes=("Task t_1; 100% of {x}.", HOSTILE[3]),
        signatures=("a|b",),
    )


def test_csv_has_full_precision_empty_cells_titles_and_no_formula() -> None:
    head, *rows = csv.reader(io.StringIO(to_csv([table()])))
    assert head[:2] == ["model", "set"]
    assert [name.rpartition(" ")[2] for name in head[3:7]] == ["low", "high", "n", "rank"]
    assert rows[0][2:7] == ["0.98765", "0.91", "1.0", "120", "1"]
    assert rows[1][2:7] == ["", "", "", "", ""]
    assert rows[2][0] == "'=1+1"
    assert rows[2][2] == "0.0"

    head, *rows = csv.reader(io.StringIO(to_csv([table(), table()])))
    assert head[0] == "table"
    assert {row[0] for row in rows} == {"Scores & more_"}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.bold = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.bold += data if "b" in self.open else ""


def test_html_is_balanced_and_runs_nothing() -> None:
    text, reader = to_html([table()]), _Tags()
    reader.feed(text)

    assert reader.open == []
    assert "script" not in reader.tags
    assert reader.bold == "0.988 [0.910, 1.000] n=120 (1)"
    assert 'colspan="2">irony' in text
    assert "<details>" in text
    assert "\x1b" not in text


def test_markdown_keeps_its_columns_whatever_names_say() -> None:
    lines = [line for line in to_markdown([table()]).splitlines() if line.startswith("|")]

    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert len(lines) == 5
    assert "**0.988" in lines[2]
    assert "<script" not in "".join(lines)
    assert "| - |" in lines[3]


def test_latex_has_rules_bold_and_no_command_of_others() -> None:
    text = to_latex([table()])

    assert text.count(r"\midrule") == 2
    assert r"\multicolumn{2}{c}{irony}" in text
    assert r"\cmidrule(lr){3-4}" in text
    assert r"\textbf{0.988" in text
    assert r"\input" not in text.replace(r"\textbackslash{}input", "")
    assert "\n% a|b\n" in text
    assert "\u0142 \xe9" in text


def latex_document(folder: Path, text: str) -> str:
    """The words of the page that pdflatex makes of some tables."""
    (folder / "tables.tex").write_text(text, "utf-8")
    page = (
        r"\documentclass{article}\usepackage[margin=1cm]{geometry}\usepackage{booktabs,graphicx}"
        r"\begin{document}\input{tables.tex}\end{document}"
    )
    (folder / "page.tex").write_text(page, "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page"]
    made = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
    assert made.returncode == 0, made.stdout.decode("utf-8", "replace")[-2000:]
    words = subprocess.run(
        ["pdftotext", "-layout", "page.pdf", "-"], cwd=folder, capture_output=True, check=True
    )
    return words.stdout.decode()


def test_a_name_that_begins_with_a_star_or_a_bracket_is_no_command_after_a_row() -> None:
    # LaTeX looks past the end of the line for the star of \\* and the length of \\[2pt].
    assert latex("*best") == "{*}best"
    assert latex("[2pt]") == "{[}2pt{]}"


@pytest.mark.latex
def test_pdflatex_prints_the_table_as_it_is(tmp_path: Path) -> None:
    words = latex_document(tmp_path, to_latex([table()]))

    # The standard font draws an underscore as a rule, which is no letter.
    assert "a b & 50% $x$ #1 {c}" in words
    assert "<script>alert(1)</script>" in words
    assert "0.988 [0.910, 1.000] n=120 (1)" in words
