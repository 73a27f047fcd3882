"""Samples to further samples: by a data-making job's questions, or with one field perturbed."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import yaml
from msgspec import structs

from harness.core import Request, Response, Sample
from harness.data.choices import ORDER, permutation
from harness.data.readers.labelled_table import IMPLICITNESS
from harness.errors import SpecError, check_names, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.models.client.cached import CachedClient
from harness.parts import Decoding, Reason, digest
from harness.registry import Registry
from harness.specs import tasks
from harness.specs.tasks import TEXT, AskedSpec, BuildSpec, BuildStepSpec, TaskSpec
from harness.storage.files import write_whole
from harness.text.cleanup import is_blank
from harness.text.dedup import normal
from harness.text.edits import edit_text, group_exchange, with_group_exchanged
from harness.text.parsers import POSTPROCESSORS, closing_yes_no, is_refusal, listed_lines
from harness.text.prompts import Prompts

MARK = "# Made by harness perturb; another perturb under this name replaces it.\n"
FROM, BY, KEEPS = "perturbed_from", "perturbed_by", "keeps_meaning"
ORIGINAL: Final = "original"


Sources = Mapping[str, Mapping[str, str]]
"""The model, the template and the key of the stored call of each text that was made."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a job made, in the order of the samples, and what is missing or dropped, by reason."""

    finished: tuple[tuple[Sample, Sources], ...]
    missing: Counter[Reason]
    dropped: int


def build(
    samples: Sequence[Sample], spec: BuildSpec, *, prompts: Prompts, client: CachedClient, seed: int
) -> Built:
    """Take every step of a job on every sample; what is stored already is not asked again."""
    _check_slots(samples, spec, prompts)
    client.model.resolve()
    model = client.model.identity
    made = {at: one for at, one in enumerate(samples) if _is_taken(one, spec.takes)}
    sources: dict[int, dict[str, Mapping[str, str]]] = {at: {} for at in made}
    missing: Counter[Reason] = Counter()
    for step in spec.steps:
        asked = {
            at: Request(
                sample_id=sample.id,
                variant="build",
                step=step.name,
                model=model,
                messages=prompts.render(step.template, _slots(sample, step)),
                decoding=_decoding(spec.decoding, (seed, sample.id, step.name)),
            )
            for at, sample in made.items()
            if not step.judges or len(sample.references.get(step.judges, ())) >= step.at_least
        }
        answers = client.answer(asked.values(), stage=f"build, {step.name}")
        template = f"{step.template}@{prompts.digest(step.template)[:8]}"
        for at, request in asked.items():
            sources[at][step.name] = {"model": model, "template": template, "key": request.key}
        cut = POSTPROCESSORS[spec.postprocess]
        said = {at: _said(step, answers[request.key], cut) for at, request in asked.items()}
        missing.update(one for one in said.values() if isinstance(one, Reason))
        after = {at: _settled(made[at], step, one) for at, one in said.items()}
        made = {at: one for at in made if (one := after.get(at, made[at])) is not None}
    chooses = any(step.makes == "choice" for step in spec.steps)
    finished = tuple((one, sources[at]) for at, one in made.items() if chooses or one.references)
    return Built(finished, missing, len(samples) - len(finished) - missing.total())


def chosen(samples: Sequence[Sample], spec: BuildSpec) -> Built:
    """What a job without steps makes: the samples that it takes, as they are."""
    kept = tuple(
        (one, dict[str, Mapping[str, str]]()) for one in samples if _is_taken(one, spec.takes)
    )
    return Built(kept, Counter(), len(samples) - len(kept))


def _is_taken(sample: Sample, rule: tasks.TurnRuleSpec | None) -> bool:
    """Whether a sample has enough turns before its own, and enough content words in it."""
    if rule is None:
        return True
    turns = [line for line in sample.fields.get(rule.context, "").splitlines() if line.strip()]
    words = re.findall(r"\w+(?:['\u2019]\w+)*", sample.fields.get(rule.turn, "").casefold())
    content = [word for word in words if word.replace("\u2019", "'") not in rule.function_words]
    return len(turns) >= rule.least_turns and len(content) >= rule.least_words


def _settled(
    sample: Sample, step: BuildStepSpec, said: tuple[str, ...] | bool | Reason
) -> Sample | None:
    """The sample with what a step says of it; None where that leaves it out."""
    if isinstance(said, Reason) or (said is False and step.judges is None):
        return None
    if said is True:
        return sample
    kept = {name: texts for name, texts in sample.references.items() if name != step.judges}
    return replace(sample, references=kept | ({step.name: said} if said else {}))


def _check_slots(samples: Sequence[Sample], spec: BuildSpec, prompts: Prompts) -> None:
    """Refuse a step that sees what no sample has, or a template that asks for more."""
    for step in spec.steps:
        fact = f"template {step.template}: step {step.name} does not show it"
        check_names(fact, sorted(prompts.variables(step.template)), step.sees)
    for sample in samples:
        known = {*sample.fields, *sample.references}
        for step in spec.steps:
            fact = f"sample {sample.id} has no field or reference"
            check_names(fact, step.sees.values(), known, then=f", which step {step.name} sees")
            if step.makes == "reference" and step.name in sample.references:
                fact = f"sample {sample.id} has the reference {step.name!r} already"
                raise SpecError(f"{fact}; remove it from the file to have it made again")
            known.add(step.name)


def _slots(sample: Sample, step: BuildStepSpec) -> dict[str, str]:
    return {
        slot: sample.fields.get(source) or "\n".join(sample.references.get(source, ()))
        for slot, source in step.sees.items()
    }


def _decoding(spec: tasks.DecodingSpec, place: tuple[object, ...]) -> Decoding:
    seed = int(digest(place)[:7], 16) if spec.temperature else None
    return Decoding(temperature=spec.temperature, max_tokens=spec.max_tokens, seed=seed)


def _said(
    step: BuildStepSpec, response: Response, cut: Callable[[str], str]
) -> tuple[str, ...] | bool | Reason:
    """The texts or the verdict that a step's answer gives, or why it is no answer."""
    if response.failure is not None:
        return response.failure.reason
    text = cut(response.texts[0]) if response.texts else ""
    if is_blank(text):
        return Reason.EMPTY
    if step.refusals == "missing" and is_refusal(text):
        return Reason.REFUSED
    if step.makes == "reference":
        return (text,)
    if step.makes == "lines":
        lines = listed_lines(text)
        return lines if len(lines) == step.count else Reason.UNPARSED
    verdict = closing_yes_no(text)
    is_cut = verdict is Reason.UNPARSED and response.stop == "length"
    return Reason.TRUNCATED if is_cut else verdict


Ask = Callable[[Sequence[Sample], BuildSpec], Built]
"""`build` by some model, with its prompts and seed."""


@dataclass(frozen=True, slots=True)
class PerturbationPlan:
    """What is perturbed: the field, by which perturbations, by what seed."""

    field: str
    specs: Mapping[str, tasks.PerturbationSpec]
    seed: int = 0


def field_of(samples: Sequence[Sample], wanted: str | None) -> str:
    """The field to perturb: the one wanted, else `text`, else the one with the longest texts."""
    known = sorted({name for sample in samples for name in sample.fields})
    if wanted is not None and wanted not in known:
        raise SpecError(f"--field: samples have no field {wanted!r}{did_you_mean(wanted, known)}")
    longest = partial(max, known, key=lambda n: sum(len(s.fields.get(n, "")) for s in samples))
    return wanted or (TEXT if TEXT in known else longest())


MOST_TURNS = 20  # through the texts of rare classes, each with other draws


def perturbed(
    samples: Sequence[Sample], task: TaskSpec, plan: PerturbationPlan, ask: Ask | None = None
) -> tuple[list[Sample], DataFrame]:
    """The samples, then those of each perturbation; and the counts of each perturbation."""
    # Groups stay where they word the task's prompts.
    found = list(samples) if task.phrases else [replace(s, group=ORIGINAL) for s in samples]
    counts: list[tuple[object, ...]] = []
    for name, spec in plan.specs.items():
        missing: Counter[Reason] = Counter()
        if isinstance(spec, AskedSpec):
            texts, missing = _written(samples, spec, plan.field, ask)
        else:
            pairs = [(one, one.fields.get(plan.field, "")) for one in samples]
            made = {one.id: edit_text(text, spec, _draw(one, name, plan)) for one, text in pairs}
            texts = {id_: text for id_, text in made.items() if text is not None}
        changed = [one for one in samples if one.id in texts]
        found += [_sample(one, texts[one.id], task, plan=plan, name=name) for one in changed]
        left = len(samples) - len(changed) - missing.total()
        counts.append((name, spec.keeps_meaning, len(changed), left, missing))
    heads = ["perturbation", "keeps_meaning", "changed", "unchanged", "missing"]
    return found, pandas.DataFrame(counts, columns=heads)


def balanced(
    samples: Sequence[Sample], task: TaskSpec, plan: PerturbationPlan, ask: Ask | None = None
) -> tuple[list[Sample], DataFrame]:
    """As `perturbed`, of the rarer classes alone, until each is as frequent as the commonest.

    Each perturbation goes through the texts again with other draws while new copies come; a model
    that is asked writes one copy a text.
    """
    labels = Counter(one.references["label"][0] for one in samples)
    found, counts = list(samples), list[DataFrame]()
    for name, spec in plan.specs.items():
        need = {label: max(labels.values()) - count for label, count in labels.items()}
        made, known = dict[str, Sample](), {one.fields.get(plan.field, "") for one in samples}
        for turn in range(1 if isinstance(spec, AskedSpec) else MOST_TURNS):
            left = [one for one in samples if need[one.references["label"][0]] > 0]
            part = replace(plan, specs={name: spec}, seed=plan.seed + turn)
            copies, own = perturbed(left, task, part, ask)
            counts += [own] if not turn else []
            new = {one.fields[plan.field]: one for one in copies[len(left) :]}
            fits = [t for t in new if t not in {*known, *made} and _is_needed(new[t], need)]
            made |= {text: replace(new[text], id=f"{new[text].id}{turn or ''}") for text in fits}
            if not fits:
                break
        counts[-1]["changed"] = len(made)
        found += made.values()
    return found, pandas.concat(counts, ignore_index=True)


def _is_needed(sample: Sample, need: dict[str, int]) -> bool:
    """Whether its class needs one more, which is then counted."""
    label = sample.references["label"][0]
    need[label] -= 1
    return need[label] >= 0


def perturbed_task(task: TaskSpec, *, name: str, of: str, about: str) -> TaskSpec:
    """The task whose sample set is the perturbed one, under a name of its own, made of `of`."""
    sample = f"samples/{name}.jsonl"
    data = tasks.DataSpec(source=name, reader="samples_jsonl", files=(), sample=sample)
    return structs.replace(task, about=about, data=data, made_of=task.origin(of))


def sample_line(sample: Sample, sources: Sources | None = None) -> dict[str, Any]:
    """A sample as a line of the sample format, which has no place for blank references."""
    kept = {n: [text for text in texts if text.strip()] for n, texts in sample.references.items()}
    line = {field.name: getattr(sample, field.name) for field in fields(Sample)}
    line["references"] = {name: texts for name, texts in kept.items() if texts}
    return line | ({"provenance": sources} if sources else {})


def _written(
    samples: Sequence[Sample], spec: AskedSpec, field: str, ask: Ask | None
) -> tuple[dict[str, str], Counter[Reason]]:
    if ask is None:
        raise SpecError(f"perturbation {spec.about!r} asks a model; name one with --model")
    there = {s.id: s.fields[field] for s in samples if s.fields.get(field, "").strip()}
    job = BuildSpec(
        about=spec.about, steps=spec.steps, decoding=spec.decoding, postprocess=spec.postprocess
    )
    asked = [Sample(id=name, fields={TEXT: text, **spec.words}) for name, text in there.items()]
    built = ask(asked, job)
    missing, texts = Counter(built.missing), {}
    for sample, _ in built.finished:
        said, before = sample.references[spec.steps[-1].name][0], there[sample.id]
        if is_refusal(said) and not is_refusal(before):
            missing[Reason.REFUSED] += 1
        elif normal(said) != normal(before):
            texts[sample.id] = said
    return texts, missing


def _sample(
    sample: Sample, text: str, task: TaskSpec, *, plan: PerturbationPlan, name: str
) -> Sample:
    """A perturbed sample: what was measured of the original's text is not kept."""
    spec, kept, references = plan.specs[name], sample.fields, sample.references
    if taken := {FROM, BY, KEEPS} & {*references, *kept}:
        fact = f"sample {sample.id} has {min(taken)!r} already: it is perturbed"
        raise SpecError(f"{fact}; perturb its original")
    if isinstance(spec, tasks.GroupNamesSpec):
        pair = group_exchange(kept.get(plan.field, ""), spec, _draw(sample, name, plan))
        exchanged = partial(with_group_exchanged, pair=pair) if pair else str
        references = {n: tuple(map(exchanged, texts)) for n, texts in references.items()}
        kept = {n: exchanged(own) for n, own in kept.items()}
    layouts = [variant.choice for variant in task.variants.values() if variant.choice]
    numbers = {one.order for one in layouts if one.order is not None and sample.choices}
    orders = {n: tuple(str(at + 1) for at in permutation(sample, n)) for n in sorted(numbers)}
    return replace(
        sample,
        id=f"{sample.id}~{name}",
        fields={**kept, plan.field: text},
        references={
            **{n: texts for n, texts in references.items() if n != IMPLICITNESS},
            **{f"{ORDER}{number}": order for number, order in orders.items()},
            **{FROM: (sample.id,), BY: (name,), KEEPS: ("yes" if spec.keeps_meaning else "no",)},
        },
        group=sample.group if task.phrases else name,
    )


def _draw(sample: Sample, name: str, plan: PerturbationPlan) -> Random:
    return Random(f"{plan.seed}:{name}:{sample.id}")  # noqa: S311 - a reproducible draw


def perturbations_of(
    registry: Registry, methods: Sequence[str]
) -> dict[str, tasks.PerturbationSpec]:
    """The perturbations of names in their order; eda is all whose name begins with eda_."""
    known = registry.names("configs/perturbations")
    found: dict[str, tasks.PerturbationSpec] = {}
    for one in methods or ("all",):
        members = [name for name in known if one == "all" or name.startswith(f"{one}_")]
        names = [one] if one in known or not members else members
        specs = {name: registry.load("configs/perturbations", name) for name in names}
        asks = one == "all"  # and so no model
        found |= {n: s for n, s in specs.items() if not (asks and isinstance(s, AskedSpec))}
    return found


def json_lines(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """JSON lines."""
    encoded = [msgspec.json.encode(line, order="deterministic") for line in lines]
    return b"".join(line + b"\n" for line in encoded)


def write_task(folder: Path, name: str, spec: TaskSpec, *, samples: Sequence[Sample]) -> Path:
    """Write the new task and its samples into a home folder; only a task made here is replaced."""
    home = Registry.open(folder if folder.is_dir() else Path(), None)
    path = folder / "tasks" / f"{name}.yaml"
    is_ours = path.is_file() and path.read_text("utf-8").startswith(MARK)
    if name in home.names("tasks") and not is_ours:
        raise SpecError(f"there is a task {name!r} already; give the new one another with --as")
    text = yaml.safe_dump(msgspec.to_builtins(spec), sort_keys=False, allow_unicode=True, width=100)
    target = folder / "tasks" / "samples" / f"{name}.jsonl"
    write_whole(target, json_lines(map(sample_line, samples)))
    write_whole(path, (MARK + text).encode())
    return target
