"""Sheets are blind, shuffled by their seed, and their keys know every row."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.sketches import HOSTILE, right, row, run_file

from harness.analysis.panels import Sheet, draw_sheet, key_text, read_key, sheet_text
from harness.core import Sample
from harness.data.ratings import Conversion, from_wide
from harness.errors import SpecError
from harness.storage.runs import ModelEntry, RunFolder

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
    return draw_sheet(folders, variants=(), seed=seed, limit=limit)


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
    assert [e.model for e in first.entries] != sorted(e.model for e in first.entries)


def test_the_limit_takes_samples_with_all_models_answers(tmp_path: Path) -> None:
    sheet = drawn(tmp_path, limit=3)

    pairs = {(entry.sample_id, entry.model) for entry in sheet.entries}
    ids = {sample for sample, _ in pairs}
    assert len(ids) in (2, 3)
    assert len(pairs) == 2 * len(ids)


def test_a_rated_sheet_comes_back_under_its_names(tmp_path: Path) -> None:
    sheet = drawn(tmp_path)
    (tmp_path / "key.csv").write_text(key_text(sheet), "utf-8")
    lines = sheet_text(sheet).replace(",rating\n", ",ann\n").splitlines()
    filled = [lines[0], *(line + str(n) for n, line in enumerate(lines[1:]))]
    (tmp_path / "sheet.csv").write_text("\n".join(filled), "utf-8")

    found = from_wide(tmp_path / "sheet.csv", Conversion(keys=read_key(tmp_path / "key.csv")))

    expected = [(e.task, e.sample_id, e.model, float(n)) for n, e in enumerate(sheet.entries)]
    assert [(r.task, r.sample_id, r.model, r.value) for r in found] == expected
    assert {(r.rater, r.scale) for r in found} == {("ann", "base@T0.3")}


@pytest.mark.parametrize("answer", ["=HYPERLINK(1)", "+1", "@x", "-2", *HOSTILE[1:]])
def test_answers_are_formula_safe_in_a_sheet(tmp_path: Path, answer: str) -> None:
    folder = stored(tmp_path, "m", answer=answer)

    text = sheet_text(draw_sheet([folder], variants=(), seed=0, limit=None))

    assert f",{answer} 1" not in text or not answer.startswith(("=", "+", "@", "-"))


def test_ids_are_no_numbers_to_a_spreadsheet(tmp_path: Path) -> None:
    assert all(entry.id.startswith("r") for entry in drawn(tmp_path).entries)


@pytest.mark.parametrize("name", ["row", "answer", "rating"])
def test_a_field_never_passes_for_a_column_of_the_sheet(tmp_path: Path, name: str) -> None:
    folder = stored(tmp_path, "m")
    rows = [replace(r, sample=Sample(r.sample.id, {name: "field"})) for r in folder.read_rows()]
    folder.write(folder.read(), rows)

    text = sheet_text(draw_sheet([folder], variants=(), seed=0, limit=None))

    assert text.splitlines()[0] == f"row,{name}_,answer,rating"


def test_two_runs_with_one_models_answers_are_refused(tmp_path: Path) -> None:
    folders = [stored(tmp_path, "m"), stored(tmp_path, "m", count=3)]

    with pytest.raises(SpecError, match="2 of these runs hold an answer by m to sample s1"):
        draw_sheet(folders, variants=(), seed=0, limit=None)


def test_an_unknown_variant_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no variant 'bas'; did you mean base"):
        draw_sheet([stored(tmp_path, "m")], variants=("bas",), seed=0, limit=None)


def test_runs_without_answers_make_no_sheet(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no answer to rate"):
        draw_sheet([stored(tmp_path, "m", count=1)], variants=(), seed=0, limit=None)
