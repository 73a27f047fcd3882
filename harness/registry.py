"""Names to files to specs to objects: the folders are the registry.

`--model NAME` means configs/models/NAME.yaml, looked for in the user's home folder first. The
kind of a spec picks its class here, and here alone are back ends and judges imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.core import Judge, Model, Sample
from harness.errors import SpecError, did_you_mean
from harness.models.client.batch_api import BatchServer
from harness.models.client.endpoint import Endpoint
from harness.models.client.pricing import Price, price_of
from harness.specs import data, encoders, judges, models
from harness.specs.hosted import PricesSpec
from harness.specs.implicitness import RecipeSpec
from harness.specs.imports import MapSpec
from harness.specs.models import Backend, rebacked
from harness.specs.published import GoldenSpec
from harness.specs.schema import load_spec, read_yaml
from harness.specs.tasks import TaskSpec
from harness.specs.transforms import BuildSpec, PerturbationSpec
from harness.text.prompts import Prompts

if TYPE_CHECKING:
    from harness.implicitness.scorer import Scorer
    from harness.models.encoders.encoders import Encoder

Section = Literal[
    "tasks",
    "configs/builds",
    "configs/data",
    "configs/golden",
    "configs/imports",
    "configs/judges",
    "configs/models",
    "configs/perturbations",
    "configs/recipes",
    "configs/scorers",
    "configs/tables",
]
READERS = {
    "emphasized_talk": "harness.data.readers.emphasized_talk",
    "hu2022": "harness.data.readers.hu2022",
    "labelled_table": "harness.data.readers.labelled_table",
    "ludwig": "harness.data.readers.ludwig",
    "intent_resolution": "harness.data.readers.intent_resolution",
    "topical_chat": "harness.data.readers.topical_chat",
    "samples_jsonl": "harness.data.readers.samples_jsonl",
}


def shipped_home() -> Path:
    """The folder that tasks/, configs/ and prompts/ ship in: the wheel's, or the checkout."""
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

    @property
    def prompts(self) -> Prompts:
        """The templates of the prompt pack, then those of the homes."""
        if self.prompt_pack is not None and not self.prompt_pack.is_dir():
            raise SpecError(f"--prompts {self.prompt_pack}: no such folder")
        packs = [self.prompt_pack] if self.prompt_pack else []
        return Prompts([*packs, *(home / "prompts" for home in self.homes)])

    def names(self, section: Section) -> list[str]:
        """Every name of a section, sorted."""
        found = {path.stem for home in self.homes for path in (home / section).glob("*.yaml")}
        return sorted(found)

    def file(self, section: Section, name: str) -> Path:
        """The YAML file of a name; an unknown one is an error that names the nearest."""
        for home in self.homes:
            if name in {path.stem for path in (home / section).glob("*.yaml")}:
                return home / section / f"{name}.yaml"
        word = section.removeprefix("configs/").removesuffix("s")
        searched = ", ".join(str(home / section) for home in self.homes)
        raise SpecError(
            f"no {word} {name!r} in {searched}{did_you_mean(name, self.names(section))}"
        )

    def task(self, name: str) -> TaskSpec:
        """The task of a name."""
        path = self.file("tasks", name)
        spec: TaskSpec = load_spec(read_yaml(path), TaskSpec, where=str(path))
        if (reader := spec.data.reader) not in READERS:
            raise SpecError(f"{path}: no reader {reader!r}{did_you_mean(reader, list(READERS))}")
        for variant in spec.default_variants:
            if variant not in spec.variants:
                raise SpecError(
                    f"{path}: default variant {variant!r} is not defined"
                    f"{did_you_mean(variant, list(spec.variants))}"
                )
        return spec

    def source(self, name: str) -> data.SourceSpec:
        """The data source of a name."""
        path = self.file("configs/data", name)
        spec: data.SourceSpec = load_spec(read_yaml(path), data.SourceSpec, where=str(path))
        return spec

    def build_spec(self, name: str) -> BuildSpec:
        """The data-making job of a name."""
        path = self.file("configs/builds", name)
        spec: BuildSpec = load_spec(read_yaml(path), BuildSpec, where=str(path))
        return spec

    def golden(self, name: str) -> GoldenSpec:
        """The published numbers of a paper or source."""
        path = self.file("configs/golden", name)
        spec: GoldenSpec = load_spec(read_yaml(path), GoldenSpec, where=str(path))
        return spec

    def import_map(self, name: str) -> MapSpec:
        """The column map of a name, or of the path of a YAML file."""
        is_path = name.endswith((".yaml", ".yml"))
        path = Path(name) if is_path else self.file("configs/imports", name)
        spec: MapSpec = load_spec(read_yaml(path), MapSpec, where=str(path))
        return spec

    def perturbation_spec(self, name: str) -> PerturbationSpec:
        """The perturbation of a name."""
        path = self.file("configs/perturbations", name)
        spec: PerturbationSpec = load_spec(read_yaml(path), PerturbationSpec, where=str(path))
        return spec

    def overlay(self, name: str) -> data.OverlaySpec:
        """The corrections that a task names, as a path below tasks/."""
        path = self.resource(name)
        spec: data.OverlaySpec = load_spec(read_yaml(path), data.OverlaySpec, where=str(path))
        return spec

    def resource(self, name: str) -> Path:
        """A file that a task names, as a path below tasks/."""
        found = next(
            (h / "tasks" / name for h in self.homes if (h / "tasks" / name).is_file()), None
        )
        if found is None:
            raise SpecError(f"tasks/{name} is in none of {', '.join(map(str, self.homes))}")
        return found

    def model_spec(self, name: str, backend: Backend | None = None) -> models.ModelSpec:
        """The model of a name, run by another back end where one is asked for."""
        path = self.file("configs/models", name)
        content = read_yaml(path)
        if backend is not None:
            content = rebacked(content, backend, where=path)
        spec: models.ModelSpec = load_spec(content, models.ModelSpec, where=str(path))
        return spec

    def judge_spec(self, name: str) -> judges.JudgeSpec:
        """The judge of a name."""
        path = self.file("configs/judges", name)
        spec: judges.JudgeSpec = load_spec(read_yaml(path), judges.JudgeSpec, where=str(path))
        return spec

    def model(
        self,
        name: str,
        spec: models.ModelSpec,
        *,
        task: TaskSpec | None = None,
        samples: Sequence[Sample] = (),
    ) -> Model:
        """The model of a spec; controls are built with the task and its samples."""
        match spec:
            case models.ScriptedSpec(policy=policy):
                from harness.models.scripted import control

                sources, variants = (task.controls, task.variants) if task else ({}, {})
                layouts = {n: spec.choice for n, spec in variants.items() if spec.choice}
                return control(name, policy, sources=sources, samples=samples, layouts=layouts)
            case models.OpenAISpec():
                from harness.models.openai.model import OpenAIModel

                return OpenAIModel(name, spec, self.environ)
            case models.TransformersSpec():
                from harness.models.local.transformers_lm import TransformersModel

                return TransformersModel(name, spec, self.cache / "checkpoints")
            case models.VllmSpec():
                from harness.models.local.vllm_model import VllmModel

                return VllmModel(name, spec, self.cache / "checkpoints")
            case models.AnthropicSpec():
                from harness.models.anthropic.model import AnthropicModel

                return AnthropicModel(name, spec, self.environ)
            case models.SklearnSpec() | models.ClassifierSpec() | models.ModerationSpec():
                raise SpecError(
                    f"model {name} gives texts the labels of a task and writes nothing; name one "
                    "that answers prompts"
                )

    def batch_server(self, model: Model) -> BatchServer:
        """Where a hosted model is asked in batches."""
        from harness.models.anthropic.batches import AnthropicBatches
        from harness.models.anthropic.model import AnthropicModel
        from harness.models.openai.batches import OpenAIBatches
        from harness.models.openai.model import OpenAIModel

        match model:
            case OpenAIModel():
                return OpenAIBatches(model)
            case AnthropicModel():
                return AnthropicBatches(model)
            case _:
                raise SpecError(
                    f"--batch: model {model.name} of kind {model.kind} is not asked in batches; "
                    "answer without --batch, then have `harness judge RUN --batch` judge in batches"
                )

    def check_key(self, name: str) -> None:
        """Refuse a hosted model whose key the environment lacks."""
        spec = self.model_spec(name)
        if isinstance(spec, models.HostedSpec):
            _ = Endpoint.of(spec, self.environ, name=name).key

    def price(self, name: str) -> Price | None:
        """What the tokens of a hosted model cost; null where no price is known."""
        spec = self.model_spec(name)
        if not isinstance(spec, models.HostedSpec):
            return None
        beside = _room_beside(spec)
        for home in self.homes:
            if (path := home / "configs" / "prices.yaml").is_file():
                listed: PricesSpec = load_spec(read_yaml(path), PricesSpec, where=str(path))
                if (found := listed.prices.get(spec.model)) is not None:
                    return price_of(found, reasoning_max_tokens=beside)
        return None

    def priced_as(self, name: str) -> str | None:
        """What prices.yaml calls a hosted model; null for another."""
        spec = self.model_spec(name)
        return spec.model if isinstance(spec, models.HostedSpec) else None

    def has_key(self, name: str) -> bool:
        """Whether a model is asked with a key, as those are that cost money."""
        spec = self.model_spec(name)
        return isinstance(spec, models.HostedSpec) and spec.key_env is not None

    def judge(self, name: str, spec: judges.JudgeSpec, *, identity: str | None) -> Judge:
        """The judge of a spec; `identity` is that of its judge model, null where it asks none."""
        match spec:
            case judges.PreferenceSpec():
                from harness.judges.preference import PreferenceJudge

                return PreferenceJudge(
                    name, spec, prompts=self.prompts, model=_known(identity, judge=name)
                )
            case judges.RatingSpec():
                from harness.judges.rating import RatingJudge

                return RatingJudge(
                    name, spec, prompts=self.prompts, model=_known(identity, judge=name)
                )
            case judges.StatedSpec():
                from harness.judges.rating import StatedJudge

                return StatedJudge(name, spec)
            case judges.CosineSpec(encoder=encoders.HostedEncoderSpec()):
                from harness.judges.cosine import CosineJudge, Hosted

                return CosineJudge(name, spec, Hosted(_known(identity, judge=name)))
            case judges.CosineSpec():
                from harness.judges.cosine import CosineJudge

                # mypy does not take HostedEncoderSpec, matched above, out of the union.
                local: encoders.LocalEncoderSpec = spec.encoder  # type: ignore[assignment]
                return CosineJudge(name, spec, self.encoder(local))
            case judges.BertScoreSpec():
                from harness.judges.bertscore import BertScoreJudge

                return BertScoreJudge(name, spec)
            case judges.ContrastSpec():
                from harness.judges.contrast import ContrastJudge

                return ContrastJudge(name, spec, self.encoder(spec.encoder))
            case judges.GoldSpec():
                from harness.judges.gold import GoldJudge

                return GoldJudge(name, spec)

    def scorer(self, name: str) -> "Scorer":
        """The scorer of implicitness of a name, or of the path of its files."""
        from harness.implicitness.open import open_scorer

        return open_scorer(
            name,
            lambda known: self.file("configs/scorers", known),
            encoders=self.encoder,
            cache=self.cache / "trained_on",
        )

    def recipe(self, name: str) -> tuple[str, RecipeSpec]:
        """The recipe of a name, or of the path of its YAML, and the name it goes by."""
        is_path = Path(name).suffix in (".yaml", ".yml")
        path = Path(name).expanduser() if is_path else self.file("configs/recipes", name)
        spec: RecipeSpec = load_spec(read_yaml(path), RecipeSpec, where=str(path))
        return path.stem, spec

    def encoder(self, spec: encoders.LocalEncoderSpec) -> "Encoder":
        """The encoder of a spec: one of each kind and setting in a process."""
        from harness.models.encoders.factory import encoder_of

        return encoder_of(spec)

    def read(
        self, reader: str, files: Sequence[Path], overlay: data.OverlaySpec | None
    ) -> list[Sample]:
        """The samples of some files, by the reader of a name."""
        samples: list[Sample] = import_module(READERS[reader]).read(files, overlay)
        return samples


def _room_beside(spec: models.HostedSpec) -> int:
    """The tokens a reply may have beside the most of its decoding."""
    if isinstance(spec, models.OpenAISpec) and spec.api == "responses":
        from harness.models.openai.responses import LEAST_TOKENS

        return max(spec.reasoning_max_tokens, LEAST_TOKENS - 1)
    return spec.reasoning_max_tokens


def _known(identity: str | None, *, judge: str) -> str:
    """The identity of a judge's model, which a judge that asks cannot do without."""
    if identity is None:
        raise SpecError(
            f"judge {judge} asks a model, and asked none when it read this run; judge again"
        )
    return identity
