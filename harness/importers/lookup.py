"""A task to a lookup of its samples: by id, by their fields, or by the text of their prompt.

Each import builds it once. Nothing here knows a file's format.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from harness.core import Run, Sample
from harness.errors import DataError, did_you_mean
from harness.parts import Message, Option
from harness.pipeline.plan import Plan, PlannedResponse, applicable, options, request
from harness.specs.tasks import TaskSpec
from harness.text.prompts import Prompts

Names = tuple[str, ...]


class SampleLookup:
    """The samples of a task, and the prompt of each under each variant."""

    def __init__(
        self, name: str, task: TaskSpec, *, samples: Sequence[Sample], prompts: Prompts, data: str
    ) -> None:
        """Look up the samples of task `name`; errors describe their data as `data`."""
        self.task = task
        self.samples = tuple(samples)
        self._name, self._data, self._prompts = name, data, prompts
        self._indices: dict[Names, dict[Names, list[Sample]]] = {}

    @cached_property
    def by_id(self) -> Mapping[str, Sample]:
        """The samples by id."""
        return {sample.id: sample for sample in self.samples}

    def having(self, fields: Mapping[str, str], group: str | None = None) -> list[Sample]:
        """The samples of a group, by default of all, with exactly these texts in these fields."""
        names = tuple(sorted(fields))
        if names not in self._indices:
            index: dict[Names, list[Sample]] = {}
            for sample in self.samples:
                if sample.fields.keys() >= set(names):
                    index.setdefault(tuple(sample.fields[n] for n in names), []).append(sample)
            self._indices[names] = index
        matching = self._indices[names].get(tuple(fields[name] for name in names), [])
        return [sample for sample in matching if group in (None, sample.group)]

    def asked(self, text: str) -> list[tuple[str, Sample]]:
        """The variants and samples with this prompt, ignoring outer white space."""
        return self._prompted.get(text.strip(), [])

    def options(self, variant: str, sample: Sample) -> tuple[Option, ...]:
        """A sample's choices as a variant shows them."""
        return options(self.task, variant, sample)

    def variant(self, name: str, *, place: str) -> str:
        """The name of a variant; raises DataError where the task has no such variant."""
        if name not in self.task.variants:
            known = did_you_mean(name, list(self.task.variants))
            raise DataError(f"{place}: no variant {name!r} in task {self._name}{known}")
        return name

    def unknown(self, place: str, what: str) -> DataError:
        """The error for an answer to something that is no sample of the task."""
        return DataError(
            f"{place}: {what}, not among the {len(self.samples)} samples of task {self._name} "
            f"({self._data} data); name the data it belongs to with --data"
        )

    @cached_property
    def _prompted(self) -> Mapping[str, list[tuple[str, Sample]]]:
        """Variants and samples by prompt, without variants of several steps."""
        prompted: dict[str, list[tuple[str, Sample]]] = {}
        run = Run(self._name, (), "", (), seed=0, limit=None, prompts="", data="")
        plan = Plan(run, self.task, self.samples, self._prompts, "")
        for variant, spec in self.task.variants.items():
            steps = [step for step in spec.steps if not step.is_unconditional]
            if len(steps) > 1:
                continue
            for sample in applicable(spec, self.samples):
                cell = PlannedResponse(sample, variant, self.task.decodings[0])
                asked = request(plan, cell, step=steps[0], earlier={})
                prompted.setdefault(prompt_text(asked.messages), []).append((variant, sample))
        return prompted


def prompt_text(messages: Sequence[Message]) -> str:
    """The text of a prompt: its messages joined by line breaks, without outer white space."""
    return "\n".join(message.content for message in messages).strip()
