"""Sheets are blind, shuffled by their seed, and their keys know every row."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pandas
import pytest
from msgspec import structs
from support.each import each
from support.sketches import HOSTILE, right, row, run_file

from harness.analysis.sheets import Sheet, SheetForm, answers_sheet
from harness.core import Sample
from harness.data.ratings import read_key, read_rated
from harness.errors import SpecError
from harness.present import document
from harness.registry import Registry, shipped_home
from harness.specs.schema import load_spec, read_yaml
from harness.specs.sheets import SheetSpec
from harness.storage.frames import frame_csv
from harness.storage.runs import ModelEntry, RunFolder
from harness.text.prompts import Prompts

MODELS = ("zebra-7b", "quokka-8b")
SECRETS = (*MODELS, "the hidden reference", "umpire", "base", "T0.3")


def stored(
    folder: Path, model: str, *, count: int = 6, answer: str | None = None, field: str = "topic"
) -> RunFolder:
    found = RunFolder(folder / f"{model}-{count}-{field}")
    rows = [
        replace(
            row(right(1.0)),
            sample=Sample(f"s{n}", {field: f"tea {n}"}, {"gold": ("the hidden reference",)}),
            answer=f"{answer or model[:1]} {n}" if n else None,
            verdicts={"umpire": right(1.0)},
        )
        for n in range(count)
    ]
    found.write(run_file(count, model=ModelEntry(model, "scripted", model, None)), rows)
    return found


def drawn(folder: Path, *, seed: int = 0, limit: int | None = None, count: int = 6) -> Sheet:
    """A sheet of two models' answers."""
    folders = [stored(folder, name, count=count) for name in MODELS]
    return answers_sheet(folders, None, seed=seed, limit=limit)


def text_of(sheet: Sheet, rater: str = "") -> str:
    [(_, rows)] = sheet.packets([rater] if rater else [], size=None, seed=0).values()
    return sheet.text(rater, rows).removeprefix("\ufeff")


def rated(folder: Path, sheet: Sheet, marks: Sequence[str]) -> pandas.DataFrame:
    """What comes back of a sheet that ann has filled in from above."""
    (folder / "key.csv").write_text(frame_csv(sheet.key), "utf-8")
    lines = text_of(sheet, "ann").splitlines()
    filled = [lines[0], *(line + mark for line, mark in zip(lines[1:], marks, strict=True))]
    (folder / "sheet.csv").write_text("\n".join(filled), "utf-8")
    return read_rated(folder / "sheet.csv", read_key(folder / "key.csv"))


def test_every_answer_is_there_blind_and_a_limit_takes_whole_samples(tmp_path: Path) -> None:
    sheet = drawn(tmp_path)

    assert sorted(sheet.rows.answer) == sorted(f"{a} {n}" for a in "qz" for n in range(1, 6))
    assert sheet.lost == 2
    # A number at the beginning would be one to a spreadsheet.
    assert sheet.rows.row.str.startswith("r").all()
    text = text_of(sheet)
    assert [secret for secret in SECRETS if secret in text] == []
    counts = Counter(drawn(tmp_path, limit=3).rows.index)
    assert len(counts) in (2, 3)
    assert set(counts.values()) == {2}


def test_the_order_is_the_seeds_and_mixes_models(tmp_path: Path) -> None:
    first, again, other = (text_of(drawn(tmp_path, seed=seed)) for seed in (0, 0, 1))

    assert first == again
    order = [[line.split(",")[-2][0] for line in t.splitlines()[1:]] for t in (first, other)]
    assert order[0] != order[1]
    assert order[0] not in (sorted(order[0]), sorted(order[0], reverse=True))


def test_a_rated_sheet_comes_back_under_its_names(tmp_path: Path) -> None:
    sheet = drawn(tmp_path)

    found = rated(tmp_path, sheet, [str(n) for n in range(10)])

    shown = [line.split(",") for line in text_of(sheet, "ann").splitlines()[1:]]
    expected = [(f"s{a[-1]}", a[0], float(n)) for n, (_, _, a, _) in enumerate(shown)]
    assert [(r.sample_id, r.model[0], r.value) for r in found.itertuples()] == expected
    assert {(r.task, r.rater, r.scale) for r in found.itertuples()} == {("toy", "ann", "base")}


@pytest.mark.parametrize("answer", ["=HYPERLINK(1)", "+1", "@x", "-2", *HOSTILE[1:]])
def test_answers_are_formula_safe_in_a_sheet(tmp_path: Path, answer: str) -> None:
    text = text_of(answers_sheet([stored(tmp_path, "m", answer=answer)], None))
    assert f",{answer} 1" not in text or not answer.startswith(("=", "+", "@", "-"))


@pytest.mark.parametrize("name", ["row", "answer", "rating"])
def test_a_field_never_passes_for_a_column_of_the_sheet(tmp_path: Path, name: str) -> None:
    text = text_of(answers_sheet([stored(tmp_path, "m", field=name)], None))
    assert text.splitlines()[0] == f"row,{name}_,answer,rating"


@each(
    ("counts", "variants", "message"),
    [
        ((6, 3), (), "two of these runs hold an answer by m to sample s1"),
        ((6,), ("bas",), r"--variant bas: not in all of these runs; did you mean base"),
        ((1,), (), "no answer to rate"),
    ],
)
def test_runs_that_make_no_sheet_are_refused(
    tmp_path: Path, counts: Sequence[int], variants: Sequence[str], message: str
) -> None:
    folders = [stored(tmp_path, "m", count=count) for count in counts]
    with pytest.raises(SpecError, match=message):
        answers_sheet(folders, None, variants=variants)


FORM = """
about: How good a tea is.
item: |
  Topic: {{ topic }}{% if gold %} ({{ gold }}){% endif %}
question: Is it about {{ topic }}?
shows: [gold]
scale:
  - {value: 1, word: "yes", means: it is}
  - {value: 0, word: "no", means: it is not}
"""


def form(folder: Path, text: str = FORM) -> SheetForm:
    (folder / "toy.yaml").write_text(text, "utf-8")
    spec = load_spec(read_yaml(folder / "toy.yaml"), SheetSpec, where="toy.yaml")
    return SheetForm(spec, "toy.yaml", Prompts([folder]))


def test_a_form_shows_the_item_as_people_read_it_and_the_question(tmp_path: Path) -> None:
    sheet = answers_sheet([stored(tmp_path, "m")], form(tmp_path))

    assert list(sheet.rows.columns) == ["row", "item", "question", "answer"]
    assert sheet.rows.item["s1"] == "Topic: tea 1 (the hidden reference)"
    assert sheet.rows.question["s1"] == "Is it about tea 1? (yes / no)"
    assert rated(tmp_path, sheet, ["yes"] * 2 + ["no"] * 3).value.tolist() == [1, 1, 0, 0, 0]
    assert sheet.guide.splitlines()[-1].startswith("Write yes / no into the last column")
    german = form(tmp_path, f"{FORM}fill: Bitte {{marks}} eintragen.\n")
    assert answers_sheet([stored(tmp_path, "m")], german).guide.endswith(
        "Bitte yes / no eintragen.\n"
    )


def test_the_config_for_label_studio_is_xml_with_the_marks_of_the_sheet(tmp_path: Path) -> None:
    odd = form(tmp_path, FORM.replace("it is not", '<i> "it" is & is not'))
    sheet = answers_sheet([stored(tmp_path, "m")], odd)

    root = ElementTree.fromstring("".join(document.form("config.xml", sheet=sheet)))
    assert [part.get("value") for part in root.iter("Text")] == ["$item", "$question", "$answer"]
    marks = [(part.get("value"), part.get("hint")) for part in root.iter("Choice")]
    assert marks == [("yes", "it is"), ("no", '<i> "it" is & is not')]
    assert root.find("Choices").get("toName") == "text3"  # type: ignore[union-attr]  # it is there


@each(
    ("old", "new", "message"),
    [
        ("{{ topic }}?", "{{ topics }}?", r"toy.yaml, question: 'topics' is undefined.*topic"),
        ("[gold]", "[golf]", r"toy.yaml: shows 'golf', which sample s\d does not have"),
        ("{% endif %}", "", "toy.yaml, item, "),
        ('"no"', '"Yes"', r"two marks of `scale` are alike \(yes, yes\)"),
    ],
)
def test_a_form_of_what_is_not_there_fails(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        answers_sheet([stored(tmp_path, "m")], form(tmp_path, FORM.replace(old, new)))


def test_equal_answers_are_rated_once_and_count_for_every_model(tmp_path: Path) -> None:
    folders = [stored(tmp_path, name, answer="So be it") for name in MODELS]
    sheet = answers_sheet(folders, None)

    found = rated(tmp_path, sheet, ["3"] * 5)

    assert {(r.sample_id, r.model, r.value) for r in found.itertuples()} == {
        (f"s{n}", name, 3.0) for n in range(1, 6) for name in MODELS
    }


def test_without_a_choice_one_variant_and_one_temperature_are_rated(tmp_path: Path) -> None:
    folder = stored(tmp_path, "m")
    rows = folder.read_rows()
    hot = [replace(row, decoding="T0.5", answer=f"hot {row.answer}") for row in rows[1:]]
    other = [replace(row, variant="cot0", answer=f"thought {row.answer}") for row in rows[1:]]
    file = folder.read()
    run = replace(file.run, variants=("cot0", "base"))
    task = structs.replace(
        file.task,
        default_variants=("base", "cot0"),
        variants={"cot0": file.task.variants["base"], **file.task.variants},
    )
    every_row = [*rows, *hot, *other]
    words = {"cot0": "", **file.variants}
    file = replace(file, run=run, task=task, variants=words, planned=len(every_row))
    folder.write(file, every_row)

    sheet = answers_sheet([folder], None)
    every = answers_sheet([folder], None, variants=["all"], decodings=["all"])

    assert sheet.key is not None
    assert {(r.variant, r.decoding, r.scale) for r in sheet.key.itertuples()} == {
        ("base", "T0.3", "base@T0.3")
    }
    assert (len(sheet.rows), len(every.rows)) == (5, 15)


def test_each_rater_gets_a_fair_share_in_an_order_of_their_own(tmp_path: Path) -> None:
    sheet = drawn(tmp_path, count=13)

    found = sheet.packets(("ann", "bob", "cyd", "dan"), each=3, size=None, seed=0)

    assert [len(rows) for _, rows in found.values()] == [18, 18, 18, 18]
    raters_of = defaultdict(set)
    for rater, rows in found.values():
        for sample in rows.index:
            raters_of[sample].add(rater)
    assert {len(raters) for raters in raters_of.values()} == {3}
    assert len({frozenset(raters) for raters in raters_of.values()}) > 2
    order = {name: [*rows.row] for name, (_, rows) in found.items()}
    shared = {*order["-ann"]} & {*order["-bob"]}
    ann, bob = ([row for row in order[name] if row in shared] for name in ("-ann", "-bob"))
    assert ann != bob
    parts = drawn(tmp_path).packets([], size=4, seed=0)
    assert {name: len(rows) for name, (_, rows) in parts.items()} == {"-1": 4, "-2": 4, "-3": 2}
    assert [*drawn(tmp_path).packets(["ann"], size=6, seed=0)] == ["-ann-1", "-ann-2"]


def shipped_sheets() -> list[str]:
    registry = Registry((shipped_home(),), {}, Path("cache"))
    names = registry.names("configs/sheets")
    return [name for name in names if registry.load("configs/sheets", name).of == "answers"]


@each("name", shipped_sheets())
def test_a_shipped_sheet_shows_every_sample_of_its_task(name: str) -> None:
    registry = Registry((shipped_home(),), {}, Path("cache"))
    spec = registry.load("configs/sheets", name)
    found = SheetForm(spec, name, registry.prompts)
    path = registry.resource(registry.load("tasks", name).data.sample)

    for sample in registry.read("samples_jsonl", [path], None):
        texts = [*sample.fields.values(), *(sample.references[n][0] for n in spec.shows)]
        shown = "".join(found.fields(sample).values())
        assert [text for text in texts if text.strip() not in shown] == []


def test_a_dialogue_is_read_in_order_with_its_stress_marked() -> None:
    registry = Registry((shipped_home(),), {}, Path("cache"))
    spec = registry.load("configs/sheets", "emphasized_talk")
    talk = {"context": "0: Shall we?\n1: If you like.", "speaker": "0", "before": "I "}

    found = SheetForm(spec, "", registry.prompts).fields(
        Sample("s", {**talk, "emphasis": "would", "after": "."})
    )

    assert found["item"] == "0: Shall we?\n1: If you like.\n0: I *would*."
    assert found["question"].endswith("(0 / 1 / 2 / 3 / 4 / 5)")
