"""The commands check judge, model and task: is one of your own built as runs need it."""

from functools import partial

from harness.cli import options
from harness.cli.options import HOME, ExitCode, Home, argument, option, switch
from harness.errors import SpecError
from harness.pipeline import conformance
from harness.present.screen import say
from harness.specs.models import ScriptedSpec
from harness.workspace import Workspace

NAME = "Name of its YAML file in configs/."
TASK = "Try it on this task's sample set. Default: a task that fits."


def judge(
    name: str = argument("NAME", NAME), task: str | None = option(TASK), home: Home = HOME
) -> int:
    """Try a judge on made-up answers of every kind; a model that it asks is not called.

    Exit code 1: a rule is broken.
    """
    tried, found = conformance.try_judge(options.registry(home), name, task)
    say(f"{name}: tried on task {tried}")
    return _report(found)


def model(
    name: str = argument("NAME", NAME),
    task: str | None = option(TASK),
    is_asked: bool = switch("--yes", "Call a hosted model too; this may cost money."),
    home: Home = HOME,
) -> int:
    """Try a model on made-up prompts of every kind; a hosted one is called only with --yes.

    Exit code 1: a rule is broken.
    """
    registry = options.registry(home)
    spec = registry.load("configs/models", name)
    if isinstance(spec, ScriptedSpec):
        raise SpecError(f"model {name} is a control, which answers from a task's samples alone")
    _, task_spec, samples = next(conformance.trials(registry, task, prefers=None))
    variant = task_spec.default_variants[0]
    place = (samples[0].id, variant, task_spec.variants[variant].steps[-1].name)

    build = partial(registry.model, name, spec, task=task_spec, samples=samples)
    hosted = registry.hosted(name)
    may_ask = is_asked or hosted is None
    code = _report(conformance.check_model(build, name, place=place, may_ask=may_ask))
    if hosted is not None and not is_asked:
        say(f"not asked: it would call {hosted.base_url}; add --yes")
    return code


def task(
    name: str = argument("NAME", "Name of its YAML file in tasks/."),
    data: options.DataFolder = None,
    home: Home = HOME,
) -> int:
    """Read a task's data twice and fill its prompts; no model is called.

    Exit code 1: a rule is broken.
    """
    space = Workspace.open(home, data=data)
    return _report(conformance.check_task(space, name, space.registry.load("tasks", name)))


def _report(findings: conformance.Findings) -> int:
    for rule, problem in sorted(findings.items(), key=lambda one: not one[1]):  # what failed first
        say(f"FAILED: {rule}: {problem}" if problem else f"ok: {rule}")
    return ExitCode.of(any(findings.values()))
