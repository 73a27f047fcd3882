"""Every prompt of the tasks with choices for samples of unique words, and the golden files of them.

After a deliberate change of wording, write the golden files anew and read their diff, which shows
what models will see:

    python -m support.choice_prompts (in tests/)
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.core import Request, Run, Sample
from harness.parts import Decoding
from harness.pipeline.plan import Plan, PlannedResponse, applicable, request
from harness.registry import Registry
from harness.specs.tasks import TaskSpec
from harness.text.prompts import Prompts

HOME = Path(__file__).parents[2]
SHIPPED = Registry((HOME,), {}, HOME / "no cache")
# Each task with its groups, and how many choices the samples of a group have.
GROUPS: Mapping[str, Mapping[str, int]] = {
    "intent_detection": {
        "coherence_inference": 2,
        "deceits": 4,
        "humour": 5,
        "indirect_speech": 4,
        "irony": 4,
        "maxims": 4,
        "metaphor": 5,
    },
    "intent_detection_pairs": {"irony": 2},
    "emphasis_choice": {"all": 2},
    "ludwig": {"particularised": 2},
}
FIELDS: Mapping[str, tuple[str, ...]] = {
    "intent_detection": ("scenario", "without_story"),
    "intent_detection_pairs": ("context", "dialog", "prefix", "utterance", "speaker", "listener"),
    "emphasis_choice": ("context", "speaker", "before", "emphasis", "after"),
    "ludwig": ("utterance", "response"),
}


def mark(name: str) -> str:
    """A word that stands for a field, a choice or a reference, and occurs nowhere else."""
    return f"{name.upper().replace('_', '-')}-MARK"


def task(name: str) -> TaskSpec:
    return SHIPPED.load("tasks", name)


def sample(name: str, group: str, **fields: str) -> Sample:
    """A sample in which every text is a word of its own; `fields` replace some."""
    count = GROUPS[name][group]
    choices = tuple(mark(f"choice_{place}") for place in range(1, count + 1))
    choices = ("yes", "no") if name == "ludwig" else choices
    # Order n begins with the n-th choice.
    orders = {n: [(n + place) % count + 1 for place in range(count)] for n in range(5)}
    held = {f"order{n}": tuple(map(str, order)) for n, order in orders.items()}
    shown = {field: mark(field) for field in FIELDS[name]}
    labels = tuple(mark(f"label_{place}") for place in range(count))
    held |= {"labels": labels, "literal_intention": (choices[1],), "implication": (choices[0],)}
    return Sample(f"{group}-1", {**shown, **fields}, held, choices, choices[0], group=group)


def plan(name: str, *samples: Sample, prompts: Prompts | None = None) -> Plan:
    """A plan of every variant of a task over these samples, or one a group."""
    spec = task(name)
    held = samples or tuple(sample(name, group) for group in GROUPS[name])
    run = Run(name, tuple(spec.variants), "m@1", (Decoding(max_tokens=1),), 0, None, "p", "d")
    return Plan(run, spec, held, prompts or Prompts([HOME / "prompts"]), "m@1")


def requests(made: Plan, cell: PlannedResponse) -> list[Request]:
    steps = made.task.variants[cell.variant].steps
    return [request(made, cell, step=step, earlier={}) for step in steps]


def cells(made: Plan, variant: str) -> list[PlannedResponse]:
    held = [*applicable(made.task.variants[variant], made.samples)]
    return [PlannedResponse(of, variant, made.task.decodings[0]) for of in held]


def worded(name: str) -> Iterator[str]:
    """The first variant of each wording of a task; others differ in the order of choices alone."""
    seen = set()
    for variant, spec in task(name).variants.items():
        templates = tuple(step.template for step in spec.steps)
        if templates not in seen:
            seen.add(templates)
            yield variant


def golden_text(name: str) -> str:
    """Each step of each wording for each group, with the very strings that are scored."""
    made = plan(name)
    parts = [
        f"=== {variant}, {asked.step}, {cell.sample.group}\n"
        + "\n".join(f"[{message.role}]\n{message.content}" for message in asked.messages)
        + f"\n[choices] {' '.join(map(repr, asked.choices))}\n"
        for variant in worded(name)
        for cell in cells(made, variant)
        for asked in requests(made, cell)
    ]
    return "\n".join(parts)


def golden(name: str) -> Path:
    return Path(__file__).parents[1] / "golden" / f"{name}.txt"


if __name__ == "__main__":
    for task_name in GROUPS:
        golden(task_name).write_bytes(golden_text(task_name).encode())
