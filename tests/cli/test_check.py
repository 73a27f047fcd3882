"""`harness check`: shipped judges keep the contract, and each broken rule is reported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from support.each import each, rest_slow
from support.toy import Lines, Toy

from harness.cli import main
from harness.core import Case, Request, Response, Sample, Verdict
from harness.models.scripted import ScriptedModel
from harness.parts import Decoding, Message, Mode
from harness.pipeline.conformance import Findings, check_judge, check_model

OFFLINE = (
    *("gold", "minilm-bertscore", "minilm-contrast", "minilm-cosine", "minilm-cosine-intentions"),
    *("minilm-cosine-turns", "minilm-inferred-intention", "ngram-cosine", "stated-rating"),
    "stated-rating-released",
)
ASKING = ("gpt4-contextual", "gpt4-contextual-single", "gpt4-score", "gpt4-score-gt")


NETWORKS = [name for name in OFFLINE if name.startswith("minilm-")]
OTHERS = [name for name in (*OFFLINE, *ASKING, "openai-cosine") if name not in NETWORKS]


@pytest.mark.parametrize("name", [*OTHERS, *rest_slow(NETWORKS, kept=0)])
def test_a_shipped_judge_keeps_the_contract(name: str, capsys: Lines) -> None:
    code = main(["check", "judge", name])
    shown = capsys.readouterr()
    assert (code, "FAILED" in shown.out) == (0, False), shown.out + shown.err


@pytest.mark.slow
def test_a_local_model_keeps_the_contract(capsys: Lines) -> None:
    assert main(["check", "model", "tiny-random"]) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_a_hosted_model_is_asked_with_yes_alone(toy: Toy, capsys: Lines) -> None:
    assert main(["check", "model", "alpha", "--home", str(toy.home)]) == 0
    assert "not asked: it would call http://127.0.0.1:9/v1; add --yes" in capsys.readouterr().out


@dataclass
class Odd:
    """A judge of one question, with a fault where one is wanted."""

    name: str = "odd"
    metric: str = "accuracy"
    recipe: str = "odd:1|way"
    model: str | None = "m"
    reads: Callable[[list[Verdict]], list[Verdict]] = list
    built: list[int] = field(default_factory=list)

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        self.built.append(1)
        step = f"{len(self.built)}" if self.metric == "restless" else "step"
        message = (Message("user", "Is it?"),)
        return (Request(sample.id, "odd", step, self.model or "", message, Decoding()),)

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        return self.reads([Verdict(case.response.key, "odd", 1.0) for case in cases])


SAMPLES = (Sample("a", {"text": "t"}), Sample("b", {"text": "u"}))


def problems(found: Findings) -> list[str]:
    return [f"{rule}: {problem}" for rule, problem in found.items() if problem]


@each(
    ("judge", "facts"),
    [
        (Odd(name="other"), ["is called 'odd', then 'other'"]),
        (Odd(metric="two words"), ["its metric is 'two words'"]),
        (Odd(recipe="odd"), ["write name:digest|way"]),
        (Odd(metric="restless"), ["asks [("]),
        (Odd(model="other"), ["asks models {'other'}, and its own is 'm'"]),
        (Odd(reads=lambda verdicts: verdicts[1:]), ["is to give [('odd', 'a:0')"]),
        (Odd(reads=lambda verdicts: verdicts[::-1]), ["then [('odd', 'b:7')"]),
        (
            Odd(reads=lambda verdicts: [replace(part, judge="me") for part in verdicts]),
            ["then [('me', 'a:0')"],
        ),
        (Odd(reads=lambda verdicts: verdicts[: int(1 / 0)]), ["ZeroDivisionError"]),
    ],
)
def test_a_broken_rule_is_reported(judge: Odd, facts: Sequence[str]) -> None:
    found = problems(check_judge(lambda: judge, "odd", SAMPLES, model="m"))
    assert [fact for fact in facts if not any(fact in line for line in found)] == []


def test_a_judge_that_gives_lost_replies_a_value_is_reported() -> None:
    found = problems(check_judge(Odd, "odd", SAMPLES, model="m"))
    assert found == ["gives lost replies of its model a reason: it gives them the value [1.0]"]


@each(
    ("reply", "modes", "fact"),
    [
        (lambda asked: Response(asked.key, ("a",)), {Mode.GENERATE}, "1 answers of 2"),
        (lambda asked: Response("other", ("a",)), {Mode.GENERATE}, "keys of other requests"),
        (lambda asked: Response(asked.key, ("a",)), {Mode.EMBED}, "it gives 0 answers of 1"),
        (lambda asked: Response(asked.key, ("a",)), {Mode.CHOOSE}, "0 answers of 2"),
        (lambda asked: 1 / 0, {Mode.GENERATE}, "ZeroDivisionError"),
        (lambda asked: Response(asked.key, ("a",)), set(), "its modes are frozenset()"),
    ],
)
def test_a_bad_model_is_told(
    reply: Callable[[Request], Response], modes: set[Mode], fact: str
) -> None:
    model = ScriptedModel("m", reply, modes=frozenset(modes))
    found = problems(check_model(lambda: model, "m", place=("a", "base", "step"), may_ask=True))
    assert any(fact in line for line in found), found
