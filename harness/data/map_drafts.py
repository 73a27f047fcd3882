"""Tables of a user's own to column maps to fill in: YAML that names the columns there are.

A draft guesses which column has the texts and which the labels; its comments list the rest. Names
and values come from the file: they are quoted, and nothing is read from them but their length.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from harness.storage.cells import cell_text
from harness.storage.tables import Table

MOST_VALUES, LONGEST_NAME, MOST_GROUPS, WIDTH = 10, 60, 100, 80
TAKEN = ("label", "labels", "subtlety", "properties", "origin", "implicitness", "text", "group")
"""Names that a map may not keep a column under, as it has keys of theirs."""


def table_map(path: Path, table: Table, labels: Sequence[str]) -> str:
    """A map of labelled texts; `labels` are the names that the task knows.

    The texts are taken to be in the column of the longest texts, the labels in that of the fewest
    values, of several.
    """
    named = {name: table.cells(at) for at, name in enumerate(table.columns) if name}
    texts = {name: [cell_text(cell) for cell in cells] for name, cells in named.items()}
    text = max(texts, key=lambda name: sum(map(len, texts[name])))
    values = {name: sorted({*found} - {""}) for name, found in texts.items() if name != text}
    several = {name: found for name, found in values.items() if len(found) > 1} or values
    label = min(several, key=lambda name: len(several[name]), default=text)
    classes = ", ".join(f"{name}: []" for name in labels)
    found = several.get(label, [])
    more = f" and {len(found) - MOST_VALUES} more" * (len(found) > MOST_VALUES)
    return _fitted(
        [
            f"about: {_quoted(f'The texts of {path.name}')}",
            f"source: {_quoted(path.stem)}",
            "# the column of the texts:",
            f"text: {_quoted(text)}",
            f"# put each of its values under a label: {_listed(found[:MOST_VALUES])}{more}",
            "label:",
            f"  column: {_quoted(label)}",
            f"  classes: {{{classes}}}",
            "  left_out: []",
            *_kept({name: found for name, found in values.items() if name != label}),
            f"# columns: {_listed([*named])}",
        ]
    )


def _kept(values: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of `keep`, with the columns that name groups of texts; none without one."""
    kept = {
        name: found
        for name, found in values.items()
        if 2 <= len(found) <= MOST_GROUPS and len(name) <= LONGEST_NAME and name not in TAKEN
    }
    if not kept:
        return []
    said = "# further columns, to break rates down by; delete those that are none:"
    return [said, "keep:", *(line for name in kept for line in _pair(_quoted(name)))]


def _pair(name: str) -> list[str]:
    """A name under itself, on two lines where one would be broken by a terminal."""
    line = f"  {name}: {name}"
    return [line] if len(line) <= WIDTH else [f"  {name}:", f"    {name}"]


def import_map(path: Path, columns: Sequence[str], *, fields: Sequence[str], form: str) -> str:
    """A map of stored answers; `fields` are those that identify a sample of the task."""
    same = {name: next((c for c in columns if c == name), "COLUMN") for name in fields}
    pairs = ", ".join(f"{name}: {_quoted(column)}" for name, column in same.items())
    return _fitted(
        [
            f"about: {_quoted(f'The answers in {path.name}')}",
            f"format: {form}",
            f"sample: {{fields: {{{pairs}}}}}",
            "# or: sample: {id: COLUMN}, or {prompt: COLUMN}; variant: {column: COLUMN} where the "
            "task has several",
            "answer: {kind: text, column: COLUMN} # or chosen, probabilities or logprobs",
            f"# columns: {_listed(columns)}",
        ]
    )


def _fitted(lines: Sequence[str]) -> str:
    """YAML whose comments are broken before a terminal of 80 columns breaks them."""
    parts = (
        wrap(line, WIDTH, subsequent_indent="# ", break_on_hyphens=False)
        if line.startswith("#")
        else [line]
        for line in lines
    )
    return "\n".join(line for part in parts for line in part)


def _quoted(text: str) -> str:
    """A text as YAML has it on one line, long ones cut."""
    return json.dumps(text[:LONGEST_NAME], ensure_ascii=False)


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(map(_quoted, texts))
