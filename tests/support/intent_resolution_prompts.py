"""Every prompt of intent_resolution for a sample of unique words, and the golden file of them.

After a deliberate change of wording, write the golden file anew and read its diff, which shows
what models will see:

    python -m support.intent_resolution_prompts (in tests/)
"""

from pathlib import Path

from harness.core import Request, Response, Run, Sample
from harness.judges.asking import PreferenceJudge
from harness.parts import Decoding
from harness.pipeline.plan import Plan, PlannedResponse, request
from harness.specs.judges import PreferenceSpec
from harness.specs.schema import load_spec, read_yaml
from harness.specs.tasks import TaskSpec
from harness.text.prompts import Prompts

HOME = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden" / "intent_resolution.txt"
GROUPS = ("indirect_speech", "irony", "maxims", "metaphor")
FIELDS = ("context", "prefix", "utterance", "speaker", "listener")
REFERENCES: tuple[str, ...] = ("true_intention", "literal_intention", "turn1_true", "turn1_literal")
REFERENCES += ("turn2_true", "turn2_literal")
INFERRED = "MODEL-INFERRED-INTENTION"


def mark(name: str) -> str:
    """A word that stands for a field or a reference, and occurs nowhere else."""
    return f"{name.upper().replace('_', '-')}-MARK"


def sample(group: str = "irony", **fields: str) -> Sample:
    """A sample in which every text is a word of its own; `fields` replace some."""
    return Sample(
        f"{group}-1",
        {**{name: mark(name) for name in FIELDS}, **fields},
        {name: (mark(name),) for name in REFERENCES},
        group=group,
    )


def shipped_task() -> TaskSpec:
    path = HOME / "tasks" / "intent_resolution.yaml"
    task: TaskSpec = load_spec(read_yaml(path), TaskSpec, where=str(path))
    return task


def plan(*samples: Sample, seed: int = 0, task: TaskSpec | None = None) -> Plan:
    spec = task or shipped_task()
    decodings = tuple(Decoding(d.temperature, d.max_tokens) for d in spec.decodings)
    run = Run("intent_resolution", tuple(spec.variants), "m@1", decodings, seed, None, "p", "d")
    return Plan(run, spec, samples or (sample(),), Prompts([HOME / "prompts"]), "m@1")


def requests(a_plan: Plan, cell: PlannedResponse) -> list[Request]:
    """The request of each step of a cell, earlier steps answered with one word."""
    steps = a_plan.task.variants[cell.variant].steps
    said = {step.name: INFERRED for step in steps[:-1]}
    return [request(a_plan, cell, step=s, earlier=said if s is steps[-1] else {}) for s in steps]


def prompts(variant: str, group: str = "irony", **fields: str) -> list[str]:
    made = plan(sample(group, **fields))
    cell = next(cell for cell in made.cells if cell.variant == variant)
    return [asked.messages[-1].content for asked in requests(made, cell)]


def golden_text() -> str:
    """Each step of each variant, each naming of a phenomenon, and the judge's question, once."""
    task = shipped_task()
    parts = [
        (f"{variant}, {step.name}", words)
        for variant, spec in task.variants.items()
        for step, words in zip(spec.steps, prompts(variant), strict=True)
    ]
    parts += [
        (f"{variant} for {group}", prompts(variant, group)[0])
        for variant in ("cot2", "cot4", "cot6")
        for group in GROUPS
    ]
    turns = requests(made := plan(), next(c for c in made.cells if c.variant == "cot2"))[
        -1
    ].messages
    parts += [("cot2, all turns", "\n\n".join(f"[{t.role}]\n{t.content}" for t in turns))]
    parts += [("base without context", prompts("base", context="")[0])]
    parts += [("judge gpt4-contextual", judge_prompt())]
    return "\n".join(f"=== {title}\n{words}\n" for title, words in parts)


def judge_prompt() -> str:
    path = HOME / "configs" / "judges" / "gpt4-contextual.yaml"
    spec = load_spec(read_yaml(path), PreferenceSpec, where=str(path))
    judge = PreferenceJudge("j", spec, prompts=Prompts([HOME / "prompts"]), model="j@1")
    asked = judge.ask(sample(), Response("k", texts=("RESPONSE-MARK",)))
    return asked[0].messages[-1].content


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_bytes(golden_text().encode())
