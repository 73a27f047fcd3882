"""A task and a local model to how the model's tokenizer reads the task's choices, by variant.

Plans what a run would ask without the model that answers it: every model is asked the same. No
weights are opened, and no back end need be installed.
"""

from harness.core import Request, Run
from harness.errors import SpecError
from harness.models.local.token_report import TokenReport, open_tokenizer, token_report
from harness.parts import Mode
from harness.pipeline import run as jobs
from harness.pipeline.answer_modes import with_mode
from harness.pipeline.plan import Plan, check_templates, chosen_variants, decodings, subsample
from harness.pipeline.preview import planned
from harness.registry import Registry
from harness.specs.models import LocalSpec
from harness.workspace import Workspace


def check_tokens(space: Workspace, options: jobs.RunOptions) -> dict[str, TokenReport]:
    """The report of each variant that is chosen; of the options, the judges' are not read."""
    spec = _local(space.registry, options.model)
    plan = _plan(space, options)
    tokenizer = open_tokenizer(spec, space.registry.cache / "checkpoints")
    asked: dict[str, list[Request]] = {name: [] for name in plan.run.variants}
    for cell in plan.cells:
        asked[cell.variant] += planned(plan, cell)
    is_chat = spec.choice_prompt == "chat"
    return {name: token_report(part, tokenizer, is_chat=is_chat) for name, part in asked.items()}


def _plan(space: Workspace, options: jobs.RunOptions) -> Plan:
    """What a run asks that scores choices by log-probability, whoever answers."""
    registry, name = space.registry, options.task
    task = registry.task(name)
    if not task.has_choices:
        able = [other for other in registry.names("tasks") if registry.task(other).has_choices]
        raise SpecError(f"task {name} has no choices; tasks that have: {', '.join(able) or 'none'}")
    task = with_mode(task, frozenset({Mode.CHOOSE}), None, model=options.model)
    variants = chosen_variants(task, options.variants, name=name)
    samples, data = space.samples(task.data)
    run = Run(
        task=name,
        variants=variants,
        model="any",
        decodings=decodings(task),
        seed=options.seed,
        limit=options.limit,
        prompts="any",
        data=data.label,
    )
    chosen = subsample(samples, options.limit, seed=options.seed)
    plan = Plan(run, task, chosen, registry.prompts, identity="any")
    check_templates(plan)
    return plan


def _local(registry: Registry, name: str) -> LocalSpec:
    """The spec of a model whose tokenizer can be had here."""
    spec = registry.model_spec(name)
    if not isinstance(spec, LocalSpec):
        raise SpecError(
            f"model {name} is of kind {spec.__struct_config__.tag}: its tokenizer is not at hand; "
            "name a model of kind transformers or vllm (`harness list models`), for a server one "
            "with the checkpoint it serves"
        )
    return spec
