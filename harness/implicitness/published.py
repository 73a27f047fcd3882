"""Weights in the form in which the metric's authors publish them, to a scorer.

A folder of the hub, or a copy of it: a torch state dict with the matrices and the encoder's
weights, and a JSON file with the arguments of the training. Nothing in it is run: state dicts
that hold more than weights are refused. No encoder is opened before the first text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from harness.errors import ModelError, SpecError
from harness.implicitness.formula import PUBLISHED, Direction, Distance, Form
from harness.implicitness.head import Head
from harness.implicitness.scorer import Scorer
from harness.implicitness.state_dicts import WEIGHTS, parted, plain, read_weights
from harness.implicitness.tuned_encoder import TunedEncoder
from harness.models.local.checkpoints import explained, need
from harness.specs.encoders import SentenceTransformerSpec
from harness.specs.scorers import PublishedSpec

# Names of arguments and of their values, in small letters and digits alone.
ARGUMENTS: Final = {
    "direction": {"spacedirect", "spacedirection", "direction"},
    "implicitness": {"impmetric", "implicitnessmetric", "implicitness"},
    "pragmatic": {"pragmetric", "pragmaticmetric", "pragmatic"},
    "features": {"featdim", "featuredim", "features"},
}
DIRECTIONS: Final = {
    **dict.fromkeys(("p2s", "ptos", "ps"), Direction.TO_SEMANTIC),
    **dict.fromkeys(("s2p", "stop", "sp"), Direction.TO_PRAGMATIC),
    **dict.fromkeys(("third", "thirdspace", "3rd", "3rdspace"), Direction.THIRD),
}
DISTANCES: Final = {
    **dict.fromkeys(("cos", "cosine"), Distance.COSINE),
    **dict.fromkeys(("euc", "eucl", "euclidean", "l2"), Distance.EUCLIDEAN),
}
Value = TypeVar("Value", Direction, Distance)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """What the JSON file says of the form; null where it says nothing."""

    direction: str | None = None
    implicitness: str | None = None
    pragmatic: str | None = None
    features: int | None = None


def published_scorer(
    name: str, spec: PublishedSpec, *, seen: frozenset[str] = frozenset()
) -> Scorer:
    """The scorer of a hub snapshot or folder; its encoder is loaded at the first text.

    `seen` has the fingerprints of the texts it was trained on; none where nobody knows.
    """
    need("torch", "sentence_transformers")
    folder = _folder(spec)
    path = _weight_file(folder, spec)
    given = _arguments(folder)
    form = _form(spec, given, folder)
    found = parted(read_weights(path), spec, form=form, features=given.features, path=path)
    encoder = TunedEncoder(spec.encoder, spec.encoder_revision, weights=found.encoder)
    head = Head(
        name=name,
        members=(found.maps,),
        encoder=SentenceTransformerSpec(model=spec.encoder, revision=spec.encoder_revision),
        encoder_digest=encoder.digest,
        form=form,
        seen=seen,
    )
    return Scorer(name, head, encoder)


def _folder(spec: PublishedSpec) -> Path:
    """The folder of the files: a local one, or the hub's snapshot of a name."""
    if spec.model is None:
        raise SpecError(
            "the published weights are gated and ship with nobody: copy the scorer's YAML to "
            "configs/scorers/ in your home folder and set `model:` to their hub name, after "
            "`hf auth login`, or to a folder of yours that holds them"
        )
    path = Path(spec.model).expanduser()
    if path.is_dir():
        return path
    if spec.model.startswith((".", "/", "~")):
        raise ModelError(
            f"{spec.model}: no such folder; `model:` takes the published files' folder"
        )
    from huggingface_hub import snapshot_download

    with explained(spec.model):
        patterns = ["*.json", *(f"*{ending}" for ending in sorted(WEIGHTS))]
        return Path(snapshot_download(spec.model, revision=spec.revision, allow_patterns=patterns))


def _weight_file(folder: Path, spec: PublishedSpec) -> Path:
    """The one file of weights in a folder, or the one that is named."""
    found = sorted(path.name for path in folder.iterdir() if path.suffix in WEIGHTS)
    wanted = [name for name in found if spec.weights in (None, name)]
    if len(wanted) != 1:
        there = ", ".join(found) or f"none; endings: {', '.join(sorted(WEIGHTS))}"
        raise ModelError(
            f"{folder}: one file of weights is needed, and `weights: {spec.weights or ''}` fits "
            f"{len(wanted)}; there are: {there}; name one in `weights:`"
        )
    return folder / wanted[0]


def _arguments(folder: Path) -> _Arguments:
    """What the JSON files of a folder say of the form; of two that do, the first by name counts."""
    said: dict[str, object] = {}
    for path in sorted(folder.glob("*.json")):
        given = {plain(key): value for key, value in _json_keys(path).items()}
        for argument, names in ARGUMENTS.items():
            found = [given[name] for name in names if name in given]
            said |= {argument: found[0]} if found and argument not in said else {}
    try:
        return msgspec.convert(said, _Arguments)
    except msgspec.ValidationError as error:
        raise ModelError(f"{folder}: the arguments in its JSON files: {error}") from error


def _json_keys(path: Path) -> dict[str, object]:
    """The keys of a JSON file, or of `args` within it; none where it holds another thing."""
    try:
        content = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise ModelError(f"{path}: not JSON ({error}); copy it again") from error
    inner = content.get("args", content) if isinstance(content, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _form(spec: PublishedSpec, given: _Arguments, folder: Path) -> Form:
    """The form that the YAML, else the JSON file says; as published where neither does."""
    own = spec.form
    return Form(
        own.direction or _value(given.direction, DIRECTIONS, folder) or PUBLISHED.direction,
        own.implicitness or _value(given.implicitness, DISTANCES, folder) or PUBLISHED.implicitness,
        own.pragmatic or _value(given.pragmatic, DISTANCES, folder) or PUBLISHED.pragmatic,
    )


def _value(said: str | None, known: Mapping[str, Value], folder: Path) -> Value | None:
    """What a word of the JSON file means; null where it says none."""
    if said is not None and plain(said) not in known:
        raise SpecError(
            f"{folder}: {said!r} in its JSON files is none of {', '.join(known)}; say what it "
            "means in the scorer's YAML, under `form:`"
        )
    return None if said is None else known[plain(said)]
