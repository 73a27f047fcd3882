"""The sample sets that ship: their form and balance, and that no surface cue solves them."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, groupby, pairwise
from pathlib import Path
from statistics import mean, median

import pytest
from support import sample_texts
from support.each import each
from support.sample_texts import SAMPLES, normal, other_texts, probed, repeated, runs, texts, words

from harness.core import Sample
from harness.data.readers.samples_jsonl import read
from harness.registry import Registry, shipped_home

DATA = os.environ.get("HARNESS_DATA")
HOME = shipped_home()
REGISTRY = Registry((HOME,), {}, HOME / "no cache")
RESOLUTION = ("indirect_speech", "irony", "maxims", "metaphor")
DETECTION = ("deceits", "indirect_speech", "irony", "maxims", "metaphor", "humour")
ISHATE = ("ishate_implicit", "ishate_subtle", "ishate_non_implicit", "ishate_non_explicit")
SETS = {
    "intent_resolution": dict.fromkeys(RESOLUTION, 14),
    "intent_detection": dict.fromkeys((*DETECTION, "coherence_inference"), 8),
    "emphasized_talk": {"all": 161},
    "ludwig": {"particularised": 40, "generalised": 20},
    "hate_speech": {f"{k}, level {n}": 12 for k in ("hateful", "benign") for n in range(1, 5)},
    "ishate_implicit": dict.fromkeys(("non", "explicit", "implicit"), 12),
    "ishate_subtle": dict.fromkeys(("non", "plain", "subtle"), 12),
    "ishate_non_implicit": dict.fromkeys(("non", "implicit"), 12),
    "ishate_non_explicit": dict.fromkeys(("non", "explicit"), 12),
}
DENIAL = re.compile(r"n't\b|\b(?:no|not|never|nobody|nothing|cannot)\b", re.IGNORECASE)
FUNCTION_WORDS = set(
    words("the a an of to in on at as by for with and that it her his she he they")
) | set(words("is was be has have had"))


def held(name: str) -> list[Sample]:
    return read([SAMPLES / f"{name}.jsonl"], None)


def sentences(sample: Sample) -> list[str]:
    """The texts of a sample but for choices of one word, which are no sentences."""
    said = [text for part in sample.references.values() for text in part]
    return [text for text in (*texts(sample), *said) if len(words(text)) > 1]


@pytest.mark.parametrize("name", SETS)
def test_each_set_has_its_groups_and_no_sample_twice(name: str) -> None:
    samples = held(name)

    assert Counter(sample.group for sample in samples) == SETS[name]
    assert len({sample.id for sample in samples}) == len(samples)
    assert all(sample.choices.count(sample.gold) == 1 for sample in samples if sample.choices)


@each("name", SETS)
def test_every_text_is_trimmed_plain_ascii(name: str) -> None:
    for text in (text for sample in held(name) for text in texts(sample)):
        assert text.isascii(), text
        assert name in ("emphasized_talk", "intent_resolution") or text == " ".join(text.split())


@pytest.mark.parametrize("name", ["intent_detection", "ludwig", "hate_speech"])
def test_nothing_is_repeated_from_another_set(name: str) -> None:
    ours = [text for sample in held(name) for text in texts(sample) if len(words(text)) > 1]
    assert repeated(ours, other_texts(name)) == []


@pytest.mark.skipif(DATA is None, reason="HARNESS_DATA is unset: the folder of the released data")
@pytest.mark.parametrize("name", ["intent_detection", "ludwig"])
def test_nothing_is_repeated_from_released_data(name: str) -> None:
    theirs = sample_texts.released_texts(Path(DATA or "."))
    ours = [text for sample in held(name) for text in texts(sample) if len(words(text)) > 1]

    assert len(theirs) > 1000
    assert repeated(ours, theirs) == []


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="HARNESS_DATA is unset: the folder of the released data")
def test_no_text_of_hate_speech_is_a_released_one() -> None:
    from pyarrow import parquet

    files = Path(DATA or ".").glob("ishate/ishate_*.parquet.gzip")
    released = [text for path in files for text in parquet.read_table(path)["text"].to_pylist()]

    assert repeated([sample.fields["text"] for sample in held("hate_speech")], released) == []


# intent_detection: a cue names the choices it favours, the longest or those that deny something;
# a choice among them must be right about as often as a blind one.


def story_words(sample: Sample, choice: str) -> float:
    """How many words that say something a choice shares with its story."""
    return len(set(words(choice)) & set(words(sample.fields["scenario"])) - FUNCTION_WORDS)


Cue = Callable[[Sample, str], float]
FAVOURS: dict[str, Cue] = {
    "longest": lambda _, choice: len(choice),
    "shortest": lambda _, choice: -len(choice),
    "most words of the story": story_words,
    "fewest words of the story": lambda sample, choice: -story_words(sample, choice),
    "denial": lambda _, choice: bool(DENIAL.search(choice)),
    "no denial": lambda _, choice: not DENIAL.search(choice),
    "quoted": lambda _, choice: '"' in choice,
}


def luck(sample: Sample, cue: Cue) -> float:
    """How often a blind choice among those a cue favours is the right one."""
    worth = [cue(sample, choice) for choice in sample.choices]
    pairs = zip(sample.choices, worth, strict=True)
    favoured = [choice for choice, value in pairs if value == max(worth)]
    return favoured.count(sample.gold or "") / len(favoured)


@each("cue", FAVOURS)
@each("group", DETECTION)
def test_no_surface_cue_finds_the_right_choice(group: str, cue: str) -> None:
    chosen = [sample for sample in held("intent_detection") if sample.group == group]
    right = mean(luck(sample, FAVOURS[cue]) for sample in chosen)
    assert right <= 1 / len(chosen[0].choices) + 0.15


@each("group", [*DETECTION, "coherence_inference"])
def test_the_right_choice_is_at_every_place_equally_often(group: str) -> None:
    chosen = [sample for sample in held("intent_detection") if sample.group == group]
    places = Counter(sample.choices.index(sample.gold or "") for sample in chosen)
    counts = [places[place] for place in range(len(chosen[0].choices))]

    assert max(counts) - min(counts) <= 1, counts


def test_each_choice_has_the_label_of_what_it_is() -> None:
    for sample in held("intent_detection"):
        labels = sample.references["labels"]
        right = labels[sample.choices.index(sample.gold or "")]
        wrong = {label for label in labels if label != right}
        is_pair = sample.group == "coherence_inference"
        assert len(labels) == len(sample.choices)
        assert right == ("Correct" if is_pair else "CorrectNonLiteral")
        assert len(wrong) == (1 if is_pair else 4 if sample.group == "metaphor" else len(wrong))
        assert "IncorrectLiteral" in wrong or is_pair or sample.group == "humour"


def test_a_remark_without_its_story_is_the_end_of_it_and_a_question() -> None:
    for sample in held("intent_detection"):
        alone = sample.fields.get("without_story")
        assert (alone is not None) == (sample.group in DETECTION[:5])
        if alone is not None:
            assert sample.fields["scenario"].endswith(f" {alone}")
            assert re.fullmatch(r'[^".?!]+: "[^"]+" (?:What|Why) [^".!]+\?', alone), alone


def test_no_story_of_intent_detection_shares_a_run_of_words_with_another() -> None:
    samples = held("intent_detection")
    counts = Counter(run for sample in samples for run in runs(sample.fields["scenario"]))
    assert [run for run, count in counts.items() if count > 1] == []


# ludwig: no word gives yes or no away.

ANSWER = re.compile(
    r"\b(?:yes|yeah|yep|no|nope|nah|sure|certainly|definitely|absolutely|indeed|of course"
    r"|afraid|sorry|unfortunately)\b",
    re.IGNORECASE,
)
MARKS = (
    *(DENIAL, re.compile(r"\?"), re.compile(","), re.compile(r"\b(?:i|my|me|we|us)\b", re.I)),
    re.compile(r"\b(?:half|two|three|third|four|fourth|five|six|seven|eleven|fourteen)\b", re.I),
)


def test_both_answers_are_as_frequent_as_long_and_as_marked_and_the_probe_finds_a_cue() -> None:
    samples = held("ludwig")
    golds = [sample.gold for sample in samples]
    replies = {g: [s.fields["response"] for s in samples if s.gold == g] for g in ("yes", "no")}
    middle = median(len(sample.fields["response"]) for sample in samples)

    same = mean(one == two for one, two in pairwise(golds))
    longer = mean((len(s.fields["response"]) > middle) == (s.gold == "yes") for s in samples)
    lengths = [mean(map(len, said)) for said in replies.values()]

    groups = Counter((sample.group, sample.gold) for sample in samples)
    assert sorted(groups.values()) == [10, 10, 20, 20]
    assert 0.35 <= same <= 0.65
    assert 0.4 <= longer <= 0.6
    assert abs(lengths[0] - lengths[1]) <= 0.1 * min(lengths)
    for mark in MARKS:
        yes, no = (sum(bool(mark.search(text)) for text in said) for said in replies.values())
        assert abs(yes - no) <= 2, mark
    assert [text for said in replies.values() for text in said if ANSWER.search(text)] == []

    shown = [f"{s.fields['response']} {'oh' if s.gold == 'no' else ''}" for s in samples]
    assert probed(shown, [sample.gold == "yes" for sample in samples]) > 0.9


@pytest.mark.slow
@each("fields", [("response",), ("utterance",), ("utterance", "response")])
def test_words_alone_do_not_give_the_answer(fields: tuple[str, ...]) -> None:
    samples = held("ludwig")
    shown = [" ".join(sample.fields[name] for name in fields) for sample in samples]
    assert probed(shown, [sample.gold == "yes" for sample in samples]) < 0.65


# hate_speech and ishate: invented groups of people, spoken of in both ways alike.


def test_every_invented_group_is_spoken_of_in_both_ways_alike() -> None:
    samples = held("hate_speech")
    counts = Counter((sample.references["target"][0], sample.gold) for sample in samples)

    assert len(counts) >= 20
    assert set(counts.values()) == {4}


def test_lengths_do_not_separate_hateful_from_benign_texts() -> None:
    sizes: dict[tuple[str, str], list[int]] = {}
    for sample in held("hate_speech"):
        for level in ("all", sample.references["level"][0]):
            size = len(words(sample.fields["text"]))
            sizes.setdefault((level, sample.gold or ""), []).append(size)

    for level in ("all", "1", "2", "3", "4"):
        means = [mean(sizes[level, gold]) for gold in ("yes", "no")]
        assert max(means) < 1.12 * min(means)


@pytest.mark.slow
def test_words_alone_do_not_separate_hateful_from_benign_texts() -> None:
    samples = held("hate_speech")
    shown = [sample.fields["text"] for sample in samples]
    assert probed(shown, [sample.gold == "yes" for sample in samples]) < 0.65


@pytest.mark.parametrize("name", ISHATE)
def test_labels_and_answers_are_those_of_the_task(name: str) -> None:
    choices = REGISTRY.load("tasks", name).data.choices
    labels: dict[str, list[str]] = {}

    for sample in held(name):
        label = sample.references["label"][0]
        labels.setdefault(sample.cluster, []).append(label)
        assert sample.references["labels"] == tuple(choices)
        assert sample.choices == tuple(choices.values())
        assert sample.gold == choices[label]
        assert ("properties" in sample.references) == (label == "implicit")
    assert all(sorted(part) == sorted(choices) for part in labels.values())


def test_the_sets_of_two_classes_are_parts_of_that_of_three() -> None:
    three = {s.fields["text"]: s.references["label"] for s in held("ishate_implicit")}

    for name in ISHATE[2:]:
        assert {
            s.fields["text"]: s.references["label"] for s in held(name)
        }.items() <= three.items()


@each("name", [*ISHATE, "hate_speech"])
def test_targets_are_invented_groups_of_four_kinds(name: str) -> None:
    kinds: dict[str, set[str]] = {}
    for sample in held(name):
        kinds.setdefault(sample.references["target"][0], set()).update(
            sample.references["target_kind"]
        )
    trades = ("baker", "weaver", "clerk", "cutter", "keeper", "tender", "blower", "fisher", "miner")
    # places, families, faiths, skins and conditions that there are
    real = {"tarn", "orrin", "brack", "ostel", "corbelin", "quillon", "cupra", "sarrin", "pellish"}
    real |= {"salvane", "old-calendar", "brisk", "sallow", "deaf", "blind", "lame", "mute"}
    real |= {"disabled", "wheelchair", "disorder", "syndrome"}

    assert all(len(of) == 1 for of in kinds.values())
    assert set.union(*kinds.values()) == {"people", "faith", "origin", "disability"}
    assert [target for target in kinds if any(trade in target for trade in trades)] == []
    said = [set(re.findall(r"[a-z-]+", repr(sample).lower())) for sample in held(name)]
    assert [sorted(found & real) for found in said if found & real] == []


# intent_resolution: a cue that picks the true text of each pair is right about half of the time.

PAIRS = (
    ("turn2_true", "turn2_literal"),
    ("turn1_true", "turn1_literal"),
    ("true_intention", "literal_intention"),
)
FORMULAS = frozenset(words("yes no sure okay thanks thank that glad oh right good sorry"))
Seen = Callable[[str, str], bool]
POINTS: dict[str, Seen] = {
    "question mark": lambda text, _: "?" in text,
    "exclamation mark": lambda text, _: "!" in text,
    "comma": lambda text, _: "," in text,
    "more than one sentence": lambda text, _: len(re.findall(r"[.!?](?= |$)", text)) > 1,
    "names the speaker": lambda text, speaker: speaker in text,
    "denial": lambda text, _: bool(DENIAL.search(text)),
    "reply formula": lambda text, _: words(text)[0].partition("'")[0] in FORMULAS,
}


def pairs(names: tuple[str, str], group: str) -> list[tuple[str, str, str]]:
    """The true and the literal text of each sample of a group or of all, and the speaker."""
    return [
        (sample.references[names[0]][0], sample.references[names[1]][0], sample.fields["speaker"])
        for sample in held("intent_resolution")
        if group in ("all", sample.group)
    ]


def leaning(true: int, literal: int, *, least: int = 4) -> float:
    """How often what is in so many texts points to the true one; one half below `least`."""
    return true / (true + literal) if true + literal >= least else 0.5


def word_leanings(
    of: Iterable[tuple[str, str, str]], pick: Callable[[str], Iterable[str]], *, least: int
) -> dict[str, float]:
    """The words that lean to one side, of those that `pick` takes from a text."""
    sides = list(zip(*of, strict=True))[:2]
    true, literal = (Counter(w for text in side for w in set(pick(text))) for side in sides)
    found = {word: leaning(true[word], literal[word], least=least) for word in true | literal}
    return {word: share for word, share in found.items() if not 0.35 <= share <= 0.65}


@each("group", ["all", *RESOLUTION])
@each(("names", "bound"), list(zip(PAIRS, (0.05, 0.08, 0.08), strict=True)))
def test_true_and_literal_are_as_long(names: tuple[str, str], bound: float, group: str) -> None:
    sizes = [(len(true), len(literal)) for true, literal, _ in pairs(names, group)]
    true, literal = (mean(side) for side in zip(*sizes, strict=True))
    shorter = mean(0.5 if one == other else float(one < other) for one, other in sizes)

    assert abs(true - literal) <= bound * min(true, literal)
    assert abs(shorter - 0.5) <= (0.05 if group == "all" else 0.15)


@each("cue", POINTS)
@each("group", ["all", *RESOLUTION])
@each("names", PAIRS)
def test_no_mark_name_or_formula_gives_the_true_text_away(
    names: tuple[str, str], group: str, cue: str
) -> None:
    seen = [(POINTS[cue](t, who), POINTS[cue](f, who)) for t, f, who in pairs(names, group)]
    assert 0.35 <= leaning(*(sum(side) for side in zip(*seen, strict=True))) <= 0.65


@each("group", ["all", *RESOLUTION])
@each("names", PAIRS)
def test_no_opening_word_gives_the_true_text_away(names: tuple[str, str], group: str) -> None:
    chosen = pairs(names, group)

    def opening(text: str) -> list[str]:
        return [words(text)[0], words(text)[0].partition("'")[0]]

    assert word_leanings(chosen, opening, least=4) == {}


def test_no_frequent_word_gives_the_true_reply_away() -> None:
    assert word_leanings(pairs(PAIRS[0], "all"), words, least=10) == {}


def test_a_story_names_both_people_and_joins_with_the_utterance() -> None:
    for fields in (sample.fields for sample in held("intent_resolution")):
        story = fields["context"] + " " + fields["prefix"]
        assert fields["speaker"] != fields["listener"]
        assert all(re.search(rf"\b{fields[who]}\b", story) for who in ("speaker", "listener"))
        assert re.fullmatch(r"[^\"]*[^\" ][.?!]", fields["context"])
        assert re.fullmatch(r"[^\"]*[^\" ] ", fields["prefix"])
        assert re.fullmatch(r"\"[^\" ][^\"]*[.?!]\"", fields["utterance"])


# emphasized_talk: samples of a dialogue differ in the stressed fragment alone.


def shared_words(one: str, other: str) -> float:
    first, second = set(words(one)), set(words(other))
    return len(first & second) / len(first | second)


def turn(sample: Sample) -> str:
    return "".join(sample.fields[name] for name in ("before", "emphasis", "after"))


def dialogues() -> list[list[Sample]]:
    return [list(run) for _, run in groupby(held("emphasized_talk"), lambda s: s.cluster)]


def test_samples_of_a_dialogue_differ_in_the_stress_alone() -> None:
    sizes = Counter(len(dialogue) for dialogue in dialogues())

    assert set(sizes) == {2, 3}
    assert (sizes[2] >= 40, sizes[3] >= 20) == (True, True)
    for dialogue in dialogues():
        spans = [(len(s.fields["before"]), len(s.fields["emphasis"])) for s in dialogue]
        assert len({(s.fields["context"], s.fields["speaker"], turn(s)) for s in dialogue}) == 1
        assert all(one[0] + one[1] < other[0] for one, other in combinations(spans, 2))


def test_a_fragment_is_whole_words_and_flagged_where_its_turn_repeats_it() -> None:
    samples = held("emphasized_talk")

    for sample in samples:
        fields = sample.fields
        found = normal(turn(sample)).count(normal(fields["emphasis"]))
        assert re.fullmatch(r"[A-Za-z'-]+( [A-Za-z'-]+){0,2}", fields["emphasis"])
        assert not re.search(r"[\w'-]$", fields["before"])
        assert not re.match(r"[\w'-]", fields["after"])
        assert sample.flags == (("ambiguous",) if found > 1 else ())
    assert sum(bool(sample.flags) for sample in samples) == 5


def test_two_to_four_turns_lead_to_the_speaker() -> None:
    for fields in (sample.fields for sample in held("emphasized_talk")):
        turns = fields["context"].split("\n")
        speakers = [said[0] for said in turns] + [fields["speaker"]]
        assert 2 <= len(turns) <= 4
        assert all(re.fullmatch(r"[01]: [A-Z][^\n]*[.?!]", said) for said in turns)
        assert all(one != other for one, other in pairwise(speakers))


def test_implications_are_sentences_that_differ() -> None:
    samples = held("emphasized_talk")
    said = [text for sample in samples for text in sample.references["implication"]]

    assert len({normal(text) for text in said}) == len(said)
    assert all(
        re.fullmatch(r"[A-Z][A-Za-z ,;'-]*\.", t) and 6 <= len(t.split()) <= 20 for t in said
    )
    for sample in samples:
        implied = sample.references["implication"]
        assert all(shared_words(text, turn(sample)) <= 0.5 for text in implied)
        assert all(shared_words(one, other) <= 0.5 for one, other in combinations(implied, 2))
    for one, other in (duo for dialogue in dialogues() for duo in combinations(dialogue, 2)):
        for first in one.references["implication"]:
            assert all(shared_words(first, t) <= 0.4 for t in other.references["implication"])
