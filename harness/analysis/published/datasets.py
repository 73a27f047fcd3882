"""Released data to the counts and the agreement of annotators that papers print, by source.

Emphasized-Talk: the place of a stress is the one that the task's reader finds. Intent resolution
("Pope"): also the scores of guessers that see a reply alone. LUDWIG: five people's answers to each
implicature. ISHate has a module of its own.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np

from harness.analysis.published import FromFiles, Values, read_json
from harness.data.readers import intent_resolution as pope
from harness.data.readers.emphasized_talk import AMBIGUOUS, REPAIRED, find_span
from harness.errors import DataError
from harness.stats.agreement import alpha
from harness.storage.tables import TableRow, read_rows

TALK_FILES = ("data.json",)
_MANY = 4  # the last class of a distribution holds these and more


class _Dialogue(msgspec.Struct):
    current: str
    emphasis: dict[str, list[str]]


def emphasized_talk(folder: Path) -> Values:
    """Counts of the file, and how many items each slip of the released scripts affects."""
    dialogues = read_json(folder / TALK_FILES[0], dict[str, _Dialogue])
    items = [
        (dialogue.current, fragment, implications)
        for dialogue in dialogues.values()
        for fragment, implications in dialogue.emphasis.items()
    ]
    sizes = Counter(len(gold) for _, _, gold in items)
    lengths = [len(part.split()) for _, part, _ in items]
    by_length = Counter(min(length, _MANY) for length in lengths)
    return {
        "items": len(items),
        "items_with_one_implication": sizes[1],
        "items_with_two_implications": sizes[2],
        "items_with_three_implications": sizes[3],
        "items_with_repeated_implications": sum(len({*gold}) < len(gold) for _, _, gold in items),
        "items_echoed": sum(any(part in text for text in gold) for _, part, gold in items),
        "implications": sum(len(gold) for _, _, gold in items),
        "words_per_fragment": sum(lengths) / max(1, len(lengths)),
        **{f"fragments_of_{number}_words": by_length[number] for number in range(1, _MANY + 1)},
        **_of_contexts(dialogues),
        **_of_turns(dialogues),
        **_of_marks([(turn, part) for turn, part, _ in items]),
    }


def _of_contexts(dialogues: Mapping[str, _Dialogue]) -> Values:
    sizes = [len(dialogue.emphasis) for dialogue in dialogues.values()]
    by_size = Counter(sizes)
    pairs = [pair for d in dialogues.values() for pair in combinations(d.emphasis.values(), 2)]
    return {
        "contexts": len(sizes),
        **{f"contexts_of_{size}_fragments": by_size[size] for size in range(7)},
        "contexts_not_of_two_fragments": len(sizes) - by_size[2],
        "contexts_with_a_contrast": sum(size > 1 for size in sizes),
        "minimal_pairs": len(pairs),
        "pairs_of_one_implication": sum(bool({*first} & {*second}) for first, second in pairs),
        "fragments_overwritten": sum(size - 1 for size in sizes if size),
        "fragments_kept": sum(size > 0 for size in sizes),
    }


def _of_turns(dialogues: Mapping[str, _Dialogue]) -> Values:
    contexts, items = Counter[int](), Counter[int]()
    for context, dialogue in dialogues.items():
        turns = len(context.split("<br>"))
        contexts[turns] += 1
        items[turns] += len(dialogue.emphasis)
    current = {dialogue.current for dialogue in dialogues.values()}
    quoted = [turn for turn in current if re.search(r"(?<!\w)'[^']+'(?!\w)", turn)]
    return {
        **{f"contexts_of_{number}_turns": contexts[number] for number in range(1, 5)},
        "fewest_turns": min(contexts, default=None),
        "items_of_one_turn": items[1],
        "share_of_items_of_two_turns_or_fewer": (items[1] + items[2]) / max(1, items.total()),
        "current_turns": len(current),
        "current_turns_with_a_quotation": len(quoted),
    }


def _of_marks(items: Sequence[tuple[str, str]]) -> Values:
    """The items where quoting every occurrence of the fragment marks more than was stressed."""
    spans = [find_span(turn, part) for turn, part in items]
    several = [turn.count(part) > 1 for turn, part in items]
    inside = [
        re.search(rf"\w{literal}|{literal}\w", turn) is not None
        for turn, literal in ((turn, re.escape(part)) for turn, part in items)
    ]
    return {
        "marks_wrong": sum(map(max, several, inside)),
        "marks_several": sum(several),
        "marks_inside_a_word": sum(inside),
        "marks_only_inside_a_word": sum(bool(span and REPAIRED in span.flags) for span in spans),
        "ambiguous": sum(bool(span and AMBIGUOUS in span.flags) for span in spans),
    }


POPE_FILES = ("hu_gpt4augmented_turn2_data.csv",)
_TRUE, _LITERAL = pope.REFERENCES["turn2_true"], pope.REFERENCES["turn2_literal"]

Guess = Callable[[str], float]
"""The score of a reply by a guesser that sees nothing else; the higher score is its answer."""


def intent_resolution(folder: Path) -> Values:
    """Counts of the file, the replies in quotation marks, and what two blind guessers score."""
    rows = read_rows(folder / POPE_FILES[0], pope.COLUMNS)
    groups = {
        ours: [row for row in rows if row.cells["task"].strip() == theirs]
        for theirs, ours in pope.GROUPS.items()
    }
    quoted = [(_is_quoted(row.cells[_TRUE]), _is_quoted(row.cells[_LITERAL])) for row in rows]
    context, prefix, utterance = (pope.FIELDS[name] for name in ("context", "prefix", "utterance"))
    edges = [(row.cells[prefix][-1:], row.cells[utterance][:1]) for row in rows]
    empty = {
        name: sum(not row.cells[context].strip() for row in own) for name, own in groups.items()
    }
    return {
        "items": len(rows),
        **{f"items_{name}": len(own) for name, own in groups.items()},
        **{f"empty_contexts_{name}": count for name, count in empty.items()},
        "quoted_true": sum(true for true, _ in quoted),
        "quoted_literal": sum(literal for _, literal in quoted),
        "quoted_true_only": sum(true and not literal for true, literal in quoted),
        "quoted_literal_only": sum(literal and not true for true, literal in quoted),
        "accuracy_quoted": _accuracy(rows, _is_quoted),
        **{f"accuracy_quoted_{name}": _accuracy(own, _is_quoted) for name, own in groups.items()},
        "accuracy_shorter": _accuracy(rows, lambda text: -len(text)),
        # No white space is between the prefix and the utterance.
        "unspaced_prefixes": sum(not (end.isspace() or start.isspace()) for end, start in edges),
    }


def _is_quoted(reply: str) -> bool:
    text = reply.strip()
    return text.startswith('"') and text.endswith('"')


def _accuracy(rows: Sequence[TableRow], guess: Guess) -> float:
    """The share of rows where a guesser takes the true reply; an undecided one counts half."""
    scores = [(guess(row.cells[_TRUE]), guess(row.cells[_LITERAL])) for row in rows]
    points = [0.5 if true == literal else float(true > literal) for true, literal in scores]
    return sum(points) / max(1, len(rows))


LUDWIG_FILES = tuple(
    f"human_eval_{part}.csv" for part in ("1-150", "151-300", "301-450", "451-600")
)
_GOLD, _RATERS = "Ground truth", tuple(f"Annotator {number}" for number in range(1, 6))
_ANSWERS = {"yes": 1.0, "no": 0.0}


def ludwig(folder: Path) -> Values:
    """The accuracy of people, one by one and by majority, and their agreement."""
    columns = (_GOLD, *_RATERS)
    rows = [row for name in LUDWIG_FILES for row in read_rows(folder / name, columns)]
    answers = np.array([[_answer(row, name) for name in columns] for row in rows])
    gold, ratings = answers[:, 0], answers[:, 1:]
    yes = ratings.sum(axis=1)
    is_wrong = (yes > len(_RATERS) / 2) != (gold == 1)
    minority = Counter(int(min(count, len(_RATERS) - count)) for count in yes)
    is_unanimous = (yes == 0) | (yes == len(_RATERS))
    return {
        "items": len(rows),
        "annotator_accuracy": float((ratings == gold[:, None]).mean()),
        **{
            f"annotator_{number}_accuracy": float((column == gold).mean())
            for number, column in enumerate(ratings.T, 1)
        },
        "majority_accuracy": float(1 - is_wrong.mean()),
        "nominal_alpha": alpha(ratings, "nominal").value,
        "unanimous": minority[0],
        "four_to_one": minority[1],
        "three_to_two": minority[2],
        "majority_against_gold": int(is_wrong.sum()),
        "unanimous_against_gold": int((is_wrong & is_unanimous).sum()),
    }


def _answer(row: TableRow, column: str) -> float:
    answer = row.cells[column].strip().rstrip(".").lower()
    if answer not in _ANSWERS:
        raise DataError(
            f"{row.place}: {column} says {row.cells[column]!r}, not Yes or No; fetch the file again"
        )
    return _ANSWERS[answer]


RECOMPUTATIONS = {
    "emphasized_talk": FromFiles("emphasized_talk", TALK_FILES, emphasized_talk),
    "intent_resolution": FromFiles("intent_resolution", POPE_FILES, intent_resolution),
    "ludwig": FromFiles("ludwig", LUDWIG_FILES, ludwig),
}
