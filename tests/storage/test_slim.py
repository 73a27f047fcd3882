"""Slim records: comparisons of runs come out the same, and texts are not held."""

from dataclasses import replace
from pathlib import Path

from support.run_tables import run_on_disk

from harness.analysis.compare import comparison_rows
from harness.analysis.pairings import PairingQuery, between
from harness.stats.estimate import BootstrapSettings
from harness.storage.runs import RunFolder, StoredRun
from harness.storage.slim import SlimRows


def kept(results: Path) -> list[RunFolder]:
    return [run_on_disk(results, name, line) for name, line in [("ant", "110"), ("bee", "01.")]]


def test_a_comparison_of_slim_runs_is_that_of_the_whole_ones(tmp_path: Path) -> None:
    slim, folders = SlimRows(), kept(tmp_path)
    settings = BootstrapSettings(draws=50)

    whole, thin = ([read(f) for f in folders] for read in (StoredRun.read, slim.run))

    made = [between(one, other, PairingQuery()) for one, other in (whole, thin)]
    rows = [comparison_rows(one.pairings, settings) for one in made]
    assert rows[0] == rows[1] != []
    assert made[0].notes == made[1].notes


def test_slim_records_hold_no_text_and_equal_samples_once(tmp_path: Path) -> None:
    folders, slim = kept(tmp_path), SlimRows()
    file, [row, *_] = folders[0].read(), folders[0].read_rows()
    told = replace(row, sample=replace(row.sample, fields={"topic": "tea " * 99}))
    other = replace(row, sample=replace(row.sample, fields={"topic": "tea " * 98}))

    first, again, third = (slim.row(file, one) for one in (told, told, other))

    assert first.sample is again.sample
    assert first.sample != third.sample
    assert (first.steps, first.answer, len(first.sample.fields["topic"])) == ((), None, 32)
    assert {name: one.value for name, one in first.verdicts.items()} == {
        name: one.value for name, one in row.verdicts.items()
    }
