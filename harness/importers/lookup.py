"""What a task asks: its samples and prompts, found by id, by content or by wording.

Built once an import; nothing here knows a file's layout.
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
    """The samples of a task, and what it asks of each under each variant."""

    def __init__(
        self, name: str, task: TaskSpec, *, samples: Sequence[Sample], prompts: Prompts, data: str
    ) -> None:
        """The task of a name; `data` says, in errors, where its samples come from."""
        self.task = task
        self.samples = tuple(samples)
        self._name, self._data, self._prompts = name, data, prompts
        self._indices: dict[Names, dict[Names, list[Sample]]] = {}

    @cached_property
    def by_id(self) -> Mapping[str, Sample]:
        """Each sample by its id."""
        return {sample.id: sample for sample in self.samples}

    def having(self, fields: Mapping[str, str], group: str | None = None) -> list[Sample]:
        """The samples that have just these texts in these fields, and are of this group."""
        names = tuple(sorted(fields))
        if names not in self._indices:
            held: dict[Names, list[Sample]] = {}
            for sample in self.samples:
                if sample.fields.keys() >= set(names):
                    held.setdefault(tuple(sample.fields[n] for n in names), []).append(sample)
            self._indices[names] = held
        found = self._indices[names].get(tuple(fields[name] for name in names), [])
        return [sample for sample in found if group in (None, sample.group)]

    def asked(self, text: str) -> list[tuple[str, Sample]]:
        """The variants and samples whose prompt this is; outer white space aside."""
        return self._prompted.get(text.strip(), [])

    def options(self, variant: str, sample: Sample) -> tuple[Option, ...]:
        """A sample's choices as a variant lays them out."""
        return options(self.task, variant, sample)

    def variant(self, name: str, *, place: str) -> str:
        """A variant of the task by its name."""
        if name not in self.task.variants:
            known = did_you_mean(name, list(self.task.variants))
            raise DataError(f"{place}: no variant {name!r} in task {self._name}{known}")
        return name

    def unknown(self, place: str, what: str) -> DataError:
        """The error of an answer to what is no sample here."""
        return DataError(
            f"{place}: {what}, not among the {len(self.samples)} samples of task {self._name} "
            f"({self._data} data); name the data it belongs to with --data"
        )

    @cached_property
    def _prompted(self) -> Mapping[str, list[tuple[str, Sample]]]:
        """What each prompt is of; a step that uses an earlier answer has none of its own."""
        found: dict[str, list[tuple[str, Sample]]] = {}
        run = Run(self._name, (), "", (), seed=0, limit=None, prompts="", data="")
        plan = Plan(run, self.task, self.samples, self._prompts, "")
        for variant, spec in self.task.variants.items():
            steps = [step for step in spec.steps if not step.is_unconditional]
            if len(steps) > 1:
                continue
            for sample in applicable(spec, self.samples):
                cell = PlannedResponse(sample, variant, self.task.decodings[0])
                asked = request(plan, cell, step=steps[0], earlier={})
                found.setdefault(wording(asked.messages), []).append((variant, sample))
        return found


def wording(messages: Sequence[Message]) -> str:
    """The text of a prompt, its turns joined by line breaks, without outer white space."""
    return "\n".join(message.content for message in messages).strip()
