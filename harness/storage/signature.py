"""Signatures, the recipes of scores in one line, to their fields and back, and to short names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Self

from harness.errors import SpecError, StoreError
from harness.specs.models import CLASSIFIERS
from harness.text.cleanup import TURNING

_UNFIT = re.compile(rf"[|\s\x00-\x1f\x7f-\x9f\ud800-\udfff{TURNING}]")
_SCALE = re.compile(r"(?:ratings|strict)-(-?\d+)-(-?\d+)(?:-x\d+)?")


@dataclass(frozen=True, slots=True)
class JudgeRecipe:
    """What a judge says of itself: its name with a digest, and its way of judging."""

    judge: str
    way: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The recipe that is printed so."""
        judge, mark, way = text.partition("|")
        if not (judge and mark and way) or "|" in way:
            raise SpecError(f"recipe {text!r} of a judge: write it as name:digest|way")
        return cls(judge, way)

    @property
    def scale(self) -> tuple[int, int] | None:
        """The least and the greatest rating of a judge that rates on one scale, else None."""
        found = _SCALE.fullmatch(self.way)
        return (int(found[1]), int(found[2])) if found else None

    def at(self, snapshot: str | None) -> str:
        """The judge with the snapshot, or the name, of the model it asks, if that is known."""
        return f"{self.judge}@{snapshot}" if snapshot else self.judge

    def __str__(self) -> str:
        return f"{self.judge}|{self.way}"


@dataclass(frozen=True, slots=True)
class Signature:
    """All that a score depends on (docs/storage.md); `version` is the model's."""

    task: str
    prompts: str
    data: str
    limit: str
    variant: str
    model: str
    kind: str
    version: str
    decoding: str
    repeats: str
    seed: str
    judge: str
    way: str
    harness: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The signature that is printed so; raises StoreError for any other text."""
        fields = text.split("|")
        if len(fields) != 8:
            raise StoreError(f"{text!r} is no signature; repeat the run to rebuild its scores")
        words, data, variant, model, decoding, judge, way, harness = fields
        drawn, repeats, seed = [*decoding.rsplit(",", 2), "", ""][:3]
        task, _, prompts = words.rpartition(":")
        label, _, limit = data.removeprefix("data:").rpartition(",")
        name, _, built = model.partition(":")
        kind, _, version = built.partition("@")
        drawn_as = (drawn, repeats.removeprefix("n"), seed.removeprefix("s"))
        named = (task, prompts, label, limit, variant, name, kind, version)
        return cls(*named, *drawn_as, judge, way, harness.removeprefix("v"))

    @property
    def fields(self) -> dict[str, str]:
        """The eight fields by name, as they are printed."""
        fields = {
            "prompts": f"{self.task}:{self.prompts}",
            "data": f"data:{self.data},{self.limit}",
            "variant": self.variant,
            "model": f"{self.model}:{self.kind}@{self.version}",
            "decoding": f"{self.decoding},n{self.repeats},s{self.seed}",
            "judge": self.judge,
            "way": self.way,
            "harness": f"v{self.harness}",
        }
        return {name: clean(field) for name, field in fields.items()}

    @property
    def recipe(self) -> JudgeRecipe:
        """The judge and its way of judging."""
        return JudgeRecipe(self.judge, self.way)

    def without(self, *names: str) -> str:
        """The signature as it is printed, some of its eight fields left out."""
        return "|".join(field for name, field in self.fields.items() if name not in names)

    def __str__(self) -> str:
        return self.without()


def clean(field: str) -> str:
    """A field that ends neither itself nor the line, and that a terminal does not obey."""
    return _UNFIT.sub("_", field)


def clean_signature(text: str) -> str:
    """A stored signature with each field clean."""
    return "|".join(map(clean, text.split("|")))


MODEL: Final = "model"
_CONTROL: Final = "samples of a control"
_FORMS: Final[Mapping[str, str]] = {
    **dict.fromkeys((MODEL, "kind", "version", _CONTROL, "source"), "{}"),
    **{"data": "data {}", "scale": "{}", "limit": "{} samples", "variant": "{}"},
    **{"prompts": "prompts {}", "decoding": "{}", "repeats": "n{}", "seed": "seed {}"},
    **{"judge": "{}", "way": "{}", "harness": "v{}"},
}
"""How each part is written in a name, in the order of the parts."""
_ALIKE: Final[Mapping[str, Sequence[str]]] = {
    "kind": (MODEL,),
    "version": (MODEL, "kind", _CONTROL),
    "data": ("source",),
    "prompts": ("variant", "decoding"),
}
"""A part is named only where it differs although these parts are alike."""


def short_labels(sources: Mapping[str, str]) -> dict[str, str]:
    """A name for each signature, given with its source: the model, then whatever differs."""
    parts = {text: _parts(Signature.parse(text), source) for text, source in sources.items()}

    def is_named(key: str) -> bool:
        alike = [tuple(own[name] for name in _ALIKE.get(key, ())) for own in parts.values()]
        pairs = {(*same, own[key]) for same, own in zip(alike, parts.values(), strict=True)}
        return key == MODEL or len(pairs) > len({*alike})

    keys = [key for key in next(iter(parts.values()), {}) if key != _CONTROL and is_named(key)]
    return {text: ", ".join(own[key] for key in keys) for text, own in parts.items()}


def _parts(signature: Signature, source: str) -> dict[str, str]:
    known = asdict(signature)
    if signature.kind in CLASSIFIERS:
        known["decoding"] = "label"
    known["data"], _, scale = signature.data.partition("+")
    # A control is built with its samples, so that its version changes with them.
    known[_CONTROL] = signature.data if signature.kind == "scripted" else ""
    known |= {"source": source, "scale": scale or "no implicitness"}
    return {name: form.format(known[name]) for name, form in _FORMS.items()}
