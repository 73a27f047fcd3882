"""Stored answers of one model to a task, to the requests, records and run they amount to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import UNSET, structs

from harness import __version__
from harness.core import Request, Response, Run, Sample
from harness.errors import DataError
from harness.importers.record import StoredAnswer
from harness.parts import Decoding, Mode, Reason, digest
from harness.pipeline.plan import SCORING, PlannedResponse, applicable
from harness.pipeline.walk import sample_record
from harness.specs.models import IMPORTED
from harness.specs.tasks import TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import DataEntry, ModelEntry, RunFile

ABSENT = "not in the imported files"


@dataclass(frozen=True)
class ImportJob:
    """A task as it was answered, its samples, and the answers of a model by variant and sample."""

    name: str
    task: TaskSpec
    samples: Sequence[Sample]
    data: DataEntry
    model: str
    answers: Mapping[tuple[str, str], StoredAnswer]

    @property
    def identity(self) -> str:
        """The model's identity: all that is known of it is what it is called."""
        return f"{IMPORTED}:{self.model}@{self.name}"

    @cached_property
    def planned(self) -> list[PlannedResponse]:
        """Each variant that was found, and those averaged with it, for all samples it has."""
        named = {variant for variant, _ in self.answers}
        averages = {self.task.variants[name].averaged_over for name in named} - {None}
        return [
            PlannedResponse(sample, name, self.task.decodings[0])
            for name, spec in self.task.variants.items()
            if name in named or spec.averaged_over in averages
            for sample in applicable(spec, self.samples)
        ]


def as_answered(
    task: TaskSpec, answers: Sequence[StoredAnswer], temperature: float | None
) -> TaskSpec:
    """A task as stored answers answer it: of each variant the last step, drawn in one way."""
    places = {bool(answer.scores): answer.place for answer in answers}
    if len(places) > 1:
        fact = f"{places[True]}: scores of choices, while {places[False]} holds written answers"
        raise DataError(f"{fact}; import them apart")
    drawn = task.decodings[0]
    if temperature is not None:
        known = {part.temperature: part for part in task.decodings}
        drawn = known.get(temperature) or structs.replace(drawn, temperature=temperature)
    variants = {}
    for name, variant in task.variants.items():
        last = structs.replace(variant.steps[-1], is_follow_up=UNSET)  # no conversation precedes it
        variants[name] = structs.replace(variant, steps=(last,))
    mode = Mode.CHOOSE if True in places else Mode.GENERATE
    return structs.replace(task, mode=mode, decodings=(drawn,), variants=variants)


def joined(answers: Sequence[StoredAnswer]) -> dict[tuple[str, str], StoredAnswer]:
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


def file_of(job: ImportJob) -> RunFile:
    """run.json of the answers; the run's digest covers the prompts stored with them."""
    asked: dict[str, dict[str, object]] = {cell.variant: {} for cell in job.planned}
    for (name, sample), answer in job.answers.items():
        asked[name][sample] = answer.question
    fixed = (job.task.mode, job.task.postprocess, job.task.decodings[0])
    words = {name: digest((fixed, part)) for name, part in asked.items()}
    run = Run(
        task=job.name,
        variants=tuple(words),
        model=job.identity,
        decodings=(_drawn(job, max(len(answer.texts) for answer in job.answers.values())),),
        seed=0,
        limit=None,
        prompts=digest(words),
        data=job.data.label,
    )
    return RunFile(
        digest=run.digest,
        run=run,
        task=job.task,
        model=ModelEntry(job.model, IMPORTED, job.identity, None),
        data=job.data,
        variants=words,
        samples=len(job.samples),
        planned=len(job.planned),
        chance=job.task.chance,
        version=__version__,
    )


def records(ledger: Ledger, job: ImportJob) -> list[SampleRecord]:
    """The records of the run, their answers in the ledger; a missing one is a failure there."""
    answers = [job.answers.get((cell.variant, cell.sample.id)) for cell in job.planned]
    asked = [_request(job, *pair) for pair in zip(job.planned, answers, strict=True)]
    stored = ledger.find([request.key for request in asked])
    new: list[tuple[Request, Response]] = []
    for request, answer in zip(asked, answers, strict=True):
        held = stored.get(request.key)
        if held is None:
            new.append((request, _response(request, answer)))
        elif answer and (held.texts or (), held.choice_scores or ()) != answer.answer:
            raise DataError(
                f"{answer.place}: other replies than those stored for the same prompt by model "
                f"{job.model}; import it under a --model of its own"
            )
    try:
        if new:
            ledger.check()
        for request, response in new:
            ledger.add(request, response)
            stored[request.key] = response
    finally:
        ledger.close()
    calls = zip(job.planned, asked, strict=True)
    return [sample_record(cell, [(one, stored[one.key])], job.task) for cell, one in calls]


def _drawn(job: ImportJob, count: int) -> Decoding:
    if job.task.mode is Mode.CHOOSE:
        return SCORING
    drawn = job.task.decodings[0]
    return Decoding(drawn.temperature, drawn.max_tokens, n=count)


def _request(job: ImportJob, cell: PlannedResponse, answer: StoredAnswer | None) -> Request:
    # The sample is part of the model's name: equal prompts may have been answered differently.
    asked = f"{job.identity}#{cell.variant}/{cell.sample.id}"
    return Request(
        sample_id=cell.sample.id,
        variant=cell.variant,
        step=job.task.variants[cell.variant].steps[-1].name,
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
