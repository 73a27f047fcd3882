"""The task topical_chat: its own samples and words, and the numbers of the released replies.

The expected correlations are those of Chiang and Lee (2023), computed again by the release's own
script with unreadable replies left out.
"""

import csv
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.each import each
from support.packages import DATA, needs_data

from harness.core import Sample
from harness.data.readers import samples_jsonl
from harness.importers.import_files import Imported, import_answers
from harness.models.client.cached import CallPolicy
from harness.parts import Reason
from harness.registry import Registry, shipped_home
from harness.specs.judges import StatedSpec
from harness.stats.correlation import dataset_pearson, document_tau
from harness.stats.estimate import Floats
from harness.text.prompts import Prompts
from harness.workspace import Workspace

HOME = shipped_home()
TASK = Registry((HOME,), {}, HOME).load("tasks", "topical_chat")
SAMPLES = samples_jsonl.read([HOME / "tasks" / TASK.data.sample], None)
CELLS = [
    ("geval", "naturalness", 358, 0.393, 0.358),
    ("geval", "coherence", 359, 0.468, 0.391),
    ("llm_eval_no_cot", "naturalness", 359, 0.464, 0.476),
    ("llm_eval_no_cot", "coherence", 356, 0.524, 0.426),
    ("analyze_rate", "naturalness", 360, 0.524, 0.470),
    ("analyze_rate", "coherence", 360, 0.477, 0.416),
]


def space(folder: Path, data: Path | None) -> Workspace:
    registry = Registry((shipped_home(),), {}, folder / "cache")
    return Workspace(
        registry,
        folder / "results",
        data,
        "corrected",
        lambda *_: None,
        CallPolicy(is_offline=True),
    )


def ends(judge: str, variant: str) -> tuple[int, int]:
    spec = Registry((HOME,), {}, HOME).load("configs/judges", judge)
    assert isinstance(spec, StatedSpec)
    scale = spec.scales.get(variant, spec.scale)
    return scale.low, scale.high


def words(variant: str, sample: Sample) -> str:
    prompts, spec = Prompts([HOME / "prompts"]), TASK.variants[variant]
    criterion = prompts.text(f"{spec.slots['criterion']}.j2", sample.fields)
    slots = {**sample.fields, "criterion": criterion}
    return prompts.render(spec.steps[0].template, slots)[0].content


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Imported]:
    folder, data = tmp_path_factory.mktemp("released"), Path(DATA or "")
    found = {}
    for way in dict.fromkeys(cell[0] for cell in CELLS):
        names = [f"gpt3.5_{part}_{way}.json" for part in ("nat", "coh")]
        files = tuple(data / "topical_chat" / "results" / name for name in names)
        model = f"gpt-3.5-{way}"
        found[way] = import_answers(space(folder, data), files, "topical_chat", model)
    return found


def tables(found: Imported, variant: str, judge: str) -> tuple[Floats, Floats]:
    """People's and a judge's values, conversations by systems."""
    assert found.ratings is not None
    with found.ratings.open(encoding="utf-8") as file:
        people = {(r["sample_id"], r["scale"]): float(r["value"]) for r in csv.DictReader(file)}
    rows = [row for row in found.done.folder.read_rows() if row.variant == variant]
    clusters = {row.sample.cluster: n for n, row in enumerate(rows[::6])}
    both = np.full((2, 60, 6), np.nan)
    systems = sorted({row.sample.group for row in rows})
    for row in rows:
        place = clusters[row.sample.cluster], systems.index(row.sample.group)
        both[0][place] = people[row.sample.id, variant]
        value = row.verdicts[judge].value
        both[1][place] = np.nan if value is None else value
    return both[0], both[1]


def test_our_own_set_is_three_conversations_by_four_systems() -> None:
    assert Counter((s.cluster, s.group) for s in SAMPLES).most_common(1)[0][1] == 1
    assert (len(SAMPLES), len({s.cluster for s in SAMPLES})) == (12, 3)
    assert len({s.group for s in SAMPLES}) == 4
    assert len({s.fields["conversation"] for s in SAMPLES}) == 3


@each("judge", TASK.judges)
@each("variant", TASK.variants)
def test_people_and_judges_rate_on_one_scale(variant: str, judge: str) -> None:
    low, high = ends(judge, variant)

    rated = [float(sample.references[variant][0]) for sample in SAMPLES]
    assert all(low <= value <= high for value in rated)
    assert len(set(rated)) > 1
    asked = words(variant, SAMPLES[0]).split("Rate")[-1]
    assert [int(d) for d in re.findall(r"\d", asked)] in ([low, high], [*range(low, high + 1)])


def test_every_variant_asks_about_its_own_attribute() -> None:
    asked = {words(variant, SAMPLES[0]) for variant in TASK.variants}
    assert len(asked) == len(TASK.variants) == len(TASK.rated)
    assert all(SAMPLES[0].fields["reply"] in text for text in asked)


def test_no_prompt_shows_what_people_gave() -> None:
    assert not any(variant.reveals for variant in TASK.variants.values())


def test_agreement_takes_conversations_for_documents_and_groups_for_systems() -> None:
    assert (TASK.document, TASK.system) == ("cluster", "group")


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(("way", "variant", "n", "pearson", "tau"), CELLS)
@pytest.mark.parametrize(
    ("judge", "within"), [("stated-rating-released", 0.0005), ("stated-rating", 0.004)]
)
def test_the_released_replies_give_the_published_cells(
    imported: dict[str, Imported],
    *,
    way: str,
    variant: str,
    n: int,
    pearson: float,
    tau: float,
    judge: str,
    within: float,
) -> None:
    people, verdicts = tables(imported[way], variant, judge)

    assert int((~np.isnan(verdicts)).sum()) == n
    assert dataset_pearson(people, verdicts).value == pytest.approx(pearson, abs=within)
    assert document_tau(people, verdicts).value == pytest.approx(tau, abs=within)


@needs_data
def test_the_released_files_miss_eight_replies(imported: dict[str, Imported]) -> None:
    gaps = [gap for found in imported.values() for gap in found.done.file.missing or ()]

    assert {(gap.judge, gap.is_reply, gap.reason) for gap in gaps} == {("", False, Reason.FAILED)}
    assert sum(gap.count for gap in gaps) == 8
    assert [found.counts["found"].sum() for found in imported.values()] == [717, 715, 720]
