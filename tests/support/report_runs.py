"""Run folders with their calls ledger for a page: stress pairs, chains, both orders of a judge.

The words are made up: `write_runs(results, Sketch(...))` writes as many answers as are wanted, of
models that are right so often; `texts` take the place of the first answers, whatever they hold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from msgspec import structs

from harness.core import Request, Response, Run, Sample
from harness.parts import Decoding, Message, Reason, Usage, digest
from harness.specs.tasks import StepSpec, TaskSpec, VariantSpec
from harness.storage import runs
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord, StepRecord, VerdictRecord
from support.paired_runs import choice_task
from support.run_tables import score_rows
from support.sketches import task

WORDS = Random("words")
VOCABULARY = [
    "".join(WORDS.choice("bdfglmnprst") + WORDS.choice("aeiou") for _ in range(WORDS.randint(1, 4)))
    for _ in range(4000)
]
ASKING = runs.JudgeEntry(
    "choice", "accuracy", "choice:0a1b|both-orders", "umpire", "openai:umpire@1"
)
NEAR = runs.JudgeEntry("near", "mean_f1", "near:2c3d|minilm")
GOLD = runs.JudgeEntry("gold", "accuracy", "gold:4e5f|raw")
ORDERS = ("accept-first", "reject-first")
STRESSES = 3
"""The samples of one cluster: one turn, each word of it stressed once."""


@dataclass(frozen=True)
class Sketch:
    """How many samples, by which models, each with the share of its right answers."""

    samples: int = 12
    models: tuple[tuple[str, float], ...] = (("alpha", 0.9), ("beta", 0.4))
    decodings: tuple[str, ...] = ("T0",)
    texts: Sequence[str] = ()
    words: int = 12
    context: int = 30
    has_choices: bool = True


def write_runs(results: Path, sketch: Sketch) -> None:
    samples = [_sample(place, sketch) for place in range(sketch.samples)]
    ledger = Ledger(results / "calls" / "umpire")
    for name, share in sketch.models:
        rows = [*_spoken(samples, sketch, ledger, name=name, share=share)]
        _write(results, "stress", _words_task(), (ASKING, NEAR), name, rows)
        if sketch.has_choices:
            _write(
                results,
                "posed",
                structs.replace(choice_task(), about="The same, posed."),
                (GOLD,),
                name,
                [*_chosen(samples, name, share)],
            )
    ledger.close()


def _words_task() -> TaskSpec:
    response = StepSpec(name="response", template="toy/plain")
    thought = StepSpec(name="thought", template="toy/think")
    variants = {
        "plain": VariantSpec(about="the plain prompt", steps=(response,)),
        "think": VariantSpec(about="it thinks first", steps=(thought, response)),
    }
    gaps = {"thinking_gap": ("think", "plain")}
    about = "What a speaker means by a stress."
    judges = ("choice", "near")
    return task(about=about, variants=variants, judges=judges, gaps=gaps, chance=0.5)


def _sample(place: int, sketch: Sketch) -> Sample:
    cluster, at = divmod(place, STRESSES)
    draw = Random(f"turn {cluster}")
    turn = [draw.choice(VOCABULARY) for _ in range(STRESSES + 2)]
    meant = Random(f"meant {place}")
    fields = {
        "context": _said(draw, sketch.context),
        "speaker": "Ada",
        "before": " ".join([*turn[:at], ""]),
        "emphasis": turn[at],
        "after": " ".join(["", *turn[at + 1 :]]),
    }
    references = {"right": (_said(meant, 8),), "wrong": (_said(meant, 8),)}
    group = ("irony", "request", "maxim")[cluster % 3]
    return Sample(f"s{place:05}", fields, references, group=group, cluster=f"turn {cluster}")


def _said(draw: Random, words: int) -> str:
    text = " ".join(draw.choice(VOCABULARY) for _ in range(words))
    return f"{text.capitalize()}."


def _spoken(
    samples: Sequence[Sample], sketch: Sketch, ledger: Ledger, *, name: str, share: float
) -> Iterator[SampleRecord]:
    for variant in ("plain", "think"):
        for decoding in sketch.decodings:
            for place, sample in enumerate(samples):
                draw = Random(f"{name} {variant} {decoding} {sample.id}")
                is_posed = variant == "plain" and place < len(sketch.texts)
                text = sketch.texts[place] if is_posed else _said(draw, sketch.words)
                is_lost = place % 37 == 36
                answer = None if is_lost else text
                steps = _steps(sample, variant, answer, draw, sketch.words)
                verdicts = _verdicts(sample, answer, draw, share, ledger)
                yield SampleRecord(
                    sample, variant, decoding, steps, answer, served=None, verdicts=verdicts
                )


def _steps(
    sample: Sample, variant: str, answer: str | None, draw: Random, words: int
) -> tuple[StepRecord, ...]:
    asked = f"{sample.fields['context']}\n\nWhat does Ada bring out? {_turn(sample)}"
    usage = Usage(len(asked) // 4, words)
    why = None if answer is not None else Reason.REFUSED
    note = "" if answer is not None else "I would rather not say."
    last = StepRecord("response", _key(asked), (Message("user", asked),), answer, why, note)
    if variant == "plain":
        return (last,)
    first = f"Think first.\n\n{asked}"
    thought = _said(draw, words)
    chat = (Message("user", first), Message("assistant", thought), Message("user", "And so?"))
    return (
        StepRecord("thought", _key(first), chat[:1], thought, usage=usage),
        StepRecord("response", _key(first + thought), chat, answer, why, note, usage=usage),
    )


def _turn(sample: Sample) -> str:
    own = sample.fields
    return f'{own["before"]}"{own["emphasis"]}"{own["after"]}'


def _key(text: str) -> str:
    return digest(text)


def _verdicts(
    sample: Sample, answer: str | None, draw: Random, share: float, ledger: Ledger
) -> dict[str, VerdictRecord]:
    if answer is None:
        lost = VerdictRecord(None, Reason.REFUSED)
        return {"choice": lost, "near": lost}
    is_right, is_split = draw.random() < share, draw.random() < 0.1
    kept = [_call(sample, answer, order, ledger) for order in ORDERS]
    accepted = (is_right, not is_right if is_split else is_right)
    replies = ("1" if accepted[0] else "2", "2" if accepted[1] else "1")
    detail = {"consistency": float(not is_split), "slot1_share": replies.count("1") / 2}
    value = sum(accepted) / 2
    asked = VerdictRecord(
        value, detail=detail, keys=tuple(kept), replies=replies, served="umpire-1"
    )
    f1 = round(draw.random(), 3)
    return {"choice": asked, "near": VerdictRecord(f1, detail={"precision": f1, "recall": f1})}


def _call(sample: Sample, answer: str, order: str, ledger: Ledger) -> str:
    names = ("right", "wrong") if order == ORDERS[0] else ("wrong", "right")
    shown = [sample.references[name][0] for name in names]
    words = (
        f"{sample.fields['context']}\n{_turn(sample)}\nAnswer: {answer}\n"
        f"Which is nearer?\n1) {shown[0]}\n2) {shown[1]}"
    )
    said = (Message("user", words),)
    request = Request(sample.id, "choice", order, "openai:umpire@1", said, Decoding(0.0, 4))
    ledger.add(request, Response(request.key, texts=("1",)))
    return request.key


def _chosen(samples: Sequence[Sample], name: str, share: float) -> Iterator[SampleRecord]:
    for place in range(2):
        for sample in samples:
            right, wrong = sample.references["right"][0], sample.references["wrong"][0]
            posed = Sample(
                *(sample.id, sample.fields, {}, (right, wrong), right, sample.group),
                cluster=sample.cluster,
            )
            sure = Random(f"{name} {place} {sample.id}").random() < share
            shown = (right, wrong) if place == 0 else (wrong, right)
            asked = f"{_turn(sample)}\n1) {shown[0]}\n2) {shown[1]}\nAnswer:"
            step = StepRecord("answer", _key(asked), (Message("user", asked),))
            chosen = shown.index(right if sure else wrong) + 1
            shares = (0.8, 0.2) if sure else (0.2, 0.8)
            verdict = VerdictRecord(float(sure), shares=shares)
            yield SampleRecord(
                *(posed, f"order{place}", "logprob", (step,), str(chosen)),
                verdicts={"gold": verdict},
            )


def _write(
    results: Path,
    name: str,
    spec: TaskSpec,
    judges: tuple[runs.JudgeEntry, ...],
    model: str,
    rows: Sequence[SampleRecord],
) -> None:
    variants = dict.fromkeys((row.variant for row in rows), "9f31c2ab")
    identity = f"openai:{model}@1"
    run = Run(name, tuple(variants), identity, (Decoding(),), 0, None, "words", "d1f3")
    cost = runs.Cost(len(rows), 1000, 200, 0.25, Usage(1000, 200, 0.25))
    lost = sum(row.answer is None for row in rows)
    file = runs.RunFile(
        digest=run.digest,
        run=run,
        task=spec,
        model=runs.ModelEntry(model, "openai", identity, "1"),
        data=runs.DataEntry("made-up", "sample", "sample:d1f3", {}),
        variants=variants,
        samples=len({row.sample.id for row in rows}),
        planned=len(rows),
        chance=spec.chance,
        version="0.1.0",
        judges=judges,
        costs=runs.Costs(cost, cost, {judge.name: cost for judge in judges}),
        missing=(runs.MissingCount("", False, Reason.REFUSED, lost),) if lost else (),
    )
    folder = runs.RunFolder(results / "runs" / name / model / run.digest[:16])
    folder.write(file, rows, score_rows(file, rows))
