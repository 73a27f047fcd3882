"""A judge made to read each answer under another sample of its cluster."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from support import jobs as run
from support.each import each
from support.toy import Toy

from harness.core import Case, Judge, Request, Response, Sample, Verdict
from harness.errors import SpecError
from harness.judges.custom import Swapped, partners
from harness.parts import Decoding, Message, Reason
from harness.pipeline.resolve import RunOptions
from harness.storage.runs import RunFolder


@dataclass(frozen=True)
class Echoing:
    """A judge that asks for the meaning it was handed and notes it; right where the text is it."""

    name: str = "echoing"
    metric: str = "mean_rating"
    recipe: str = "echoing:00aa|by-ear"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        said = (Message("user", _meaning(sample)),)
        return (Request(sample.id, "base", "judge", "j@1", said, Decoding()),)

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        return [
            Verdict(
                case.response.key,
                self.name,
                float(case.response.texts == (_meaning(case.sample),)),
                note=_meaning(case.sample),
            )
            for case in cases
        ]


def _meaning(sample: Sample) -> str:
    return sample.references["meant"][0]


def stressed(name: str, meaning: str = "", *, cluster: str = "one", turn: str = "") -> Sample:
    """A sample of a dialogue, by default with a turn and a meaning of its own."""
    return Sample(name, {"turn": turn or name}, {"meant": (meaning or name,)}, cluster=cluster)


def judge(*samples: Sample) -> Judge:
    return Swapped(Echoing(), partners(samples))


def cases(*samples: Sample) -> list[Case]:
    """An answer to each sample that says what it means."""
    return [Case(part, Response(f"key-{part.id}", texts=(_meaning(part),))) for part in samples]


@each(
    ("samples", "expected"),
    [
        ([stressed("b"), stressed("a")], {"a": "b", "b": "a"}),
        ([stressed("c"), stressed("b"), stressed("a")], {"a": "b", "b": "c", "c": "a"}),
        ([stressed("a"), stressed("b", cluster="two")], {}),
        ([stressed("a"), stressed("a")], {}),
        (
            [stressed("a", "same"), stressed("b", "Same "), stressed("c")],
            {"a": "c", "b": "c", "c": "a"},
        ),
        ([stressed("a", "same"), stressed("b", "same")], {}),
        (
            [stressed("a", turn="t"), stressed("b", turn="t"), stressed("c")],
            {"a": "c", "b": "c", "c": "a"},
        ),
        ([], {}),
    ],
)
def test_the_partner_is_the_next_of_the_cluster_that_differs(
    samples: list[Sample], expected: dict[str, str]
) -> None:
    assert {name: part.id for name, part in partners(samples).items()} == expected


def test_each_answer_is_read_under_the_partner_and_without_one_there_is_no_verdict() -> None:
    a, alone, b = stressed("a"), stressed("x", cluster="two"), stressed("b")

    swapped = judge(a, alone, b)

    verdicts = swapped.read(cases(a, alone, b))

    assert [(v.response_key, v.value, v.reason) for v in verdicts] == [
        ("key-a", 0.0, None),
        ("key-x", None, Reason.UNSUPPORTED),
        ("key-b", 0.0, None),
    ]
    notes = ["b", "no other sample of its cluster to swap it with", "a"]
    assert [v.note for v in verdicts] == notes
    assert {swapped.name, *(v.judge for v in verdicts)} == {"echoing:swapped"}
    assert (swapped.recipe, swapped.metric) == ("echoing:swapped:00aa|by-ear", "mean_rating")


OPTIONS = RunOptions("toy", "oracle", judges=("near", "near:swapped"), variants=("base",))


@pytest.fixture
def paired(toy: Toy) -> Toy:
    """The toy home, its samples two and two in a cluster, the last one alone."""
    path = toy.home / "tasks/samples/toy.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows = [row | {"cluster": f"d{place // 2}"} for place, row in enumerate(rows[:5])]
    for row in rows:  # what is right for one is wrong for the other
        row["references"]["wrong"] = [f"never {row['references']['right'][0]}"]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return toy


def values(folder: RunFolder, judge: str) -> list[float | Reason | None]:
    verdicts = [row.verdicts[judge] for row in folder.read_rows() if row.decoding == "T0"]
    return [v.reason if v.value is None else v.value for v in verdicts]


def test_any_judge_is_swapped_by_its_name(paired: Toy) -> None:
    done = run.run(paired.space(), OPTIONS)

    assert values(done.folder, "near") == [1.0] * 5
    assert values(done.folder, "near:swapped")[4] is Reason.UNSUPPORTED
    assert [entry.name for entry in done.file.judges] == ["near", "near:swapped"]
    recipes = {row.signature.split("|")[5].rpartition(":")[0] for row in done.scores}
    assert recipes == {"near", "near:swapped"}


def test_a_stored_run_is_judged_and_read_again_swapped(paired: Toy) -> None:
    folder = run.run(paired.space(), replace(OPTIONS, judges=("near",))).folder

    run.judge(paired.space(), folder, ["near:swapped"])
    found = run.read(paired.space(), folder)

    assert (found.changes, found.altered) == ((), ())
    assert values(folder, "near:swapped")[4] is Reason.UNSUPPORTED


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ("near:swapped", "judge near:swapped: no two of these 6 samples are in one cluster"),
        ("nera:swapped", "no judge 'nera' in .*; did you mean near"),
        ("near:swapped:swapped", "no judge 'near:swapped' in "),
        ("near:swap", "no judge 'near:swap' in .*did you mean near"),
    ],
)
def test_what_cannot_be_swapped_is_refused_before_anything_is_asked(
    toy: Toy, judge: str, words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        run.run(toy.space(), replace(OPTIONS, judges=(judge,)))

    assert not toy.results.exists()
