"""Planned responses to records, step by step, and records to the cases that judges read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from harness.core import Case, Judge, Request, Response, Sample
from harness.parts import Failure, Message, Reason
from harness.pipeline.plan import PlannedResponse, decoding_label, options
from harness.specs.tasks import StepSpec, TaskSpec
from harness.storage.run_tables import SampleRecord, StepRecord
from harness.text.cleanup import is_blank
from harness.text.parsers import POSTPROCESSORS, answer_line, has_answer_line

Call = tuple[Request, Response]
"""A request and the response to it."""
Ask = Callable[[PlannedResponse, StepSpec, Mapping[str, str]], Request]
"""Gives the request of a step; the mapping holds the texts of the steps before it."""
Answer = Callable[[Sequence[Request], int], Mapping[str, Response]]
"""Gives the responses to the requests of a wave, by key; waves are counted from 0."""
Place = tuple[Sample, str, str]
"""A sample, and the names of a variant and of a decoding."""
_NONE: Mapping[str, Response] = MappingProxyType({})


def walk(
    task: TaskSpec, planned: Sequence[PlannedResponse], *, ask: Ask, answer: Answer
) -> list[list[Call]]:
    """Take the steps of planned responses, all first steps, then all second ones.

    A response ends at a step that has no answer. Returns the calls of each response.
    """
    calls: list[list[Call]] = [[] for _ in planned]
    waves = max((len(task.variants[part.variant].steps) for part in planned), default=0)
    for wave in range(waves):
        asked: dict[int, Request] = {}
        for place, part in enumerate(planned):
            steps = task.variants[part.variant].steps
            earlier = _earlier_texts(calls[place], task, part.variant)
            if len(calls[place]) == wave < len(steps) and earlier is not None:
                asked[place] = ask(part, steps[wave], earlier)
        responses = answer(list(asked.values()), wave)
        for place, request in asked.items():
            calls[place].append((request, responses[request.key]))
    return calls


def _earlier_texts(calls: Sequence[Call], task: TaskSpec, variant: str) -> dict[str, str] | None:
    """The texts that later steps may show; None where a step has no answer."""
    # An unconditional step may fail: later steps do not show its answer.
    ignored = {step.name for step in task.variants[variant].steps if step.is_unconditional}
    texts = dict[str, str]()
    for asked, response in ((asked, one) for asked, one in calls if asked.step not in ignored):
        if response.texts:
            texts[asked.step] = _postprocessor(task, variant, asked.step)(response.texts[0])
        if response.failure or is_blank(texts.get(asked.step, ".")):
            return None
    return texts


def _postprocessor(task: TaskSpec, variant: str, step: str) -> Callable[[str], str]:
    """What cuts the answers of a step: its own way, else the task's."""
    own = {spec.name: spec.postprocess for spec in task.variants[variant].steps}.get(step)
    return POSTPROCESSORS[own or task.postprocess]


def sample_record(planned: PlannedResponse, calls: Sequence[Call], task: TaskSpec) -> SampleRecord:
    """The record of a planned response whose calls were made; no judge has read it yet."""
    steps = [(asked.step, asked.messages, response) for asked, response in calls]
    place = (planned.sample, planned.variant, decoding_label(task, planned.decoding))
    return _with_steps(place, steps, task)


def rebuild(
    record: SampleRecord, responses: Mapping[str, Response], task: TaskSpec
) -> SampleRecord:
    """A stored record made again from its responses, as the task now reads them."""
    steps = [(step.step, step.messages, responses[step.key]) for step in record.steps]
    made = _with_steps((record.sample, record.variant, record.decoding), steps, task)
    return replace(made, verdicts=record.verdicts)


def _with_steps(
    place: Place, steps: Sequence[tuple[str, tuple[Message, ...], Response]], task: TaskSpec
) -> SampleRecord:
    responses = [response for *_, response in steps]
    served = "+".join(sorted({one.served for one in responses if one.served})) or None
    records = tuple(
        StepRecord(
            step=step,
            key=response.key,
            messages=messages,
            text=response.texts[0] if response.texts else None,
            reason=response.failure.reason if response.failure else None,
            note=response.failure.message if response.failure else "",
            stop=response.stop,
            choice_scores=response.choice_scores or (),
            usage=response.usage,
            detail=dict(sorted(response.detail.items())),
        )
        for step, messages, response in steps
    )
    case = _case(place, [step for step, *_ in steps], responses, task)
    return SampleRecord(*place, records, _answer(case), served)


def _response(step: StepRecord) -> Response:
    is_text = step.reason is None and step.text is not None
    return Response(
        step.key,
        texts=(step.text or "",) if is_text else None,
        choice_scores=None if is_text or step.reason else step.choice_scores,
        failure=Failure(step.reason, step.note) if step.reason else None,
        stop=step.stop,
        usage=step.usage,
        detail=step.detail,
    )


def case_of(
    record: SampleRecord,
    task: TaskSpec,
    *,
    step: str | None = None,
    responses: Mapping[str, Response] = _NONE,
) -> Case | None:
    """What a judge reads of a record, or of an earlier step; None where there is no such step.

    Its response is the last step's, postprocessed, or the failure of the step that ended it.
    `responses` are whole ones by key, for records with several texts of a step.
    """
    steps = record.steps
    if step is not None:
        names = [spec.name for spec in task.variants[record.variant].steps]
        if step not in names:
            return None
        steps = steps[: names.index(step) + 1]
    known = [responses.get(part.key) or _response(part) for part in steps]
    place = (record.sample, record.variant, record.decoding)
    return _case(place, [part.step for part in steps], known, task)


def _case(place: Place, steps: Sequence[str], known: Sequence[Response], task: TaskSpec) -> Case:
    """The case of the last of some steps; `known` has the response of each."""
    sample, variant, decoding = place
    specs = task.variants[variant].steps
    own = {spec.name for spec in specs if spec.is_unconditional}
    pairs = zip(steps[:-1], known, strict=False)
    neutral = next((one for step, one in pairs if step in own), None)
    cut = _postprocessor(task, variant, steps[-1])
    where = "" if len(steps) == len(specs) else f"step {steps[-1]}: "
    return Case(
        sample,
        _postprocessed(known[-1], cut, place=where),
        block=f"{variant} {decoding}",
        variant=variant,
        options=options(task, variant, sample),
        neutral=neutral,
    )


def cases_of(
    records: Sequence[SampleRecord],
    task: TaskSpec,
    *,
    step: str | None,
    responses: Mapping[str, Response] = _NONE,
) -> dict[int, Case]:
    """The cases of some records by their places; records without the step have none."""
    cases = (case_of(record, task, step=step, responses=responses) for record in records)
    return {place: case for place, case in enumerate(cases) if case is not None}


def _postprocessed(response: Response, cut: Callable[[str], str], *, place: str) -> Response:
    if (failure := response.failure) is not None:
        return Response.failed(response.key, failure.reason, place + failure.message)
    if response.texts is None:
        return response
    said, texts = "\n".join(response.texts).strip(), tuple(map(cut, response.texts))
    if cut is answer_line and said and not has_answer_line(said):
        is_cut = response.stop == "length"
        if is_cut or not any(texts):
            reason = Reason.TRUNCATED if is_cut else Reason.UNPARSED
            note = f"{place}no line of the answer begins with Answer:"
            return Response.failed(response.key, reason, note)
    if all(map(is_blank, texts)):
        return Response.failed(response.key, Reason.EMPTY, f"{place}the answer is blank")
    return replace(response, texts=texts)


def _answer(case: Case) -> str | None:
    if case.response.texts:
        return case.response.texts[0]
    scores = [score.logprob for score in case.response.choice_scores or ()]
    is_read = scores and len(scores) == len(case.options)
    return case.options[scores.index(max(scores))].answer.strip() if is_read else None


def questions(case: Case, judge: Judge) -> tuple[Request, ...]:
    """What a judge asks about a case; nothing where there is no answer."""
    return judge.ask(case.sample, case.response) if case.response.failure is None else ()
