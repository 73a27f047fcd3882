"""The commands check judge, model and task: is one of your own built as runs need it."""

from functools import partial

from harness.cli import options
from harness.cli.options import HOME, ExitCode, Home, argument, option, switch
from harness.core import Case, Response
from harness.errors import SpecError
from harness.pipeline import conformance
from harness.present.screen import say
from harness.specs.judges import asked_model, reads_choices
from harness.specs.models import ScriptedSpec
from harness.workspace import Workspace

NAME = "Name of its YAML file in configs/."
TASK = "Try it on this task's sample set. Default: a task that fits."
MADE_UP = Response("made up", texts=("An answer.",))


def judge(
    name: str = argument("NAME", NAME), task: str | None = option(TASK), home: Home = HOME
) -> int:
    """Try a judge on made-up answers of every kind; a model that it asks is not called.

    Exit code 1: a rule is broken.
    """
    registry = options.registry(home)
    spec = registry.load("configs/judges", name)
    model = asked_model(spec) and "made-up model"

    build = partial(registry.judge, name, spec, identity=model)
    problem: SpecError | None = None
    for tried, task_spec, samples in conformance.trials(registry, task, prefers=name):
        if task_spec.has_choices == reads_choices(spec):
            cases = [Case(sample, MADE_UP) for sample in samples]
            try:
                made = build()
                _ = [made.ask(sample, MADE_UP) for sample in samples]
                made.read(cases if model is None else [])
            except SpecError as error:  # it needs references that these samples lack
                problem = problem or error
                continue
            say(f"{name}: tried on task {tried}")
            return _report(conformance.check_judge(build, name, samples, model=model))
    raise problem or SpecError(f"judge {name}: no task has answers for it; name one with --task")


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
