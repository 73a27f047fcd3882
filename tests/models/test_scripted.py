"""The controls: they answer from the task's own samples, and the same everywhere."""

from collections import Counter
from dataclasses import replace

import pytest
from support.each import each

from harness.core import Request, Sample
from harness.errors import SpecError
from harness.models.scripted import ScriptedModel, control
from harness.parts import Decoding, Message

SAMPLES = tuple(
    Sample(
        f"s{n}",
        {"utterance": f"Utterance {n}."},
        {"meant": (f"Meant {n}.", f"Meant otherwise {n}."), "said": (f"Said {n}.",)},
    )
    for n in range(200)
)
SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "oracle": {"think": ("meant",), "response": ("meant",)},
    "echo": {"think": ("utterance",), "response": ("utterance",)},
    "random": {"think": ("meant", "said"), "response": ("meant", "said")},
    "empty": {"response": ()},
    "wrong": {"response": ("meaning",)},
}
ASKED = Request("s3", "base", "response", "m@1", (Message("user", "?"),), Decoding(0.3, 30, seed=1))


def model(policy: str, samples: tuple[Sample, ...] = SAMPLES) -> ScriptedModel:
    return control("a-control", policy, sources=SOURCES, samples=samples)


def said(policy: str, asked: Request) -> str:
    [response] = model(policy).answer([asked])
    assert response.texts is not None
    return response.texts[0]


@pytest.mark.parametrize(
    ("policy", "step", "expected"),
    [
        ("oracle", "think", "Meant 3."),
        ("oracle", "response", "Meant 3."),
        ("echo", "response", "Utterance 3."),
    ],
)
def test_a_control_answers_with_what_its_task_names(policy: str, step: str, expected: str) -> None:
    assert said(policy, replace(ASKED, step=step)) == expected


def test_a_draw_is_the_same_in_any_order_and_company() -> None:
    asked = [replace(ASKED, sample_id=sample.id) for sample in SAMPLES]
    together = [response.texts for response in model("random").answer(reversed(asked))]
    assert [(said("random", request),) for request in reversed(asked)] == together


def test_draws_are_even_over_samples_and_over_seeds() -> None:
    over_samples = [replace(ASKED, sample_id=sample.id) for sample in SAMPLES]
    over_seeds = [replace(ASKED, decoding=Decoding(0.3, 30, seed=n)) for n in range(200)]

    for asked in (over_samples, over_seeds):
        drawn = Counter(said("random", request).split()[0] for request in asked)
        # 200 fair coins: 80 to 120 but for 1 set of draws in 200.
        assert 80 <= drawn["Meant"] <= 120


def test_the_identity_of_a_control_covers_what_it_answers_from() -> None:
    corrected = (replace(SAMPLES[0], references={"meant": ("M.",), "said": ("S.",)}), *SAMPLES[1:])

    identities = [model("oracle"), model("oracle", corrected), model("echo"), model("oracle")]

    assert len({part.identity for part in identities}) == 3
    assert identities[0].identity == identities[3].identity
    assert identities[0].identity.startswith("scripted:oracle@")
    assert (identities[0].revision or "-") in identities[0].identity


@pytest.mark.parametrize(
    ("policy", "step", "words"),
    [
        ("orcale", "response", "'orcale' is not defined by this task's `controls`; .* oracle\\?"),
        ("blind", "response", "control 'blind' is not defined"),
        ("oracle", "thnik", "nothing for step 'thnik' of variant base; .*; did you mean think"),
        ("empty", "response", "control 'empty' has nothing for step 'response'"),
        ("wrong", "response", "sample s3 has no field or reference 'meaning'.*; did you mean mean"),
    ],
)
def test_what_a_control_lacks_is_the_task_s_mistake(policy: str, step: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        said(policy, replace(ASKED, step=step))


TURN = {"before": "He said ", "emphasis": "two", "after": "."}
DIALOGUE = (
    Sample("b", TURN, {"meant": ("Two is too many.",)}, cluster="one"),
    Sample("a", {**TURN, "after": "!"}, {"meant": ("He said it, not she.",)}, cluster="one"),
    Sample("c", TURN, {"meant": ("Two, not three.",)}, cluster="other"),
)
JOINED: dict[str, dict[str, tuple[str, ...]]] = {
    "echo": {"response": ("before+emphasis+after",)},
    "blind": {"response": ("cluster:meant",)},
    "blind echo": {"response": ("cluster:before+emphasis+after",)},
    "wrong": {"response": ("before+emphases",)},
    "wrong first": {"response": ("cluster:mean",)},
}


@each(
    ("policy", "expected"),
    [
        ("echo", ["He said two.", "He said two!", "He said two."]),
        ("blind", ["He said it, not she.", "He said it, not she.", "Two, not three."]),
        ("blind echo", ["He said two!", "He said two!", "He said two."]),
    ],
)
@each("order", [1, -1])
def test_a_control_may_join_fields_and_may_be_blind_within_a_cluster(
    policy: str, expected: list[str], order: int
) -> None:
    made = control("a-control", policy, sources=JOINED, samples=DIALOGUE[::order])
    responses = made.answer([replace(ASKED, sample_id=sample.id) for sample in DIALOGUE])
    assert [response.texts for response in responses] == [(text,) for text in expected]
