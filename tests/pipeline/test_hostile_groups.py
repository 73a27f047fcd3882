"""Groups that the data calls as totals are called keep a row of their own."""

from support.each import each
from support.run_tables import score_rows
from support.sketches import right, row, run_file

from harness.pipeline.verdict_frame import ALL, named_groups
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import ScoreRow


def judged(*groups: str) -> list[SampleRecord]:
    """A sample of each group; all of the first one are right."""
    return [row(right(float(g == groups[0])), f"s{n}", group=g) for n, g in enumerate(groups)]


def by_group(rows: list[SampleRecord]) -> dict[str, tuple[float | None, int]]:
    found: list[ScoreRow] = score_rows(run_file(len(rows)), rows)
    return {one.score.group: (one.score.value, one.score.n) for one in found}


def test_a_group_called_all_has_a_row_beside_the_total() -> None:
    assert by_group(judged("all", "irony", "all", "irony")) == {
        "all": (0.5, 4),
        "all (a group)": (1.0, 2),
        "irony": (0.0, 2),
    }


def test_samples_without_groups_have_the_total_alone() -> None:
    assert by_group(judged("all", "all")) == {"all": (1.0, 2)}


@each(
    "groups",
    [("all", "all (a group)"), ("all", "all (a group)", "all (a group) (a group)"), ("a", "all")],
)
def test_no_two_groups_share_a_name(groups: tuple[str, ...]) -> None:
    names = named_groups(groups)

    assert sorted(filter(None, names.values())) == sorted(groups)
    assert len(names) == len(groups) + 1
    assert names[ALL] is None
