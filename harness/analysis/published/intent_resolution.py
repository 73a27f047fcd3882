"""Intent resolution ("Pope"): the released rows to counts and to the scores of blind guessers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.analysis.verify import FromFiles
from harness.data.readers.intent_resolution import COLUMNS, FIELDS, GROUPS, REFERENCES
from harness.storage.tables import TableRow, read_rows

FILES = ("hu_gpt4augmented_turn2_data.csv",)
_TRUE, _LITERAL = REFERENCES["turn2_true"], REFERENCES["turn2_literal"]

Guess = Callable[[str], float]
"""The score of a reply by a guesser that sees nothing else; the higher score is its answer."""


def counts(folder: Path) -> Mapping[str, float]:
    """Items by phenomenon, quoted reference replies, and the accuracy of guessing by the quotes."""
    rows = read_rows(folder / FILES[0], COLUMNS)
    groups = Counter(row.cells["task"].strip() for row in rows)
    quoted = [(_is_quoted(row.cells[_TRUE]), _is_quoted(row.cells[_LITERAL])) for row in rows]
    return {
        "items": len(rows),
        **{f"items_{ours}": groups[theirs] for theirs, ours in GROUPS.items()},
        **{f"empty_contexts_{ours}": _blank(rows, theirs) for theirs, ours in GROUPS.items()},
        "quoted_true": sum(true for true, _ in quoted),
        "quoted_literal": sum(literal for _, literal in quoted),
        "quoted_true_only": sum(true and not literal for true, literal in quoted),
        "quoted_literal_only": sum(literal and not true for true, literal in quoted),
        **_guessed(rows, "quoted", _is_quoted),
        "accuracy_shorter": _accuracy(rows, lambda text: -len(text)),
        "unspaced_prefixes": sum(map(_is_unspaced, rows)),
    }


def _blank(rows: Sequence[TableRow], task: str) -> int:
    own = [row for row in rows if row.cells["task"].strip() == task]
    return sum(not row.cells[FIELDS["context"]].strip() for row in own)


def _is_quoted(reply: str) -> bool:
    text = reply.strip()
    return text.startswith('"') and text.endswith('"')


def _is_unspaced(row: TableRow) -> bool:
    """Whether no white space stands between the prefix and the utterance."""
    end, start = row.cells[FIELDS["prefix"]][-1:], row.cells[FIELDS["utterance"]][:1]
    return not end.isspace() and not start.isspace()


def _guessed(rows: Sequence[TableRow], name: str, guess: Guess) -> Mapping[str, float]:
    """The accuracy of a guesser over all items and by phenomenon."""
    own = {
        ours: [row for row in rows if row.cells["task"].strip() == theirs]
        for theirs, ours in GROUPS.items()
    }
    found = {f"accuracy_{name}_{group}": _accuracy(part, guess) for group, part in own.items()}
    return {f"accuracy_{name}": _accuracy(rows, guess), **found}


def _accuracy(rows: Sequence[TableRow], guess: Guess) -> float:
    """The share of rows where a guesser takes the true reply; an undecided one counts half."""
    points = 0.0
    for row in rows:
        true, literal = guess(row.cells[_TRUE]), guess(row.cells[_LITERAL])
        points += 0.5 if true == literal else float(true > literal)
    return points / max(1, len(rows))


RECOMPUTATIONS = {"intent_resolution": FromFiles(FILES, counts)}
