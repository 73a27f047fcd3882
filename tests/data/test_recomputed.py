"""What recomputations make of small files in the released layouts, beside sums done by hand."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support import released_layouts
from support.each import each
from support.released_layouts import write_csv, write_json, write_people, write_rounds, write_split

from harness.analysis.verify import DIFFERS, verify
from harness.data.published import answers, datasets, ishate
from harness.specs.data import GoldenSpec
from harness.specs.schema import load_spec
from harness.stats.agreement import alpha
from harness.stats.figures import RULES
from harness.storage.frames import records

ANSWERS = [("Yes", "YYYYY"), ("No", "YYYYY"), ("No", "NNNNY"), ("Yes", "YYNNN")]
TRAIN = [
    *(("Go away!", "I", "orig"), ("go away", "I", "eda"), ("Leave now.", "S", "aav")),
    *(("bad words", "E", "orig"), ("a nice day", "N", "orig")),
]


def by_name(found: Mapping[str, float | None], names: str) -> list[float | None]:
    return [found[name] for name in names.split()]


def test_dialogues_are_counted(tmp_path: Path) -> None:
    released_layouts.write_dialogues(tmp_path)

    found = datasets.emphasized_talk(tmp_path)
    assert by_name(found, "contexts items implications minimal_pairs ambiguous") == [3, 3, 6, 1, 1]
    assert by_name(found, "items_with_two_implications items_with_three_implications") == [1, 1]
    # "red chair" in "on a red chair", "here" in "there"
    assert by_name(found, "items_with_repeated_implications items_echoed") == [1, 2]
    assert by_name(found, "contexts_of_0_fragments contexts_not_of_two_fragments") == [1, 2]
    assert by_name(found, "fragments_overwritten fragments_kept contexts_of_1_turns") == [1, 2, 2]
    assert by_name(found, "fewest_turns share_of_items_of_two_turns_or_fewer") == [1, 1]
    assert found["words_per_fragment"] == pytest.approx(4 / 3)
    # "he" is in "he", in "he" and in "here"
    assert by_name(found, "marks_several marks_inside_a_word marks_wrong") == [1, 1, 1]


@each(
    ("rule", "of", "value"),
    [
        *(("sum", [[3], [-1]], 2), ("mean", [[1, 2], [6]], 3), ("share", [[1], [1], [3]], 0.25)),
        *(("percent", [[1], [4]], 25), ("rank", [[2.0], [1.0, 2, 3, 4]], 3)),
        ("f1", [[0.5], [1.0]], 2 / 3),
        ("f1_of_counts", [[0.143], [0.026], [39]], 2 / 46),  # 1 of 39 found, 1 of 7 right
        ("missed", [[0.026], [39]], 38),
        ("spearman", [[1, 2, 3, 4], [1, 2, 4, 3]], 0.8),  # 1 - 6 x 2 / (4 x 15)
        ("discordant", [[1, 2, 3, 4], [4, 3, 2, 1]], 6),
        ("permutation_p", [[1, 2, 3, 4], [4, 3, 2, 1]], 2 / 24),
        ("mean_tau", [[0.1, 0.3, 0.2, 0.4], [1, 2, 3, 4]], 5 / 6),  # one pair of six: 2/3
        *(("mean_rho", [[0.1, 0.3, 0.2, 0.4]], 0.8), ("first_not_lowest", [[1, 2], [2, 1]], 1)),
        *(("last_not_highest", [[1, 2], [2, 1]], 1), ("first_below_last", [[1, 2], [2, 1]], 1)),
        *(("williams_t", [[0.5, 0.5, 0.1], [50]], 0), ("williams_p", [[0.5, 0.5, 0.1], [50]], 1)),
        ("pearson", [[1, 2, 3, 4], [2, 1, 3, 4]], 0.8),
    ],
)
def test_published_numbers_become_others_by_rules(
    rule: str, of: list[list[float]], value: float
) -> None:
    assert RULES[rule](*of) == pytest.approx(value)


def test_quotation_marks_are_counted_and_their_guesser_scored(tmp_path: Path) -> None:
    released_layouts.write_stories(
        tmp_path,
        [
            ("irony", '"Yes, take it."', "No."),
            ("irony", "Yes.", '"No, do not."'),
            ("maxims", "Yes.", "No."),
        ],
    )

    found = datasets.intent_resolution(tmp_path)

    assert by_name(found, "items items_irony items_maxims items_metaphor") == [3, 2, 1, 0]
    assert by_name(found, "quoted_true quoted_literal quoted_true_only") == [1, 1, 1]
    assert by_name(found, "accuracy_quoted accuracy_quoted_maxims") == [0.5, 0.5]
    assert found["accuracy_shorter"] == pytest.approx(1 / 3)
    assert found["unspaced_prefixes"] == 0


def test_people_s_readings_are_scored(tmp_path: Path) -> None:
    write_people(tmp_path, ANSWERS)
    found = datasets.ludwig(tmp_path)
    assert by_name(found, "items unanimous four_to_one three_to_two") == [4, 2, 1, 1]
    assert by_name(found, "majority_against_gold unanimous_against_gold") == [2, 1]
    assert found["annotator_accuracy"] == pytest.approx(11 / 20)
    assert by_name(found, "annotator_1_accuracy annotator_5_accuracy") == [0.75, 0.25]
    assert found["majority_accuracy"] == pytest.approx(1 / 2)


def test_rounds_have_kappa_and_alpha_of_two_annotators(tmp_path: Path) -> None:
    # Implicit: 3 of 4 alike, chance 1/2 x 3/4 + 1/2 x 1/4 = 1/2, so kappa 1/2.
    write_rounds(tmp_path, [("I", "I"), ("I", "I"), ("E", "I"), ("E", "E")])
    found = ishate.rounds(tmp_path)
    assert by_name(found, "round_1_kappa_implicit round_3_kappa_implicit") == pytest.approx(
        [0.5] * 2
    )
    assert found["round_2_alpha_nominal"] == pytest.approx(1 - 7 * 2 / (2 * 5 * 3))
    assert by_name(found, "round_1_kappa_subtle sources round_1_messages") == [None, 2, 4]

    write_rounds(tmp_path, [("I", "X"), ("E", "E"), ("S", "S"), ("X", "E")])
    ordinal = alpha([[2, 1], [0, 0], [3, 3], [1, 0]], "ordinal").value
    assert ishate.rounds(tmp_path)["round_1_alpha_ordinal"] == ordinal


def test_originals_and_augmented_rows_are_counted_by_split_and_over_all(tmp_path: Path) -> None:
    write_split(tmp_path, "train", TRAIN)

    found = ishate.train(tmp_path)
    names = "rows non_hateful explicit implicit subtle non_subtle"
    assert by_name(found, names) == [3, 1, 1, 1, 0, 2]
    assert by_name(found, "from_wsf from_ihc property_irony property_black_humor") == [3, 0, 1, 0]
    names = "implicit_wsf explicit_wsf non_hateful_wsf non_subtle_wsf"
    assert by_name(found, names) == [1, 1, 1, 2]
    names = "rows_with_augmented explicit_with_augmented subtle_with_augmented"
    assert by_name(found, names) == [5, 1, 1]
    names = "implicit_with_augmented implicit_all with_an_implicit_layer implicit_eda"
    assert by_name(found, names) == [3, 2, 4, 1]
    assert by_name(found, "subtle_aav subtle_eda subtle_all") == [1, 0, 1]
    names = "share_a_implicit_orig share_a_implicit_eda share_a_explicit_all"
    assert by_name(found, names) == [1 / 3, 1 / 2, 1 / 5]
    assert by_name(found, "share_b_subtle_orig share_b_non_hateful_all") == [0, 1 / 4]
    assert found["implicit_duplicates"] == 1  # "Go away!" and "go away"

    write_split(tmp_path, "dev", [("GO, away", "I", ""), ("leave now", "S", "")])
    write_split(tmp_path, "test", [("more words", "E", "")])
    found = ishate.split(tmp_path, ishate.TRAIN, ishate.DEV, ishate.TEST)
    assert by_name(found, "rows explicit implicit subtle") == [6, 2, 3, 1]
    assert ishate.split(tmp_path, ishate.TEST)["rows"] == 1
    assert ishate.leakage(tmp_path)["dev_in_train"] == 1
    assert ishate.implicit_rows(tmp_path) == {"rows": 5}


def rated(source: str, system: str, value: float) -> dict[str, object]:
    return {
        "source": source,
        "system_id": system,
        "system_output": f"{system} to {source}",
        "context": "a fact",
        "scores": {"coherence": value},
    }


def test_replies_are_correlated_with_people_where_they_can_be_read(tmp_path: Path) -> None:
    items = [rated(s, m, v) for s in ("a", "b") for m, v in (("x", 1), ("y", 2), ("z", 3))]
    write_json(tmp_path / "topical_chat.json", items)
    said = [["1"], ["2", "2"], ["Rating: 3"], ["3"], ["none"], ["1", "neither"]]
    judged = [{**item, "all_responses": texts} for item, texts in zip(items, said, strict=True)]
    write_json(tmp_path / "replies.json", judged)

    found = answers.correlations(tmp_path, attribute="coherence", replies="replies.json")

    assert found["replies"] == 5
    assert found["tau_b"] == pytest.approx(0)  # of 1 and -1
    assert found["tau_b_with_zeros"] == pytest.approx(1 / 3)  # of 1 and -1/3: 3, 0 and .5
    assert found["pearson"] == pytest.approx(0)


def write_hu(folder: Path) -> None:
    """Two items a phenomenon; people know the first, the model all first orders of the options."""
    for name in answers.PHENOMENA.values():
        people = [(1, 1, 1), (1, 2, 0), (2, 1, 1), (2, 2, 1)]
        columns = ("pKey", "itemNum", "Correct")
        write_csv(folder / f"human_data/fj/Human_{name}.csv", columns, people)
    for path in answers.answer_files("toy"):
        seed = int(path.partition("_seed")[2][0])
        is_first, order = seed == 0, "[1, 2]" if seed == 0 else "[2, 1]"
        shares = "{'1': 0.9, '2': 0.1}" if is_first else "{'1': 0.5, '2': 0.5}"
        asked = (shares, order, 1 if is_first else 2)
        rows = [(1, seed, 1, is_first, 0.9, *asked), (2, seed, 2, is_first, 0.2, *asked)]
        names = ("item_id", "seed", "answer", "correct", "prob_true_answer", "distribution")
        places = ("randomized_option_order", "randomized_true_answer")
        write_csv(folder / path, (*names, *places), rows)
    for path in answers.prompt_files():
        about = "no" if "no-story" in path and "Irony" in path else "a story"
        stories = [(1, "a story", "[1, 2]"), (2, about, "[2, 1]")]
        write_csv(folder / path, ("item_id", "content", "randomized_option_order"), stories)


@pytest.mark.parametrize(
    ("compute", "values"),
    [
        (answers.prompts, {"items": 14, "items_irony": 2, "rows_without_stories": 50}),
        (answers.prompts, {"options_irony": 2, "rows_changed": 5}),
        (answers.people, {"participants": 2, "answers": 28, "accuracy_irony": 0.75}),
        (
            lambda folder: answers.answers(folder, model="toy"),
            {"rows": 70, "accuracy": 0.2, "answers_of_one": 35, "answers_of_two": 35},
        ),
        # One order of five is right; over all of them the right option has 2.9 of 5.
        (
            lambda folder: answers.answers(folder, model="toy"),
            {"accuracy_irony": 0.2, "swing_irony": 100.0, "gain_irony": 80.0},
        ),
        (
            lambda folder: answers.answers_and_people(folder, model="toy"),
            {"pearson_irony": 1.0, "largest": 1.0, "people_irony": 0.75},
        ),
    ],
)
def test_stored_answers_are_counted_by_phenomenon(
    tmp_path: Path,
    compute: Callable[[Path], Mapping[str, float | None]],
    values: Mapping[str, float],
) -> None:
    write_hu(tmp_path)
    found = compute(tmp_path)
    assert {name: found[name] for name in values} == pytest.approx(values)


@each(
    ("path", "was", "now", "recompute", "value"),
    [
        (answers.PEOPLE[2], "1,1,1", "1,1,nan", "hu2022_people", "accuracy_irony"),
        (answers.PEOPLE[2], "1,1,1", "1,1,much", "hu2022_people", "answers"),
        (answers.prompt_files()[0], "[1, 2]", "[1", "hu2022_prompts", "items"),
    ],
)
def test_files_that_are_not_as_released_differ(
    tmp_path: Path, path: str, was: str, now: str, recompute: str, value: str
) -> None:
    write_hu(tmp_path)
    (tmp_path / path).write_text((tmp_path / path).read_text("utf-8").replace(was, now, 1), "utf-8")
    cell = {"table": "t", "cell": "c", "published": 14, "recompute": recompute, "value": value}
    content = {"paper": "p", "about": "a", "cells": [cell]}
    spec: GoldenSpec = load_spec(content, GoldenSpec, where="toy.yaml")

    (found,) = records(verify({"toy": spec}, lambda _: tmp_path))

    assert found.status == DIFFERS
    assert now == "1,1,nan" or "not as released" in found.reason
