"""Plans to what they would ask: prompts, calls, sizes and prices, before anything is asked.

Makes no call of a model. A call that two cells share is counted once, as it is asked; what is
stored already is counted, and not paid for again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from harness.core import Model, Request
from harness.errors import SpecError
from harness.models.client.cached import CachedClient
from harness.models.labels import ReadsText
from harness.models.local.checkpoints import open_spec
from harness.models.local.tokenization import (
    CHARACTERS_A_TOKEN,
    MeasuresPrompts,
    TokenReport,
    characters,
    estimated,
    token_report,
)
from harness.parts import Message, Mode
from harness.pipeline.answer_modes import with_mode
from harness.pipeline.judge_setup import JudgeSetup
from harness.pipeline.plan import Plan, check_templates, chosen_variants, subsample
from harness.pipeline.preview import (
    PlannedCall,
    charge_stored_calls,
    charge_stored_replies,
    judge_calls,
    planned_requests,
    preview,
    stored_questions,
)
from harness.pipeline.resolve import JudgePlan, RunOptions, RunPlan, run_of
from harness.registry import Registry
from harness.specs.models import LocalSpec
from harness.workspace import HOSTED, Workspace

ANY = "-"


@dataclass(frozen=True, slots=True)
class CallSummary:
    """One kind of call: how many, how many of them stored, their sizes, and the price of the rest.

    `variant` is - for a judge, which reads all of them. `stored` is None where all prompts show
    missing answers; in sizes these are as long as they may be. `prompt_tokens` are by the
    model's tokenizer, or estimated from characters. `max_tokens` bounds the tokens of all answers
    together. The price is that of what is not stored, from an answer of one token and earlier
    ones as short, to the most that it can be; None where none is known, as of every model that is
    not hosted. `choices` are those of the example, where there is something to choose. `waiting`
    counts the calls, among those that are not stored, that wait in a batch already handed in;
    `priced_as` is what prices.yaml calls the model, None for one that is not hosted. Of a model
    that reads texts and no prompt the example is a text alone, and there are no tokens.
    """

    asker: str
    variant: str
    step: str
    model: str
    is_hosted: bool
    calls: int
    stored: int | None
    prompt_characters: int
    prompt_tokens: int = 0
    is_estimate: bool = False
    max_tokens: int = 0
    least_usd: float | None = None
    most_usd: float | None = None
    example: tuple[Message, ...] = ()
    choices: tuple[str, ...] = ()
    waiting: int = 0
    priced_as: str | None = None


@dataclass(frozen=True, slots=True)
class _CallGroup:
    """Calls of one kind, those of them that no earlier kind made, and the client they go to."""

    asker: str
    step: str
    calls: Sequence[PlannedCall]
    new: Sequence[PlannedCall]
    client: CachedClient


def dry_runs(workspace: Workspace, plans: Sequence[RunPlan]) -> list[list[CallSummary]]:
    """Every kind of call of some runs, one list a run; a call that two share is the first one's.

    What is stored of them counts against the budget.
    """
    seen: set[str] = set()
    for plan in plans:
        charge_stored_calls(plan.plan, plan.client, plan.judges)
    return [_dry_run(workspace, plan, seen) for plan in plans]


def dry_judges(workspace: Workspace, plan: JudgePlan) -> list[CallSummary]:
    """Every kind of call of judges that are to read a stored run; what is stored is counted."""
    seen = set[str]()
    charge_stored_replies(plan)
    return [
        summary
        for setup in plan.judges
        for asked in [stored_questions(plan, setup)]
        for summary in _judging(workspace, setup, [PlannedCall(r, r) for r in asked], seen=seen)
    ]


def _dry_run(workspace: Workspace, run: RunPlan, seen: set[str]) -> list[CallSummary]:
    plan, client, summaries = run.plan, run.client, list[CallSummary]()
    sequences = preview(plan, client)
    stored = _stored(client, [call for sequence in sequences for call in sequence.calls])
    for variant in plan.run.variants:
        members = [part.calls for part in sequences if part.cell.variant == variant]
        for place, step in enumerate(plan.task.variants[variant].steps):
            calls = [part[place] for part in members if len(part) > place]
            group = _CallGroup(plan.run.task, step.name, calls, _new(calls, seen), client)
            summaries.append(replace(_summary(workspace, group, stored), variant=variant))
    for setup in run.judges:
        asked = list(judge_calls(plan, sequences, setup))
        summaries += _judging(workspace, setup, asked, seen=seen)
    return summaries


def _judging(
    workspace: Workspace, setup: JudgeSetup, asked: Sequence[PlannedCall], *, seen: set[str]
) -> Iterator[CallSummary]:
    """Every kind of question of a judge; none of one that asks nothing."""
    if setup.client is None:
        return
    stored = _stored(setup.client, asked)
    for step_name in dict.fromkeys(call.longest.step for call in asked):
        calls = [call for call in asked if call.longest.step == step_name]
        new = _new(calls, seen)
        group = _CallGroup(setup.judge.name, step_name, calls, new, setup.client)
        yield _summary(workspace, group, stored)


def _stored(client: CachedClient, calls: Sequence[PlannedCall]) -> frozenset[str]:
    """Which of some calls would not be made, by key."""
    return frozenset(client.stored([call.longest for call in calls if not call.is_open]))


def _new(calls: Sequence[PlannedCall], seen: set[str]) -> list[PlannedCall]:
    """The calls that no cell before has made, each once; they are then seen."""
    planned = {call.longest.key: call for call in calls}
    new = [call for key, call in planned.items() if key not in seen]
    seen.update(planned)
    return new


def _summary_of_texts(group: _CallGroup, reader: ReadsText, stored: frozenset[str]) -> CallSummary:
    """The summary of calls of a model that reads texts alone: no tokens, a text for an example."""
    all_texts = {call.longest.key: reader.text_of(call.longest) for call in group.new}
    texts = {key: text for key, text in all_texts.items() if text is not None}
    model = group.client.model
    return CallSummary(
        asker=group.asker,
        variant=ANY,
        step=group.step,
        model=model.name,
        is_hosted=model.kind in HOSTED,
        calls=len(texts),
        stored=len(stored & set(texts)),
        prompt_characters=sum(map(len, texts.values())),
        example=tuple(Message("user", text) for text in [*texts.values()][:1]),
    )


def _summary(workspace: Workspace, group: _CallGroup, stored: frozenset[str]) -> CallSummary:
    model, new = group.client.model, group.new
    if isinstance(model, ReadsText):
        return _summary_of_texts(group, model, stored)
    size = model.prompt_size if isinstance(model, MeasuresPrompts) else estimated
    sizes = {call.shortest.key: size(call.shortest) for call in new}
    left = [call for call in new if call.longest.key not in stored]
    least, most = _price(left, sizes, group.client)
    example = group.calls[0].longest if group.calls else None
    return CallSummary(
        asker=group.asker,
        variant=ANY,
        step=group.step,
        model=model.name,
        is_hosted=model.kind in HOSTED,
        calls=len(new),
        stored=None if new and all(call.is_open for call in new) else len(new) - len(left),
        prompt_characters=sum(characters(call.longest) for call in new),
        prompt_tokens=sum(sizes[call.shortest.key] + _shown(call) for call in new),
        is_estimate=not isinstance(model, MeasuresPrompts),
        max_tokens=sum(_most_drawn(call.longest) for call in new),
        least_usd=least,
        most_usd=most,
        example=example.messages if example else (),
        choices=example.choices if example else (),
        waiting=len(workspace.waiting(model) & {call.longest.key for call in left}),
        priced_as=workspace.registry.priced_as(model.name) if model.kind in HOSTED else None,
    )


def _price(
    left: Sequence[PlannedCall], sizes: Mapping[str, int], client: CachedClient
) -> tuple[float | None, float | None]:
    """What calls that are still to be made cost, at least and at most; None where not known."""
    if client.model.kind not in HOSTED:
        return None, None
    if not left:
        return 0.0, 0.0
    if (price := client.price) is None:
        return None, None
    least = fsum(price.least(call.shortest, sizes[call.shortest.key]) for call in left)
    most = fsum(price.most(call.longest) for call in left)
    charged = [price.shared(full, is_batch=client.is_batch) for full in (least, most)]
    return charged[0], charged[1]


def _shown(call: PlannedCall) -> int:
    """The tokens of missing answers that a prompt shows: as many as they may have."""
    return (characters(call.longest) - characters(call.shortest)) // CHARACTERS_A_TOKEN


def _most_drawn(asked: Request) -> int:
    return asked.decoding.max_tokens * asked.decoding.n


# How a local model reads choices


def check_tokens(workspace: Workspace, options: RunOptions) -> dict[str, TokenReport]:
    """How the tokenizer of a local model reads a task's choices, by variant.

    Plans what a run would ask by log-probability, whichever model answers. No weights are opened,
    and no back end need be installed; judges are not read.
    """
    spec = _local_spec(workspace.registry, options.model)
    plan = _plan_of_choices(workspace, options)
    tokenizer = open_spec(spec, workspace.registry.cache / "checkpoints").tokenizer
    asked: dict[str, list[Request]] = {name: [] for name in plan.run.variants}
    for cell in plan.cells:
        asked[cell.variant] += planned_requests(plan, cell)
    is_chat = spec.choice_prompt == "chat"
    return {name: token_report(part, tokenizer, is_chat=is_chat) for name, part in asked.items()}


def _plan_of_choices(workspace: Workspace, options: RunOptions) -> Plan:
    registry, name = workspace.registry, options.task
    task = registry.load("tasks", name)
    if not task.has_choices:
        able = [
            other for other in registry.names("tasks") if registry.load("tasks", other).has_choices
        ]
        raise SpecError(f"task {name} has no choices; tasks that have: {', '.join(able) or 'none'}")
    task = with_mode(task, frozenset({Mode.CHOOSE}), None, model="any")
    variants = chosen_variants(task, options.variants, name=name)
    samples, data = workspace.samples(task.data)
    chosen = subsample(samples, options.limit, seed=options.seed)
    run = run_of(options, task, variants, identity="any", data=data, prompts="any")
    plan = Plan(run, task, chosen, registry.prompts, identity="any")
    check_templates(plan)
    return plan


def _local_spec(registry: Registry, model: str | Model) -> LocalSpec:
    spec = registry.load("configs/models", model) if isinstance(model, str) else None
    if not isinstance(spec, LocalSpec):
        kind = spec.__struct_config__.tag if spec else "object"
        raise SpecError(
            f"model {model} is of kind {kind}: its tokenizer is not at hand; "
            "name a model of kind transformers or vllm (`harness list models`), for a server one "
            "with the checkpoint it serves"
        )
    return spec
