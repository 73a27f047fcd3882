"""The controls on choices: what each chooses, scored or written, in every order."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.choice_cases import CHOICES, sample
from support.each import each

from harness.core import Request, Response, Sample
from harness.data.choices import lay_out
from harness.errors import SpecError
from harness.models.scripted import UNLIKELY, control
from harness.parts import Decoding, Message, Mode
from harness.specs.tasks import ChoiceSpec

ORDERED = sample(
    gold=1, order0=("3", "1", "2"), order1=("2", "3", "1"), said=(" It is noon. ", "x")
)
SOURCES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "oracle": {"answer": ("gold",)},
    "literal": {"answer": ("said",)},
    "first": {"answer": ("first",)},
    "blind": {"answer": ("fixed",)},
    "random": {"answer": ("any",)},
    "undecided": {},
    "wrong": {"answer": ("topic",)},
    "absent": {"answer": ("sayd",)},
}
LAYOUTS = {
    "order0": ChoiceSpec(order=0),
    "order1": ChoiceSpec(order=1),
    "text": ChoiceSpec(order=1, answers="text"),
}


def asked(of: Sample = ORDERED, variant: str = "order0", mode: Mode = Mode.CHOOSE) -> Request:
    options = lay_out(of, LAYOUTS[variant])
    words = (Message("user", f"{of.id} {[option.index for option in options]}"),)
    choices = () if mode is Mode.GENERATE else tuple(option.answer for option in options)
    drawn = Decoding(max_tokens=1)
    return Request(of.id, variant, "answer", "m@1", words, drawn, mode=mode, choices=choices)


def said(policy: str, request: Request, *samples: Sample) -> Response:
    held = samples or (ORDERED,)
    model = control("c", policy, sources=SOURCES, samples=held, layouts=LAYOUTS)
    [response] = model.answer([request])
    assert response.key == request.key
    return response


def place(response: Response) -> int:
    logprobs = [part.logprob for part in response.choice_scores or ()]
    assert sorted(logprobs) == [UNLIKELY, UNLIKELY, 0.0]
    return logprobs.index(0.0) + 1


@each("mode", [Mode.CHOOSE, Mode.CHOOSE_TOKEN])
@each(
    ("policy", "places"),
    [("oracle", (3, 1)), ("literal", (1, 2)), ("first", (1, 1)), ("blind", (2, 3))],
)
def test_a_control_chooses_what_is_shown(policy: str, places: tuple[int, int], mode: Mode) -> None:
    found = [said(policy, asked(variant=v, mode=mode)) for v in ("order0", "order1")]
    assert tuple(map(place, found)) == places


@each(
    ("policy", "variant", "text"),
    [
        *(("oracle", "order0", "3"), ("oracle", "text", CHOICES[1]), ("first", "text", CHOICES[1])),
        *(("blind", "text", CHOICES[0]), ("literal", "text", CHOICES[2])),
        ("undecided", "order1", "1"),
    ],
)
def test_a_control_writes_a_choice_as_it_is_laid_out(policy: str, variant: str, text: str) -> None:
    assert said(policy, asked(variant=variant, mode=Mode.GENERATE)).texts == (text,)


@pytest.mark.parametrize(("policy", "step"), [("undecided", "answer"), ("oracle", "neutral")])
def test_where_a_control_has_nothing_to_choose_by_choices_are_alike(policy: str, step: str) -> None:
    scores = said(policy, replace(asked(), step=step)).choice_scores or ()
    assert [part.logprob for part in scores] == [0.0] * 3


def test_a_random_choice_is_drawn_for_each_prompt_evenly() -> None:
    samples = tuple(sample(name=f"s{n}") for n in range(300))

    drawn = [
        [place(said("random", asked(of, variant), *samples)) for variant in ("order0", "order1")]
        for of in samples[:120]
    ]

    for places in zip(*drawn, strict=True):
        # 120 draws of three: 24 to 56 but for 1 set in 500.
        assert all(24 <= count <= 56 for count in Counter(places).values())
    # Were one place drawn for both orders, both would be alike in all.
    assert 24 <= sum(first == second for first, second in drawn) <= 56


@pytest.mark.parametrize(
    ("policy", "fact"),
    [
        ("wrong", "'topic' is 'Brr s1.', none of its choices; correct the task's `controls`"),
        ("absent", "no field or reference 'sayd'"),
    ],
)
def test_a_control_that_names_no_choice_is_a_mistake_in_the_task(policy: str, fact: str) -> None:
    with pytest.raises(SpecError, match=fact):
        said(policy, asked())
