"""Tables of a user's own to column maps to fill in: YAML that names the columns there are.

Names and values come from the file: they are quoted, and nothing but their length is read.
"""

import json
from collections.abc import Sequence
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
    texts = {n: [*map(cell_text, table.cells(at))] for at, n in enumerate(table.columns) if n}
    text = max(texts, key=lambda name: sum(map(len, texts[name])))
    values = {name: sorted({*cells} - {""}) for name, cells in texts.items() if name != text}
    label = min(values, key=lambda n: (len(values[n]) < 2, len(values[n])), default=text)
    found = values.pop(label, [])
    more = f" and {len(found) - MOST_VALUES} more" * (len(found) > MOST_VALUES)
    kept = [
        f"  {_listed([name])}:\n    {_listed([name])}" if len(name) > 35 else f"  {pair}"
        for name, of in values.items()
        if 2 <= len(of) <= MOST_GROUPS and len(name) <= LONGEST_NAME and name not in TAKEN
        for pair in [": ".join([_listed([name])] * 2)]
    ]
    keep = [
        "# further columns, to break rates down by; delete those that are none:",
        "keep:",
        *kept,
    ]
    return _fitted(
        f"about: {_listed([f'The texts of {path.name}'])}",
        f"source: {_listed([path.stem])}",
        "# the column of the texts:",
        f"text: {_listed([text])}",
        f"# put each of its values under a label: {_listed(found[:MOST_VALUES])}{more}",
        f"label:\n  column: {_listed([label])}",
        f"  classes: {{{', '.join(f'{name}: []' for name in labels)}}}\n  left_out: []",
        *(keep if kept else []),
        f"# columns: {_listed([*texts])}",
    )


def import_map(path: Path, columns: Sequence[str], *, fields: Sequence[str], form: str) -> str:
    """A map of stored answers; `fields` are those that identify a sample of the task."""
    pairs = (f"{name}: {_listed([name if name in columns else 'COLUMN'])}" for name in fields)
    return _fitted(
        f"about: {_listed([f'The answers in {path.name}'])}",
        f"format: {form}",
        f"sample: {{fields: {{{', '.join(pairs)}}}}}",
        "# or: sample: {id: COLUMN}, or {prompt: COLUMN}; variant_column: COLUMN where the task "
        "has several",
        "answer: {kind: text, column: COLUMN} # or chosen, probabilities or logprobs",
        f"# columns: {_listed(columns)}",
    )


def _fitted(*lines: str) -> str:
    """YAML whose comments are broken before a terminal of 80 columns breaks them."""
    return "\n".join(
        "\n".join(wrap(line, WIDTH, subsequent_indent="# ", break_on_hyphens=False))
        if line.startswith("#")
        else line
        for line in lines
    )


def _listed(texts: Sequence[str]) -> str:
    """Texts as YAML has them on one line, long ones cut."""
    return ", ".join(json.dumps(text[:LONGEST_NAME], ensure_ascii=False) for text in texts)
