"""Emphasized-Talk: the released dialogues to counts, the printed systems to correlations.

Counts are of the file as released; the place of a stress is the one that the task's reader finds.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec

from harness.analysis.verify import FromFiles, FromInputs
from harness.data.readers.emphasized_talk import AMBIGUOUS, REPAIRED, find_span
from harness.errors import DataError
from harness.stats.correlation import (
    discordant_pairs,
    fisher_interval,
    pearson,
    permutation_p,
    spearman,
)
from harness.storage.tables import read_text

FILES = ("data.json",)
JUDGES = {"bertf1": "BERTf1", "auto_gpt4_gt": "auto-gpt4-gt", "auto_gpt4": "auto-gpt4"}
_MANY = 4  # the last class of a distribution holds these and more


class _Dialogue(msgspec.Struct):
    current: str
    emphasis: dict[str, list[str]]


def ranking(inputs: Mapping[str, Sequence[float]]) -> Mapping[str, float | None]:
    """The agreement of each judge of Table 1 with the mean opinion scores of its systems."""
    people, values = inputs["MOS"], dict[str, float | None]()
    for name, column in JUDGES.items():
        judge = inputs[column]
        order = spearman(judge, people)
        span = fisher_interval(order.value or 0.0, order.n)
        values |= {
            f"{name}_spearman": order.value,
            f"{name}_pearson": pearson(judge, people).value,
            f"{name}_discordant": discordant_pairs(judge, people).value,
            f"{name}_permutation_p": permutation_p(judge, people, "spearman").value,
            f"{name}_fisher_low": span.low,
            f"{name}_fisher_high": span.high,
        }
    return values


def counts(folder: Path) -> Mapping[str, float]:
    """Counts of the file, and how many items each slip of the released scripts affects."""
    dialogues = _dialogues(folder / FILES[0])
    items = [
        (dialogue.current, fragment, implications)
        for dialogue in dialogues.values()
        for fragment, implications in dialogue.emphasis.items()
    ]
    return {
        "items": len(items),
        "items_with_one_implication": sum(len(gold) == 1 for _, _, gold in items),
        "items_with_two_implications": sum(len(gold) == 2 for _, _, gold in items),
        "items_with_three_implications": sum(len(gold) == 3 for _, _, gold in items),
        "items_with_repeated_implications": sum(len({*gold}) < len(gold) for _, _, gold in items),
        "items_echoed": sum(any(part in text for text in gold) for _, part, gold in items),
        "implications": sum(len(gold) for _, _, gold in items),
        **_of_contexts(dialogues),
        **_of_turns(dialogues),
        **_of_words([part for _, part, _ in items]),
        **_of_marks([(turn, part) for turn, part, _ in items]),
    }


def _dialogues(path: Path) -> Mapping[str, _Dialogue]:
    try:
        return msgspec.json.decode(read_text(path), type=dict[str, _Dialogue])
    except msgspec.DecodeError as error:
        raise DataError(
            f"{path}: not the released layout (context: current, emphasis): {error}; fetch it again"
        ) from error


def _of_contexts(dialogues: Mapping[str, _Dialogue]) -> Mapping[str, float]:
    """The contexts by their number of fragments; the fragments that a shared key overwrites."""
    sizes = [len(dialogue.emphasis) for dialogue in dialogues.values()]
    by_size = Counter(sizes)
    return {
        "contexts": len(sizes),
        **{f"contexts_of_{size}_fragments": by_size[size] for size in range(7)},
        "contexts_not_of_two_fragments": len(sizes) - by_size[2],
        "contexts_with_a_contrast": sum(size > 1 for size in sizes),
        "minimal_pairs": sum(size * (size - 1) // 2 for size in sizes),
        "pairs_of_one_implication": sum(map(_pairs_alike, dialogues.values())),
        "fragments_overwritten": sum(size - 1 for size in sizes if size),
        "fragments_kept": sum(size > 0 for size in sizes),
    }


def _pairs_alike(dialogue: _Dialogue) -> int:
    pairs = combinations(dialogue.emphasis.values(), 2)
    return sum(bool({*first} & {*second}) for first, second in pairs)


def _of_turns(dialogues: Mapping[str, _Dialogue]) -> Mapping[str, float]:
    """The turns before the current one, and the current turns themselves."""
    turns = {context: len(context.split("<br>")) for context in dialogues}
    items = Counter[int]()
    for context, dialogue in dialogues.items():
        items[turns[context]] += len(dialogue.emphasis)
    contexts, current = Counter(turns.values()), {d.current for d in dialogues.values()}
    quoted = [turn for turn in current if re.search(r"(?<!\w)'[^']+'(?!\w)", turn)]
    return {
        **{f"contexts_of_{number}_turns": contexts[number] for number in range(1, 5)},
        "items_of_one_turn": items[1],
        "share_of_items_of_two_turns_or_fewer": (items[1] + items[2]) / max(1, items.total()),
        "current_turns": len(current),
        "current_turns_with_a_quotation": len(quoted),
    }


def _of_words(fragments: Sequence[str]) -> Mapping[str, float]:
    lengths = [len(fragment.split()) for fragment in fragments]
    by_length = Counter(min(length, _MANY) for length in lengths)
    return {
        "words_per_fragment": sum(lengths) / max(1, len(lengths)),
        **{f"fragments_of_{number}_words": by_length[number] for number in range(1, _MANY + 1)},
    }


def _of_marks(items: Sequence[tuple[str, str]]) -> Mapping[str, float]:
    """The items where quoting every occurrence of the fragment marks more than was stressed."""
    spans = [find_span(turn, part) for turn, part in items]
    several = [turn.count(part) > 1 for turn, part in items]
    inside = [_stands_inside_a_word(turn, part) for turn, part in items]
    return {
        "marks_wrong": sum(map(max, several, inside)),
        "marks_several": sum(several),
        "marks_inside_a_word": sum(inside),
        "marks_only_inside_a_word": sum(bool(span and REPAIRED in span.flags) for span in spans),
        "ambiguous": sum(bool(span and AMBIGUOUS in span.flags) for span in spans),
    }


def _stands_inside_a_word(turn: str, part: str) -> bool:
    literal = re.escape(part)
    return re.search(rf"\w{literal}|{literal}\w", turn) is not None


RECOMPUTATIONS = {
    "emphasized_talk": FromFiles(FILES, counts),
    "emphasized_talk_ranking": FromInputs(ranking),
}
