"""Stored answers of one model to a task, to the requests, records and run they amount to.

What was asked and answered is kept as it is; what is missing is a failure. Nothing here reads a
file of answers, or judges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET, structs

from harness import __version__
from harness.core import Request, Response, Run, Sample
from harness.errors import DataError
from harness.importers.record import StoredAnswer
from harness.parts import Decoding, Mode, Reason, digest
from harness.pipeline.plan import SCORING, PlannedResponse, applicable, options
from harness.pipeline.walk import sample_record, walk
from harness.specs.tasks import DecodingSpec, StepSpec, TaskSpec, VariantSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import DataEntry, ModelEntry, RunFile

KIND, ABSENT = "replay", "not in the imported files"

Cells = Mapping[tuple[str, str], StoredAnswer]
"""Answers by variant and sample id."""


@dataclass(frozen=True, slots=True)
class ImportJob:
    """A task as it was answered, its samples and the model whose answers are imported."""

    name: str
    task: TaskSpec
    samples: tuple[Sample, ...]
    data: DataEntry
    model: str

    @property
    def identity(self) -> str:
        """The model's identity: all that is known of it is what it is called."""
        return f"{KIND}:{self.model}@{self.name}"

    @property
    def decoding(self) -> DecodingSpec:
        """How answers were drawn, as far as the task or a map says."""
        return self.task.decodings[0]


def as_answered(
    task: TaskSpec, answers: Sequence[StoredAnswer], temperature: float | None
) -> TaskSpec:
    """A task as stored answers answer it: of each variant the last step, drawn in one way."""
    scored = [answer for answer in answers if answer.scores]
    if scored and len(scored) < len(answers):
        written = next(answer for answer in answers if not answer.scores)
        raise DataError(
            f"{scored[0].place}: scores of choices, while {written.place} holds written answers; "
            "import them apart"
        )
    if scored and not task.has_choices:
        raise DataError(f"{scored[0].place}: scores of choices, and the task has none to choose")
    drawn = task.decodings[0]
    if temperature is not None:
        known = {part.temperature: part for part in task.decodings}
        drawn = known.get(temperature) or structs.replace(drawn, temperature=temperature)
    return structs.replace(
        task,
        mode=Mode.CHOOSE if scored else Mode.GENERATE,
        decodings=(drawn,),
        variants={name: _last_step(variant) for name, variant in task.variants.items()},
    )


def _last_step(variant: VariantSpec) -> VariantSpec:
    """The variant with its last step alone, which no conversation precedes."""
    last = structs.replace(variant.steps[-1], is_follow_up=UNSET)
    return structs.replace(variant, steps=(last,))


def cells(answers: Sequence[StoredAnswer]) -> Cells:
    """Each answer by its variant and sample; two that differ are an error."""
    found: dict[tuple[str, str], StoredAnswer] = {}
    for answer in answers:
        held = found.setdefault((answer.variant, answer.sample_id), answer)
        if (held.question, held.answer) != (answer.question, answer.answer):
            raise DataError(
                f"{answer.place}: another prompt or other replies on {answer.variant} of sample "
                f"{answer.sample_id} than {held.place}; import them apart, under models of their "
                "own"
            )
    if not found:
        raise DataError("no answer in any of the files; name files that hold some")
    return found


def planned(job: ImportJob, found: Cells) -> list[tuple[str, Sample]]:
    """The responses of a run: each variant that was found, and those averaged with it, in full."""
    named = {variant for variant, _ in found}
    averages = {job.task.variants[name].averaged_over for name in named} - {None}
    return [
        (name, sample)
        for name, spec in job.task.variants.items()
        if name in named or spec.averaged_over in averages
        for sample in applicable(spec, job.samples)
    ]


def file_of(job: ImportJob, found: Cells) -> RunFile:
    """run.json of the answers; the run's digest covers the prompts stored with them."""
    most = max(len(answer.texts) for answer in found.values())
    run = Run(
        task=job.name,
        variants=tuple(dict.fromkeys(variant for variant, _ in planned(job, found))),
        model=job.identity,
        decodings=(_drawn(job, most),),
        seed=0,
        limit=None,
        prompts=digest(_words(job, found)),
        data=job.data.label,
    )
    return RunFile(
        digest=run.digest,
        run=run,
        task=job.task,
        model=ModelEntry(job.model, KIND, job.identity, None),
        data=job.data,
        variants=_words(job, found),
        samples=len(job.samples),
        planned=len(planned(job, found)),
        chance=job.task.chance,
        version=__version__,
    )


def refuse_others(ledger: Ledger, job: ImportJob, found: Cells) -> None:
    """Refuse an answer that differs from what is stored for the same prompt."""
    asked = {_request(job, *place, answer=answer).key: answer for place, answer in found.items()}
    for key, held in ledger.find(asked).items():
        answer = asked[key]
        if held.failure is None and (held.texts or (), held.choice_scores or ()) != answer.answer:
            raise DataError(
                f"{answer.place}: other replies than those stored for the same prompt by model "
                f"{job.model}; import it under a --model of its own"
            )


def records(ledger: Ledger, job: ImportJob, found: Cells) -> list[SampleRecord]:
    """The records of the run, their answers in the ledger; a missing one is a failure there."""
    cells = [PlannedResponse(sample, name, job.decoding) for name, sample in planned(job, found)]

    def ask(cell: PlannedResponse, step: StepSpec, earlier: Mapping[str, str]) -> Request:
        place = (cell.variant, cell.sample.id)
        return _request(job, *place, answer=found.get(place))

    def answer(asked: Sequence[Request], wave: int) -> dict[str, Response]:
        stored = ledger.find([request.key for request in asked])
        new = {request.key: request for request in asked if request.key not in stored}
        if new:
            ledger.check()
        try:
            for key, request in new.items():
                stored[key] = _response(request, found.get((request.variant, request.sample_id)))
                ledger.add(request, stored[key])
        finally:
            ledger.close()
        return stored

    calls = walk(job.task, cells, ask=ask, answer=answer)
    return [sample_record(cell, part, job.task) for cell, part in zip(cells, calls, strict=True)]


def _drawn(job: ImportJob, count: int) -> Decoding:
    if job.task.mode is Mode.CHOOSE:
        return SCORING
    return Decoding(job.decoding.temperature, job.decoding.max_tokens, n=count)


def _words(job: ImportJob, found: Cells) -> dict[str, str]:
    asked: dict[str, dict[str, object]] = {name: {} for name, _ in planned(job, found)}
    for (name, sample), answer in found.items():
        asked[name][sample] = answer.question
    fixed = (job.task.mode, job.task.postprocess, job.decoding)
    return {name: digest((fixed, part)) for name, part in asked.items()}


def _request(job: ImportJob, variant: str, sample: str, *, answer: StoredAnswer | None) -> Request:
    # The sample is part of the model's name: equal prompts may have been answered differently.
    asked = f"{job.identity}#{variant}/{sample}"
    return Request(
        sample_id=sample,
        variant=variant,
        step=job.task.variants[variant].steps[-1].name,
        model=asked if answer else f"{asked}#absent",
        messages=answer.messages if answer else (),
        decoding=_drawn(job, len(answer.texts) if answer else 1),
        mode=job.task.mode,
        choices=answer.choices if answer else (),
    )


def _response(request: Request, answer: StoredAnswer | None) -> Response:
    if answer is None:
        return Response.failed(request.key, Reason.FAILED, ABSENT)
    if answer.scores:
        return Response(key=request.key, choice_scores=answer.scores)
    return Response(key=request.key, texts=answer.texts)


def check_choices(job: ImportJob, found: Cells) -> None:
    """Refuse scores that are more or fewer than the choices of their sample."""
    by_id = {sample.id: sample for sample in job.samples}
    for (variant, sample), answer in found.items():
        count = len(options(job.task, variant, by_id[sample]))
        if answer.scores and len(answer.scores) != count:
            raise DataError(
                f"{answer.place}: {len(answer.scores)} scores for the {count} choices of sample "
                f"{sample}; correct the file"
            )
