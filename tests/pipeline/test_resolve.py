"""A model and a judge given as objects take the place of names, with the same records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from support.jobs import judge, run
from support.toy import DECODINGS, SAMPLES, Toy

from harness.core import Case, Request, Response, Sample, Verdict
from harness.errors import SpecError
from harness.models.scripted import ScriptedModel
from harness.parts import Decoding, Message
from harness.pipeline.resolve import RunOptions


def reply(asked: Request) -> Response:
    return Response(asked.key, texts=("right",))


@dataclass
class Exact:
    """A judge that wants an answer to be just this text, or the reference of this name."""

    wanted: str = "right"
    name: str = "exact"
    metric: str = "accuracy"
    recipe: str = "exact:0011aabb|equal"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """No question."""
        return ()

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """1 where the answer is the text wanted."""
        return [Verdict(c.response.key, self.name, self._value(c)) for c in cases]

    def _value(self, case: Case) -> float:
        wanted = {self.wanted, *case.sample.references.get(self.wanted, ())}
        return float(wanted.issuperset(case.response.texts or ()))


class Asking(Exact):
    """A judge that has questions, and no model to put them to."""

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """One question."""
        words = (Message("user", "Is it?"),)
        return (Request(sample.id, "exact", "q", "m@1", words, Decoding()),)


MINE = ScriptedModel("mine", reply, identity="mine@1")
OPTIONS = RunOptions("toy", MINE, judges=("near", Exact()), variants=("base",))


def test_an_object_answers_and_judges_beside_named_judges(toy: Toy) -> None:
    done = run(toy.space(), OPTIONS)

    overall = [row for row in done.scores if row.score.group == "all"]
    assert {row.score.value for row in overall if row.score.judge == "exact"} == {1.0}
    for name in ("near", "exact"):
        assert max(r.score.n for r in overall if r.score.judge == name) == SAMPLES * DECODINGS
    assert done.folder.path.parent.name == "mine"
    assert {row.parsed.judge for row in overall if row.score.judge == "exact"} == {"exact:0011aabb"}
    assert {(row.parsed.model, row.parsed.kind) for row in overall} == {("mine", "scripted")}


def test_what_an_object_answered_is_stored_and_not_asked_again(toy: Toy) -> None:
    heard: list[Request] = []

    def say(asked: Request) -> Response:
        heard.append(asked)
        return reply(asked)

    options = replace(OPTIONS, model=ScriptedModel("mine", say, identity="mine@1"))
    first = run(toy.space(), options)
    count = len(heard)

    assert run(toy.space(), options).scores == first.scores
    assert len(heard) == count > 0


def test_an_object_reads_a_stored_run(toy: Toy) -> None:
    stored = run(toy.space(), replace(OPTIONS, model="literal", judges=("near",)))
    done = judge(toy.space(), stored.folder, [Exact("wrong")])

    assert [entry.name for entry in done.file.judges] == ["exact", "near"]
    assert {r.score.value for r in done.scores if r.score.judge == "exact"} == {1.0}


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"model": ScriptedModel("../mine", reply)}, "give it a name of letters"),
        ({"judges": (Exact(recipe="exact"),)}, r"write it as name:digest\|way"),
        ({"judges": (Asking(),)}, "judge exact asks a model"),
    ],
)
def test_an_object_that_cannot_serve_is_refused(
    toy: Toy, changes: dict[str, object], fact: str
) -> None:
    with pytest.raises(SpecError, match=fact):
        run(toy.space(), replace(OPTIONS, **changes))  # type: ignore[arg-type]  # checked there
