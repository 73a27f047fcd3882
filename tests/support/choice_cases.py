"""Small samples with choices, their scores, verdicts and rows, drawn by hand."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir

from msgspec import structs
from pandas import DataFrame

from harness.core import Case, Response, Run, Sample, Verdict
from harness.data.choices import lay_out
from harness.judges.gold import GoldJudge
from harness.parts import ChoiceScore, Mode, Reason
from harness.pipeline.plan import SCORING, Plan
from harness.pipeline.verdict_frame import verdict_frame
from harness.specs.judges import GoldSpec
from harness.specs.tasks import ChoiceSpec, StepSpec, TaskSpec, VariantSpec
from harness.storage.run_tables import RunTables, SampleRecord, VerdictRecord
from harness.storage.runs import JudgeEntry, RunFile
from harness.text.prompts import Prompts
from support.sketches import row, run_file
from support.sketches import task as sketched

CHOICES = ("Shut the window.", "I like fresh air.", "It is noon.")
LABELS = ("Right", "Literal", "Odd")
GOLD = JudgeEntry("gold", "accuracy", "gold:00|raw")
LISTED = "{% for option in options %}\n{{ loop.index }}) {{ option }}\n{% endfor %}\n"
TEMPLATES = {"neutral": "Answer:", "ask": "{{ topic }}\n" + LISTED + "Answer:"}
NEUTRAL = StepSpec(name="neutral", template="toy/neutral", is_unconditional=True)
ANSWER = StepSpec(name="answer", template="toy/ask")
Scores = tuple[ChoiceScore, ...]


def sample(
    choices: Sequence[str] = CHOICES,
    *,
    gold: int = 0,
    name: str = "s1",
    **references: Sequence[str],
) -> Sample:
    """A sample with these choices, the first of them right unless `gold` says otherwise."""
    held = {key: tuple(texts) for key, texts in references.items()}
    return Sample(name, {"topic": f"Brr {name}."}, held, tuple(choices), choices[gold])


def scores(*logprobs: float, tokens: int | None = 1, bytes: int = 2, **flags: int) -> Scores:
    return tuple(ChoiceScore(part, tokens, bytes, **flags) for part in logprobs)  # type: ignore[arg-type]  # spanned or is_bound


def spec(answers: str = "number", order: int | None = None) -> ChoiceSpec:
    """A layout in the sample's own order."""
    return structs.replace(ChoiceSpec(), answers=answers, order=order)


def case(
    said: str | Scores,
    *,
    asked: Sample | None = None,
    layout: ChoiceSpec | None = None,
    neutral: Response | None = None,
) -> Case:
    """What the judge reads of a written text, or of scores in the order of the layout."""
    of = asked or sample(labels=LABELS)
    answered = (
        Response("k", texts=(said,)) if isinstance(said, str) else Response("k", choice_scores=said)
    )
    return Case(of, answered, options=lay_out(of, layout or spec()), neutral=neutral)


def judge(normalisation: str = "raw") -> GoldJudge:
    return GoldJudge("gold", structs.replace(GoldSpec(about=""), normalisation=normalisation))


def judged(read: Case, normalisation: str = "raw") -> Verdict:
    [verdict] = judge(normalisation).read([read])
    return verdict


def shared(*shares: float, value: float = 1.0, place: int = 1, **detail: float) -> VerdictRecord:
    """A verdict with a probability a choice, and the place that was chosen."""
    places = {f"chosen_place_{at}": float(at == place) for at in range(1, len(shares) + 1)}
    return VerdictRecord(value, detail={**places, **detail}, shares=shares)


def lost(reason: Reason = Reason.FAILED) -> VerdictRecord:
    return VerdictRecord(None, reason)


def chosen(
    verdict: VerdictRecord, variant: str = "order0", of: Sample | None = None
) -> SampleRecord:
    held = of or sample()
    return row(
        verdict, sample=held, variant=variant, decoding="logprob", verdicts={"gold": verdict}
    )


def frame_of(
    records: Sequence[SampleRecord], judge: str = "gold", spec: TaskSpec | None = None
) -> DataFrame:
    tables = RunTables(Path(gettempdir()))
    tables.add(records)
    frame = verdict_frame(tables.files, spec or task())
    return frame[frame["judge"] == judge]


def variants(
    *names: str, pool: str | None = "all", needs: tuple[str, ...] = ()
) -> dict[str, VariantSpec]:
    """Variants that lay the choices out in one order each, in the order of their names."""
    return {
        name: VariantSpec(
            about="",
            steps=(NEUTRAL, ANSWER),
            choice=ChoiceSpec(order=place),
            averaged_over=pool,
            needs=needs,
        )
        for place, name in enumerate(names)
    }


def task(made: dict[str, VariantSpec] | None = None, mode: Mode = Mode.CHOOSE) -> TaskSpec:
    """A task with choices, in two orders unless told otherwise."""
    held = made or variants("order0", "order1")
    return sketched(variants=held, default_variants=tuple(held), mode=mode, judges=("gold",))


def choice_run(spec: TaskSpec, planned: int = 1, **changes: object) -> RunFile:
    words = {name: f"{place:08x}" + "0" * 56 for place, name in enumerate(spec.variants)}
    made = {"task": spec, "variants": words, "judges": (GOLD,), "chance": None, **changes}
    return run_file(planned, **made)


def plan(folder: Path, *asked: Sample, spec: TaskSpec | None = None) -> Plan:
    """A plan of every variant over these samples, its templates written below a folder."""
    words = folder / "prompts" / "toy"
    words.mkdir(parents=True, exist_ok=True)
    for name, text in TEMPLATES.items():
        (words / f"{name}.user.j2").write_text(text, "utf-8")
    made = spec or task()
    run = Run("toy", tuple(made.variants), "m@1", (SCORING,), 0, None, "words", "d1f3")
    return Plan(run, made, asked or (sample(),), Prompts([words.parent]), "m@1")
