"""Sheets are blind, shuffled by their seed, and their keys know every row."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from support.each import each
from support.sketches import HOSTILE, right, row, run_file

from harness.analysis import sheets
from harness.analysis.sheets import (
    Sheet,
    SheetForm,
    SheetQuery,
    key_text,
    packets,
    read_key,
    read_runs,
)
from harness.core import Sample
from harness.data.ratings import Conversion, SheetKey, Target, from_wide
from harness.errors import SpecError
from harness.registry import Registry, shipped_home
from harness.specs.schema import load_spec, read_yaml
from harness.specs.sheets import SheetSpec
from harness.storage.runs import ModelEntry, RunFolder
from harness.text.prompts import Prompts

EVERY = SheetQuery()
SECRETS = ("zebra-7b", "quokka-8b", "the hidden reference", "umpire", "base", "T0.3")


def stored(
    folder: Path, model: str, *, count: int = 6, variant: str = "base", answer: str | None = None
) -> RunFolder:
    """A run of a model, with answers, references and verdicts."""
    found = RunFolder(folder / f"{model}-{count}-{variant}")
    rows = [
        replace(
            row(right(1.0)),
            sample=Sample(f"s{n}", {"topic": f"tea {n}"}, {"gold": ("the hidden reference",)}),
            variant=variant,
            answer=f"{answer or model[:1]} {n}" if n else None,
            verdicts={"umpire": right(1.0)},
        )
        for n in range(count)
    ]
    found.write(run_file(model=ModelEntry(model, "scripted", model, None)), rows)
    return found


def drawn(folder: Path, *, seed: int = 0, limit: int | None = None) -> Sheet:
    """A sheet of two models' answers."""
    folders = [stored(folder, name) for name in ("zebra-7b", "quokka-8b")]
    return draw_sheet(folders, SheetQuery(seed=seed, limit=limit))


def draw_sheet(folders: Sequence[RunFolder], query: SheetQuery = EVERY) -> Sheet:
    """A sheet of some runs, without a form."""
    return sheets.draw_sheet(read_runs(folders), query)


def sheet_text(sheet: Sheet) -> str:
    """The sheet as one file."""
    return sheets.sheet_text(sheet, packets(sheet, size=None, seed=0)[0]).removeprefix("\ufeff")


def models(sheet: Sheet) -> list[str]:
    """The model of each row's first answer."""
    return [entry.rated[0].model for entry in sheet.entries]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_sheet_names_no_model_reference_judge_or_variant(tmp_path: Path, secret: str) -> None:
    text = sheet_text(drawn(tmp_path))

    assert secret not in text
    assert "tea 1" in text


def test_every_answer_is_there_and_missing_ones_are_counted(tmp_path: Path) -> None:
    sheet = drawn(tmp_path)

    answers = sorted(entry.answer for entry in sheet.entries)
    assert answers == sorted(f"{letter} {n}" for letter in "qz" for n in range(1, 6))
    assert sheet.unanswered == 2


def test_the_order_is_the_seeds_and_mixes_models(tmp_path: Path) -> None:
    first, again, other = (drawn(tmp_path, seed=seed) for seed in (0, 0, 1))

    assert first == again
    assert [e.answer for e in first.entries] != [e.answer for e in other.entries]
    assert models(first) != sorted(models(first))


def test_the_limit_takes_samples_with_all_models_answers(tmp_path: Path) -> None:
    sheet = drawn(tmp_path, limit=3)

    pairs = {(entry.sample_id, entry.rated[0].model) for entry in sheet.entries}
    ids = {sample for sample, _ in pairs}
    assert len(ids) in (2, 3)
    assert len(pairs) == 2 * len(ids)


def test_a_rated_sheet_comes_back_under_its_names(tmp_path: Path) -> None:
    sheet = drawn(tmp_path)
    (tmp_path / "key.csv").write_text(key_text(sheet), "utf-8")
    lines = sheet_text(sheet).replace(",rating\n", ",ann\n").splitlines()
    filled = [lines[0], *(line + str(n) for n, line in enumerate(lines[1:]))]
    (tmp_path / "sheet.csv").write_text("\n".join(filled), "utf-8")

    found = from_wide(tmp_path / "sheet.csv", Conversion(key=read_key(tmp_path / "key.csv")))

    expected = [
        (e.rated[0].task, e.sample_id, e.rated[0].model, float(n))
        for n, e in enumerate(sheet.entries)
    ]
    assert [(r.task, r.sample_id, r.model, r.value) for r in found] == expected
    assert {(r.rater, r.scale) for r in found} == {("ann", "base@T0.3")}


@pytest.mark.parametrize("answer", ["=HYPERLINK(1)", "+1", "@x", "-2", *HOSTILE[1:]])
def test_answers_are_formula_safe_in_a_sheet(tmp_path: Path, answer: str) -> None:
    folder = stored(tmp_path, "m", answer=answer)

    text = sheet_text(draw_sheet([folder]))

    assert f",{answer} 1" not in text or not answer.startswith(("=", "+", "@", "-"))


def test_ids_are_no_numbers_to_a_spreadsheet(tmp_path: Path) -> None:
    assert all(entry.id.startswith("r") for entry in drawn(tmp_path).entries)


@pytest.mark.parametrize("name", ["row", "answer", "rating"])
def test_a_field_never_passes_for_a_column_of_the_sheet(tmp_path: Path, name: str) -> None:
    folder = stored(tmp_path, "m")
    rows = [replace(r, sample=Sample(r.sample.id, {name: "field"})) for r in folder.read_rows()]
    folder.write(folder.read(), rows)

    text = sheet_text(draw_sheet([folder]))

    assert text.splitlines()[0] == f"row,{name}_,answer,rating"


def test_two_runs_with_one_models_answers_are_refused(tmp_path: Path) -> None:
    folders = [stored(tmp_path, "m"), stored(tmp_path, "m", count=3)]

    with pytest.raises(SpecError, match="2 of these runs hold an answer by m to sample s1"):
        draw_sheet(folders)


def test_an_unknown_variant_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no variant 'bas'; did you mean base"):
        draw_sheet([stored(tmp_path, "m")], SheetQuery(("bas",)))


def test_runs_without_answers_make_no_sheet(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no answer to rate"):
        draw_sheet([stored(tmp_path, "m", count=1)])


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
    """A task's form of a sheet."""
    (folder / "toy.yaml").write_text(text, "utf-8")
    spec = load_spec(read_yaml(folder / "toy.yaml"), SheetSpec, where="toy.yaml")
    return SheetForm(spec, "toy.yaml", Prompts([folder]))


def test_a_form_shows_the_item_as_people_read_it_and_the_question(tmp_path: Path) -> None:
    sheet = sheets.draw_sheet(read_runs([stored(tmp_path, "m")]), EVERY, form(tmp_path))

    [row] = [row for row in sheets.shown(sheet, sheet.entries) if row["answer"] == "m 1"]
    assert list(row) == ["row", "item", "question", "answer"]
    assert row["item"] == "Topic: tea 1 (the hidden reference)"
    assert row["question"] == "Is it about tea 1? (yes or no)"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{{ topic }}?", "{{ topics }}?", r"toy.yaml, question: 'topics' is undefined.*topic"),
        ("[gold]", "[golf]", r"toy.yaml: shows 'golf', which sample s\d does not have"),
        ("{% endif %}", "", "toy.yaml, item: "),
    ],
)
def test_a_form_that_asks_for_what_is_not_there_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    wrong = form(tmp_path, FORM.replace(old, new))

    with pytest.raises(SpecError, match=message):
        sheets.draw_sheet(read_runs([stored(tmp_path, "m")]), EVERY, wrong)


def test_two_marks_that_raters_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"two marks of `scale` are alike \(yes, yes\)"):
        form(tmp_path, FORM.replace('"no"', '"Yes"'))


def test_equal_answers_are_rated_once_and_count_for_every_model(tmp_path: Path) -> None:
    folders = [stored(tmp_path, name, answer="So be it") for name in ("zebra-7b", "quokka-8b")]
    sheet = draw_sheet(folders)
    (tmp_path / "key.csv").write_text(key_text(sheet), "utf-8")
    lines = sheet_text(sheet).splitlines()
    (tmp_path / "ann.csv").write_text("\n".join([lines[0], *(f"{x}3" for x in lines[1:])]), "utf-8")

    found = from_wide(tmp_path / "ann.csv", Conversion(key=read_key(tmp_path / "key.csv")))

    assert (len(sheet.entries), sheet.answers) == (5, 10)
    assert {(r.sample_id, r.model, r.rater, r.value) for r in found} == {
        (f"s{n}", name, "ann", 3.0) for n in range(1, 6) for name in ("zebra-7b", "quokka-8b")
    }


@pytest.mark.parametrize("rows", [1, 4, 5, 10, 99])
def test_rows_are_those_of_the_first_samples_with_all_models(tmp_path: Path, rows: int) -> None:
    folders = [stored(tmp_path, name) for name in ("zebra-7b", "quokka-8b")]

    sheet = draw_sheet(folders, SheetQuery(rows=rows))

    samples = Counter(entry.sample_id for entry in sheet.entries)
    assert len(sheet.entries) == min(rows, 10)
    assert sorted(samples.values(), reverse=True)[: rows // 2] == [2] * min(rows // 2, 5)


def test_without_a_choice_one_variant_and_one_temperature_are_rated(tmp_path: Path) -> None:
    folder = stored(tmp_path, "m")
    rows = folder.read_rows()
    hot = [replace(row, decoding="T0.5", answer=f"hot {row.answer}") for row in rows[1:]]
    other = [replace(row, variant="cot0", answer=f"thought {row.answer}") for row in rows[1:]]
    file = folder.read()
    run = replace(file.run, variants=("cot0", "base"))
    task = structs.replace(file.task, default_variants=("base", "cot0"))
    folder.write(replace(file, run=run, task=task), [*rows, *hot, *other])

    sheet, every = draw_sheet([folder]), draw_sheet([folder], SheetQuery(("all",), ("all",)))

    assert (sheet.variants, sheet.decodings, len(sheet.entries)) == (("base",), ("T0.3",), 5)
    assert len(every.entries) == 15


def test_each_rater_gets_a_fair_share_in_an_order_of_their_own(tmp_path: Path) -> None:
    folders = [stored(tmp_path, name, count=13) for name in ("zebra-7b", "quokka-8b")]
    sheet = draw_sheet(folders)

    found = packets(sheet, raters=("ann", "bob", "cyd", "dan"), each=3, size=None, seed=0)

    assert [len(packet.entries) for packet in found] == [18, 18, 18, 18]
    raters_of = defaultdict(set)
    for packet in found:
        for entry in packet.entries:
            raters_of[entry.sample_id].add(packet.rater)
    assert {len(raters) for raters in raters_of.values()} == {3}
    assert len({frozenset(raters) for raters in raters_of.values()}) > 2
    order = [entry.id for entry in sheet.entries]
    assert all([entry.id for entry in packet.entries] != order for packet in found)


def test_a_sheet_is_dealt_out_in_files_of_so_many_rows(tmp_path: Path) -> None:
    sheet = drawn(tmp_path)

    found = packets(sheet, size=4, seed=0)

    assert [(packet.ending, len(packet.entries)) for packet in found] == [
        ("-1", 4),
        ("-2", 4),
        ("-3", 2),
    ]
    assert [packet.ending for packet in packets(sheet, raters=["ann"], size=6, seed=0)] == [
        "-ann-1",
        "-ann-2",
    ]


def test_keys_of_earlier_versions_are_read(tmp_path: Path) -> None:
    (tmp_path / "key.csv").write_text(
        "row,task,sample_id,model,variant,decoding,scale\nr1,toy,s1,ant,base,T0,base\n", "utf-8"
    )

    key = read_key(tmp_path / "key.csv")

    assert key == SheetKey({"r1": (Target("toy", "s1", "ant", "base"),)}, {})


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

    shown = [(s, found.fields(s)) for s in registry.read("samples_jsonl", [path], None)]

    for sample, fields in shown:
        texts = [*sample.fields.values(), *(sample.references[n][0] for n in spec.shows)]
        lost = [text for text in texts if text.strip() not in "".join(fields.values())]
        assert lost == []
    assert all(mark in found.guide() for mark in found.marks)


def test_a_dialogue_is_read_in_order_with_its_stress_marked() -> None:
    registry = Registry((shipped_home(),), {}, Path("cache"))
    spec = registry.load("configs/sheets", "emphasized_talk")
    talk = {
        "context": "0: Shall we?\n1: If you like.",
        "speaker": "0",
        "before": "I ",
        "after": ".",
    }

    found = SheetForm(spec, "", registry.prompts).fields(Sample("s", {**talk, "emphasis": "would"}))

    assert found["item"] == "0: Shall we?\n1: If you like.\n0: I *would*."
    assert found["question"].endswith("(0, 1, 2, 3, 4 or 5)")
