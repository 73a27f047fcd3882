"""Names to files to specs to objects: the folders are the registry, the user's own first."""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec
import yaml
from msgspec import Struct, structs

from harness.core import Judge, Model, Sample
from harness.errors import SpecError, check_names, did_you_mean
from harness.judges.custom import JudgeContext, SourcedJudge
from harness.models.custom import ModelContext, SourcedModel
from harness.models.spread import HERE, Executor, placed
from harness.specs import data, implicitness, judges, layouts, models, plans, plugins, sheets, tasks
from harness.specs.data import OverlaySpec
from harness.specs.models import Backend, ModelSpec, PricesSpec, is_usual_variable
from harness.specs.schema import json_schema, kinds_of, load_spec, read_yaml
from harness.specs.tasks import TaskSpec
from harness.text.prompts import Prompts

if TYPE_CHECKING:
    from harness.implicitness.open import TextScorer
    from harness.implicitness.scorer import Scorer
    from harness.models.client.batches import BatchServer
    from harness.models.client.cached import Price
    from harness.models.client.endpoint import Endpoint
    from harness.models.encoders.encoders import Encoder

Section = str  # a key of SPECS: the folder of a kind of YAML files in each home
SPECS: Mapping[Section, Any] = {
    "tasks": TaskSpec,
    "configs/annotations": sheets.AnnotationSpec,
    "configs/builds": tasks.BuildSpec,
    "configs/data": data.SourceSpec,
    "configs/golden": data.GoldenSpec,
    "configs/imports": data.MapSpec,
    "configs/judges": judges.JudgeSpec,
    "configs/layouts": layouts.LayoutSpec,
    "configs/models": ModelSpec,
    "configs/pairs": data.PairMapSpec,
    "configs/perturbations": tasks.PerturbationSpec,
    "configs/plans": plans.PlanSpec,
    "configs/recipes": implicitness.RecipeSpec,
    "configs/scorers": implicitness.ScorerSpec,
    "configs/sheets": sheets.SheetSpec,
    "configs/tables": data.TableSpec,
}
# Sections whose files may also be named by a path; what runs code is named by its home alone.
BY_PATH = frozenset(
    f"configs/{name}" for name in ("imports", "layouts", "pairs", "plans", "recipes", "tables")
)
MODELS = {
    "anthropic": "harness.models.anthropic.model:AnthropicModel",
    "openai": "harness.models.openai.model:OpenAIModel",
    "scripted": "harness.models.scripted:ScriptedModel",
    "transformers": "harness.models.local.transformers_lm:TransformersModel",
    "vllm": "harness.models.local.vllm_model:VllmModel",
}
JUDGES = {
    "bertscore": "harness.judges.nearness:BertScoreJudge",
    "contrast": "harness.judges.nearness:ContrastJudge",
    "cosine": "harness.judges.nearness:CosineJudge",
    "gold": "harness.judges.gold:GoldJudge",
    "preference": "harness.judges.asking:PreferenceJudge",
    "rating": "harness.judges.asking:RatingJudge",
    "stated": "harness.judges.asking:StatedJudge",
}
_NAMES = ("emphasized_talk", "hu2022", "intent_resolution", "labelled_table", "ludwig")
READERS = {
    name: f"harness.data.readers.{name}:read" for name in (*_NAMES, "samples_jsonl", "topical_chat")
}
BATCHES = {
    "anthropic": "harness.models.anthropic.model:AnthropicBatches",
    "openai": "harness.models.openai.model:OpenAIBatches",
}
KINDS: Mapping[plugins.Group, Mapping[str, str]] = {
    "harness.models": MODELS,
    "harness.judges": JUDGES,
    "harness.readers": READERS,
}
EXTENDED: Mapping[Section, plugins.Group] = {
    "configs/models": "harness.models",
    "configs/judges": "harness.judges",
}
_PLACED = re.compile(r"(hf|openai):([\w./:-]*[\w-])(?:@(https?://\S+))?")
_HERE = re.compile(r"https?://(localhost|127\.|\[::1\])")
_log = logging.getLogger(__name__)
# The name of a model with the augmentations that it was trained on.
AUGMENTED = re.compile(r"[\w.-]+(?:\+[\w.-]+)+")
Samples = Sequence[Sample]
Reader = Callable[[Sequence[Path], OverlaySpec | None], list[Sample]]


def shipped_home() -> Path:
    """Return the folder of the shipped tasks/, configs/ and prompts/: the wheel's or checkout's."""
    package = Path(__file__).parent
    packed = package / "_home"
    return packed if packed.is_dir() else package.parent


@dataclass(frozen=True, slots=True)
class Registry:
    """Finds what a name means in some home folders, the first that has it winning."""

    homes: tuple[Path, ...]
    environ: Mapping[str, str]
    cache: Path
    prompt_pack: Path | None = None
    executor: Executor = HERE

    @classmethod
    def open(cls, home: Path = Path(), prompts: Path | None = None) -> "Registry":
        """Open the registry of a home folder and of what ships, with a pack of templates or none.

        The cache is the folder in HARNESS_CACHE, else one below the user's cache folder.
        """
        for option, folder in {"--home": home, "--prompts": prompts}.items():
            if folder is not None and not folder.is_dir():
                raise SpecError(f"{option} {folder}: no such folder")
        homes = dict.fromkeys([home.resolve(), shipped_home().resolve()])
        cache = os.environ.get("HARNESS_CACHE")
        return cls(tuple(homes), os.environ, Path(cache) if cache else _users_cache(), prompts)

    @property
    def prompts(self) -> Prompts:
        """The templates of the prompt pack, then those of the homes."""
        packs = [self.prompt_pack] if self.prompt_pack else []
        folders = [*packs, *(home / "prompts" for home in self.homes)]
        return Prompts(folders, shipped_home().resolve() / "prompts")

    def names(self, section: Section) -> list[str]:
        """List every name of a section, sorted."""
        return sorted({p.stem for home in self.homes for p in (home / section).glob("*.yaml")})

    def all(self, section: Section) -> dict[str, Any]:
        """The spec of each name of a section."""
        return {name: self.load(section, name) for name in self.names(section)}

    def about(self, section: Section, name: str) -> tuple[str, str]:
        """A YAML file's lines `kind` and `about`, read without parsing or checking the file."""
        text = self.file(section, name).read_text("utf-8", "replace")
        line = r"(?m)^%s:[ \"']*(.*?)[ \"']*(?: #.*)?$"
        kind, about = ([*re.findall(line % key, text), ""][0] for key in ("kind", "about"))
        return kind, about

    def file(self, section: Section, name: str) -> Path:
        """Find the YAML file of a name; an unknown one is an error that names the nearest.

        In sections BY_PATH the name may be the path of a YAML file. A model that was trained on
        augmented rows, as minilm-svm+bt, has the file of the one before the plus.
        """
        if section in BY_PATH and name.endswith((".yaml", ".yml")):
            return Path(name).expanduser()
        known, is_model = self.names(section), section == "configs/models"
        if is_model and name not in known and AUGMENTED.fullmatch(name):
            return self.file(section, name.partition("+")[0])
        for path in (home / section / f"{name}.yaml" for home in self.homes if name in known):
            if path.is_file():
                if not name.isprintable() or name != name.strip() or {*"|:"} & {*name}:
                    raise SpecError(
                        f"{path}: {name!r} is no name that a table or a signature can hold; rename "
                        "the file: no line ends, control characters, bars or colons"
                    )
                return path
        if is_model and "/" in name:
            raise SpecError(
                f"no model {name!r}: a model goes by the name of its file; write configs/models/"
                f"NAME.yaml with `kind: transformers` and `model: {name}`, and give that name, or "
                "have `run --model hf:ORG/NAME`, or openai:NAME@URL, write it"
            )
        kind = section.removeprefix("configs/")
        searched = ", ".join(str(home / section) for home in self.homes)
        listing = "" if kind in ("golden", "recipes") else f"harness list {kind}"
        hint = did_you_mean(name, known, listing)
        raise SpecError(f"no {kind.removesuffix('s')} {name!r} in {searched}{hint}")

    @overload
    def load(self, section: Literal["tasks"], name: str) -> TaskSpec: ...
    @overload
    def load(self, section: Literal["configs/judges"], name: str) -> judges.JudgeSpec: ...
    @overload
    def load(
        self, section: Literal["configs/models"], name: str, backend: Backend | None = None
    ) -> ModelSpec: ...
    @overload
    def load(self, section: Literal["configs/tables"], name: str) -> data.TableSpec: ...
    @overload
    def load(self, section: Section, name: str) -> Any: ...  # noqa: ANN401 - by SPECS

    def load(self, section: Section, name: str, backend: Backend | None = None) -> Any:
        """Return the spec of a name, checked; a local model's as run by another back end."""
        path = self.file(section, name)
        content = read_yaml(path)
        if backend is not None:
            content = models.rebacked(content, backend, where=path)
        kind, spec_type = content.get("kind"), SPECS[section]
        known = kinds_of(spec_type)
        if section in EXTENDED and isinstance(kind, str) and kind not in known:
            added = plugins.plugin(EXTENDED[section], kind, known=known, where=str(path))
            spec_type = plugins.spec_of(added, kind, where=str(path))
        spec = load_spec(content, spec_type, where=str(path))
        if isinstance(spec, TaskSpec):
            _check_task(spec, path)
        if "+" in name and path.stem != name and not isinstance(spec, models.TrainedSpec):
            raise SpecError(f"no model {name!r}: {path.stem} is not trained here; name it alone")
        entry = content.get("entry", "") if kind == plugins.OWN else ""
        if entry.partition(":")[0].endswith(".py"):  # counts from the YAML's folder
            spec = structs.replace(spec, entry=str(path.parent / Path(entry).expanduser()))
        return spec

    def filed(self, name: str) -> str:
        """The name of a model that is given by its place, hf:ORG/NAME or openai:NAME@URL.

        Its YAML file is written into the first home, unless a file there says the same.
        """
        if not (found := _PLACED.fullmatch(name)):
            return name
        kind, model, url = found.groups()
        facts = {"about": f"{name}.", "kind": "transformers" if kind == "hf" else kind}
        facts |= {"model": model} | ({"base_url": url} if url else {})
        facts |= {"key_env": None} if url and _HERE.match(url) else {}
        short = re.sub(r"\W*:\W*", "-", model.rpartition("/")[2])
        path = self.homes[0] / "configs/models" / f"{short}.yaml"
        if short not in self.names("configs/models"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(facts, sort_keys=False), "utf-8")
            _log.warning("wrote %s: from now on the model is called %s", path, short)
        known = structs.asdict(self.load("configs/models", short))
        if any(known.get(key, value) != value for key, value in facts.items() if key != "about"):
            place = self.file("configs/models", short)
            raise SpecError(f"{name}: {place} is another model; write a file of another name")
        return short

    def resource(self, name: str) -> Path:
        """Find a file that a task names, as a path below tasks/."""
        for home in self.homes:
            if (path := home / "tasks" / name).is_file():
                return path
        raise SpecError(f"tasks/{name} is in none of {', '.join(map(str, self.homes))}")

    def model(
        self, name: str, spec: ModelSpec, task: TaskSpec | None = None, samples: Samples = ()
    ) -> Model:
        """Build the model of a spec; controls are built with the task and its samples."""
        if isinstance(spec, models.LabellingSpec):
            raise SpecError(f"model {name} labels texts; name one that answers prompts")
        where, context = f"model {name}", ModelContext(self.environ, self.cache, task, samples)
        made_by = _made_by("harness.models", spec, where=where)
        if isinstance(spec, models.LocalSpec) and not made_by.source:
            build = partial(made_by.value.build, name, spec, ModelContext({}, self.cache))
            local: Model = placed(self.executor, build)
            return local
        model: Model = plugins.build(made_by, name, spec, context, protocol=Model, where=where)
        return SourcedModel(name, _kind(spec), model, made_by) if made_by.source else model

    def judge(self, name: str, spec: judges.JudgeSpec, *, identity: str | None) -> Judge:
        """Build the judge of a spec; `identity` is that of its model, None where it asks none."""
        where = f"judge {name}"
        context = JudgeContext(self.prompts, self.encoder, identity, executor=self.executor)
        made_by = _made_by("harness.judges", spec, where=where)
        judge: Judge = plugins.build(made_by, name, spec, context, protocol=Judge, where=where)
        return SourcedJudge(name, judge, made_by) if made_by.source else judge

    def reader(self, name: str) -> plugins.Extension:
        """Find the reader of a name, of `file.py:function` below tasks/, or of module:function."""
        where = f"reader {name}"
        if name in READERS:
            return plugins.shipped(READERS[name])
        if ":" not in name:
            return plugins.plugin("harness.readers", name, known=READERS, where=where)
        place, _, function = name.rpartition(":")
        path = str(self.resource(place)) if place.endswith(".py") else place
        return plugins.own_entry(f"{path}:{function}", Path(), where=where)

    def read(self, reader: str, files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
        """Read the samples of some files, by the reader of a name."""
        found = self.reader(reader)
        read: Reader = found.value
        if not found.source:
            return read(files, overlay)
        with plugins.foreign_code(f"reader {reader}"):
            samples = list(read(files, overlay))
            if wrong := [part for part in samples if not isinstance(part, Sample)]:
                raise TypeError(f"gives {wrong[0]!r}, which is no harness.core.Sample")
            for part in samples:
                texts = chain(part.fields.values(), *part.references.values(), part.choices)
                if odd := [x for x in (part.id, part.group, *texts) if not isinstance(x, str)]:
                    raise TypeError(f"sample {part.id}: {odd[0]!r} is no text")
        return samples

    def batch_server(self, model: Model) -> "BatchServer[Any]":
        """Return the batches API of a hosted model."""
        if model.kind not in BATCHES:
            raise SpecError(
                f"--batch: model {model.name} of kind {model.kind} is not asked in batches; "
                "answer without --batch, then have `harness judge RUN --batch` judge in batches"
            )
        server: BatchServer[Any] = plugins.shipped(BATCHES[model.kind]).value(model)
        return server

    def hosted(self, name: str) -> models.HostedSpec | None:
        """Return the spec of a hosted model; None for another."""
        spec = self.load("configs/models", name)
        return spec if isinstance(spec, models.HostedSpec) else None

    def endpoint(self, name: str) -> "Endpoint | None":
        """Return the server of a hosted model; None for another."""
        from harness.models.client.endpoint import Endpoint

        spec = self.hosted(name)
        return None if spec is None else Endpoint.of(spec, self.environ, name=name)

    def check_key(self, name: str) -> None:
        """Refuse a hosted model whose key is not in the environment."""
        _ = (endpoint := self.endpoint(name)) and endpoint.key

    def is_unpaid(self, name: str) -> bool:
        """Whether a hosted model is a server on this machine without a key, and has no price."""
        endpoint = self.endpoint(name)
        is_open = endpoint is not None and not endpoint.key_env and not endpoint.remote_host
        return is_open and self.price(name) is None

    def price(self, name: str) -> "Price | None":
        """Return what the tokens of a hosted model cost; None where no price is known."""
        from harness.models.client.cached import price_of
        from harness.models.openai.bodies import LEAST_TOKENS

        if (spec := self.hosted(name)) is None:
            return None
        is_wide = isinstance(spec, models.OpenAISpec) and spec.api == "responses"
        reasoning = max(spec.reasoning_max_tokens, LEAST_TOKENS - 1 if is_wide else 0)
        for path in filter(Path.is_file, (home / "configs/prices.yaml" for home in self.homes)):
            listed: PricesSpec = load_spec(read_yaml(path), PricesSpec, where=str(path))
            if (found := listed.prices.get(spec.model)) is not None:
                return price_of(found, reasoning_max_tokens=reasoning)
        return None

    def scorer(self, name: str) -> "Scorer":
        """Open the scorer of implicitness of a name, or of the path of its files."""
        from harness.implicitness.open import open_scorer

        find = partial(self.file, "configs/scorers")
        return open_scorer(name, find, encoders=self.encoder, executor=self.executor)

    def text_scorer(self, name: str) -> "TextScorer":
        """Open the scorer of a task's texts, which may be one of the user's own."""
        from harness.implicitness.open import OwnScorer, ScoresTexts

        spec = self.load("configs/scorers", name) if name in self.names("configs/scorers") else None
        if not isinstance(spec, implicitness.PythonScorerSpec):
            return self.scorer(name)
        where, context = f"scorer {name}", ModelContext(self.environ, self.cache)
        made_by = plugins.own_entry(spec.entry, Path(), where=where)
        scorer = plugins.build(made_by, name, spec, context, protocol=ScoresTexts, where=where)
        return OwnScorer(name, spec, scorer, made_by)

    def encoder(self, spec: implicitness.LocalEncoderSpec) -> "Encoder":
        """Return the encoder of a spec: one of each kind and setting in a process."""
        from harness.models.encoders.encoders import encoder_of

        return encoder_of(spec, self.executor)


def _made_by(group: plugins.Group, spec: Struct, *, where: str) -> plugins.Extension:
    kind, known = _kind(spec), KINDS[group]
    if kind == plugins.OWN:
        return plugins.own_entry(str(structs.asdict(spec)["entry"]), Path(), where=where)
    if kind in known:
        return plugins.shipped(known[kind])
    return plugins.plugin(group, kind, known=known, where=where)


def _kind(spec: Struct) -> str:
    return str(type(spec).__struct_config__.tag)


def _check_task(spec: TaskSpec, path: Path) -> None:
    reader, known = spec.data.reader, [*READERS]
    if reader not in known and ":" not in reader:
        known += plugins.plugin_kinds("harness.readers")
        check_names(f"{path}: no reader", [reader], known)
    fact, names = f"{path}: default variant", spec.default_variants
    check_names(fact, names, spec.variants, then=" is not defined")


def without_keys(text: str, registry: Registry) -> str:
    """A YAML file without what some write as `key_env` in place of a variable's name: the key."""

    def shown(found: re.Match[str]) -> str:
        name = found[2]
        is_shown = name in ("null", "~") or name in registry.environ or is_usual_variable(name)
        return found[0] if is_shown else f"{found[1]}[not shown: the name of no variable]"

    return re.sub(r"""(key_env['"]?\s*:\s*['"]?)([^\s'",}]+)""", shown, text)


def schema_text(kind: str, *, has_plugins: bool = True) -> str:
    """Return the JSON schema of a kind of file as text, in one order of keys."""
    known: dict[str, Any] = {"overlay": OverlaySpec, "prices": PricesSpec}
    for section, spec in SPECS.items():
        name = section.removeprefix("configs/").removesuffix("s")
        known[name], group = spec, EXTENDED.get(section)
        if has_plugins and group is not None:
            for added in sorted({*plugins.plugin_kinds(group)} - KINDS[group].keys()):
                plugin = plugins.plugin(group, added, known=(), where=group)
                known[name] |= plugins.spec_of(plugin, added, where=group)
    check_names("no kind of file", [kind], known)
    content = msgspec.json.encode(json_schema(known[kind], title=f"harness {kind}"))
    return msgspec.json.format(content, indent=1).decode() + "\n"


def _users_cache() -> Path:
    """The folder of this program in the user's cache; SpecError where the user has no home."""
    try:
        own = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise SpecError("this user has no home folder; set HARNESS_CACHE to a folder") from None
    return Path(own) / "pragmatics-harness"
