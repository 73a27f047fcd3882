"""Released data to the counts and the agreement of annotators that papers print, by source."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np

from harness.data.published import Recomputation, Values, read_csvs
from harness.data.readers import intent_resolution as pope
from harness.data.readers.emphasized_talk import AMBIGUOUS, REPAIRED, find_span
from harness.data.readers.released import read_json
from harness.lazy import pandas
from harness.stats.agreement import alpha

TALK_FILES = ("data.json",)
_MANY = 4  # the last class of a distribution holds these and more


class _Dialogue(msgspec.Struct):
    current: str
    emphasis: dict[str, list[str]]


def emphasized_talk(folder: Path) -> Values:
    """Counts of the file, and how many items each slip of the released scripts affects."""
    dialogues = read_json(folder / TALK_FILES[0], dict[str, _Dialogue], "dialogues by context")
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
        "marks_only_inside_a_word": sum(bool(span and REPAIRED in span[2]) for span in spans),
        "ambiguous": sum(bool(span and AMBIGUOUS in span[2]) for span in spans),
    }


POPE_FILES = ("hu_gpt4augmented_turn2_data.csv",)
_TRUE, _LITERAL = pope.REFERENCES["turn2_true"], pope.REFERENCES["turn2_literal"]


def intent_resolution(folder: Path) -> Values:
    """Counts of the file, the replies in quotation marks, and what two blind guessers score."""
    rows = read_csvs(folder, POPE_FILES, pope.COLUMNS)
    context, prefix, utterance = (
        rows[pope.FIELDS[name]] for name in ("context", "prefix", "utterance")
    )
    group = rows["task"].str.strip()
    of = {ours: group == theirs for theirs, ours in pope.GROUPS.items()}
    replies = [rows[name].str.strip() for name in (_TRUE, _LITERAL)]
    true, literal = (
        (own.str.startswith('"') & own.str.endswith('"')).astype(float) for own in replies
    )
    # An undecided guesser is right half the time; of two quotations neither is taken.
    quoted = (1 + np.sign(true - literal)) / 2
    shorter = (1 + np.sign(rows[_LITERAL].str.len() - rows[_TRUE].str.len())) / 2
    ends = prefix.str[-1:].str.isspace() | utterance.str[:1].str.isspace()
    empty = context.str.strip() == ""
    return {
        "items": len(rows),
        **{f"items_{name}": int(own.sum()) for name, own in of.items()},
        **{f"empty_contexts_{name}": int((empty & own).sum()) for name, own in of.items()},
        "quoted_true": int(true.sum()),
        "quoted_literal": int(literal.sum()),
        "quoted_true_only": int((true > literal).sum()),
        "quoted_literal_only": int((literal > true).sum()),
        "accuracy_quoted": _mean(quoted),
        **{f"accuracy_quoted_{name}": _mean(quoted[own]) for name, own in of.items()},
        "accuracy_shorter": _mean(shorter),
        # No white space is between the prefix and the utterance.
        "unspaced_prefixes": int((~ends).sum()),
    }


def _mean(points: "pandas.Series[float]") -> float:
    return float(points.sum()) / max(1, len(points))


LUDWIG_FILES = tuple(
    f"human_eval_{part}.csv" for part in ("1-150", "151-300", "301-450", "451-600")
)
_GOLD, _RATERS = "Ground truth", tuple(f"Annotator {number}" for number in range(1, 6))
_ANSWERS = {"yes": 1.0, "no": 0.0}


def ludwig(folder: Path) -> Values:
    """The accuracy of people, one by one and by majority, and their agreement."""
    columns = [_GOLD, *_RATERS]
    rows = read_csvs(folder, LUDWIG_FILES, columns)
    found = rows[columns].apply(lambda own: own.str.strip().str.rstrip(".").str.lower())
    answers = found.replace(_ANSWERS).to_numpy(dtype=object).astype(float)
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


IMPLICATURES = ("dev_conversational_implicatures.csv", "test_conversational_implicatures.csv")


def implicatures(folder: Path) -> Values:
    """The implicatures of both parts."""
    return {"rows": len(read_csvs(folder, IMPLICATURES, ["Implicature"]))}


RECOMPUTATIONS = {
    "emphasized_talk": Recomputation(emphasized_talk, "emphasized_talk", TALK_FILES),
    "intent_resolution": Recomputation(intent_resolution, "intent_resolution", POPE_FILES),
    "ludwig": Recomputation(ludwig, "ludwig", LUDWIG_FILES),
    "ludwig_implicatures": Recomputation(implicatures, "ludwig", IMPLICATURES),
}
