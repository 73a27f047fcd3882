"""Names and paths to scorers of implicitness: a YAML, a head's file, or a published checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.errors import SpecError
from harness.implicitness.head import load_head
from harness.implicitness.published import published_scorer
from harness.implicitness.scorer import Scorer
from harness.implicitness.training_texts import trained_on
from harness.models.encoders.encoders import Encoder
from harness.specs.encoders import LocalEncoderSpec
from harness.specs.schema import check, nearest, read_yaml
from harness.specs.scorers import HeadSpec, PublishedSpec, ScorerSpec

SHIPPED: Final = Path(__file__).parent / "heads"
Encoders = Callable[[LocalEncoderSpec], Encoder]


def open_scorer(
    name: str, file: Callable[[str], Path], *, encoders: Encoders, kept: Path
) -> Scorer:
    """The scorer of a name, whose YAML `file` finds, or of a path.

    A path is that of a scorer's YAML, of a head (NAME.json or NAME.safetensors), or of a folder
    with published weights (./NAME in the working folder). Encoders load at the first text.
    `kept` is the folder of the fingerprints of `trained_on` tables.
    """
    path = Path(name).expanduser()
    if path.suffix in (".json", ".safetensors"):
        head = load_head(path)
        return Scorer(head.name, head, encoders(head.encoder))
    if path.suffix in (".yaml", ".yml"):
        return _of_yaml(path.stem, path, encoders=encoders, kept=kept)
    if len(path.parts) > 1 or name.startswith("."):
        spec = PublishedSpec(about="published weights", model=str(path.resolve()))
        return published_scorer(path.resolve().name, spec)
    return _of_yaml(name, file(name), encoders=encoders, kept=kept)


def _of_yaml(name: str, path: Path, *, encoders: Encoders, kept: Path) -> Scorer:
    """The scorer that a YAML describes."""
    spec: ScorerSpec = check(read_yaml(path), ScorerSpec, where=str(path))
    match spec:
        case HeadSpec(head=file, encoder=encoder):
            head = load_head(_head_file(file, path))
            return Scorer(name, head, encoders(encoder or head.encoder))
        case PublishedSpec(trained_on=str(table)):
            seen = trained_on(path.parent / Path(table).expanduser(), kept)
            return published_scorer(name, spec, seen=seen)
        case PublishedSpec():
            return published_scorer(name, spec)


def _head_file(head: str, path: Path) -> Path:
    """The JSON file of a head that a YAML names: beside it, or one that ships."""
    beside = path.parent / Path(head).expanduser()
    if beside.with_name(f"{beside.name.removesuffix('.json')}.json").is_file():
        return beside
    shipped = SHIPPED / f"{head}.json"
    if shipped.is_file():
        return shipped
    known = sorted(found.stem for found in SHIPPED.glob("*.json"))
    raise SpecError(f"{path}: no head {head!r} beside it{nearest(head, known)}")
