"""Small requests, rows, plans and models, drawn by hand for the tests of every stage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from harness.core import Model, Request, Response, Run, Sample
from harness.models.client.cached import CachedClient, CallPolicy
from harness.models.scripted import ScriptedModel
from harness.parts import Decoding, Message, Reason
from harness.pipeline.plan import Plan, subsample
from harness.specs.tasks import DataSpec, DecodingSpec, StepSpec, TaskSpec, VariantSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord, StepRecord, VerdictRecord
from harness.storage.runs import DataEntry, JudgeEntry, ModelEntry, RunFile
from harness.text.prompts import Prompts

HOSTILE = (
    "\ud83d cut in half, and again \udca9",
    "nul \x00, escape \x1b[31m, carriage\rreturn",
    "line\u2028separator, next\x85line, two\n\nparagraphs",
    '"quotes", \\back\\slashes, {{ 7*7 }}, {reference}, <script>',
)
JUDGE = JudgeEntry("near", "accuracy", "near:0011aabb|minilm")

TEMPLATES = {
    "plain": "Say something about {{ topic }}.",
    "think": "What is meant by {{ topic }}?",
    "then": "You thought: {{ thought }}\nNow answer about {{ topic }}.",
}


def request(prompt: str = "Hello?", *, repeat: int = 0) -> Request:
    said = (Message("user", prompt),)
    return Request("s1", "base", "response", "m@1", said, Decoding(), repeat=repeat)


def reply(asked: Request, text: str = "Yes.") -> Response:
    return Response(asked.key, texts=(text,))


def failure(asked: Request, why: str = "no connection") -> Response:
    return Response.failed(asked.key, Reason.FAILED, why)


def task(**changes: object) -> TaskSpec:
    """A task of two variants, one of a single step and one that thinks first."""
    plain = VariantSpec(about="", steps=(StepSpec(name="response", template="toy/plain"),))
    first = StepSpec(name="thought", template="toy/think", max_tokens=9)
    then = StepSpec(name="response", template="toy/then")
    spec = TaskSpec(
        about="a toy",
        data=DataSpec(source="toy", reader="toy", files=("toy.csv",), sample="toy.jsonl"),
        variants={"plain": plain, "think": VariantSpec(about="", steps=(first, then))},
        default_variants=("plain", "think"),
        decodings=(DecodingSpec(temperature=0.0, max_tokens=30),),
        judges=("near",),
        postprocess="blank_line",
    )
    return structs.replace(spec, **changes)


def samples(*topics: str) -> tuple[Sample, ...]:
    refs = {"good": ("kind",), "bad": ("rude",)}
    return tuple(Sample(f"s{n}", {"topic": t}, refs) for n, t in enumerate(topics, 1))


def plan(
    folder: Path, *topics: str, variants: tuple[str, ...] = ("plain",), spec: TaskSpec | None = None
) -> Plan:
    words = folder / "prompts" / "toy"
    words.mkdir(parents=True, exist_ok=True)
    for name, text in TEMPLATES.items():
        (words / f"{name}.user.j2").write_text(text, "utf-8")
    chosen = subsample(samples(*(topics or ("tea", "rain", "snow"))), None, seed=0)
    run = Run("toy", variants, "m@1", (Decoding(),), 0, None, "words", "d1f3")
    return Plan(run, spec or task(), chosen, Prompts([words.parent]), "m@1")


@dataclass
class Talker:
    """A model that keeps what it was asked and says what a function makes of it."""

    say: Callable[[Request], str | Response] = lambda asked: f"On {asked.step}."
    heard: list[Request] = field(default_factory=list)

    def _reply(self, asked: Request) -> Response:
        self.heard.append(asked)
        said = self.say(asked)
        return said if isinstance(said, Response) else reply(asked, said)

    def desk(self, folder: Path, *, is_offline: bool = False) -> CachedClient:
        model = ScriptedModel("talker", self._reply, identity="m@1")
        return CachedClient(
            model, Ledger(folder / "calls"), lambda *_: None, CallPolicy(is_offline)
        )

    @property
    def prompts(self) -> list[str]:
        return [asked.messages[-1].content for asked in self.heard]


def right(value: float, **detail: float) -> VerdictRecord:
    return VerdictRecord(value, detail=detail)


def lost(reason: Reason) -> VerdictRecord:
    return VerdictRecord(None, reason)


def row(
    verdict: VerdictRecord, name: str = "s1", *, group: str = "all", **changes: object
) -> SampleRecord:
    """A judged row of one sample; `changes` replace what else it holds."""
    made = SampleRecord(
        sample=Sample(name, {"topic": "tea"}, group=group),
        variant="base",
        decoding="T0.3",
        steps=(StepRecord("response", f"key-{name}", (Message("user", "Hello?"),), text="Yes."),),
        answer="Yes.",
        verdicts={"near": verdict},
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # checked where it is built


def rows(values: Sequence[float | Reason], **changes: object) -> list[SampleRecord]:
    verdicts = [lost(v) if isinstance(v, Reason) else right(v) for v in values]
    return [row(v, f"s{n}", **changes) for n, v in enumerate(verdicts)]  # type: ignore[arg-type]


def run_file(planned: int = 1, *names: str, **changes: object) -> RunFile:
    """A run of two variants, `base` and `cot3`, by a small model, read by one judge."""
    steps = task().variants.values()
    made_of = dict(zip(names or ("base", "cot3"), steps, strict=True))
    variants = dict(zip(made_of, ("9f31c2ab" + "0" * 56, "77ab01ce" + "0" * 56), strict=True))
    run = Run("toy", tuple(variants), "m@1", (Decoding(0.3), Decoding(0.5)), 0, None, "w", "d1f3")
    made = RunFile(
        digest=run.digest,
        run=run,
        task=task(variants=task().variants | made_of),
        model=ModelEntry("small", "scripted", "m@1", "a1b2c3d"),
        data=DataEntry("toy", "released", "d1f3", {"toy.csv": "00"}),
        variants=variants,
        samples=planned,
        planned=planned,
        chance=0.5,
        version="0.1.0",
        judges=(JUDGE,),
    )
    made = replace(made, **changes)  # type: ignore[arg-type]  # checked where it is built
    known = tuple(name for name in made.run.variants if name in made.task.variants)
    return replace(made, run=replace(made.run, variants=known or made.run.variants))


AnyModel = TypeVar("AnyModel", bound=Model)


def resolved(model: AnyModel) -> AnyModel:
    """The model itself, after it found out which one it is."""
    model.resolve()
    return model
