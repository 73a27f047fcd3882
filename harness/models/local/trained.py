"""Folders of trained classifiers: weights, a card of how they were trained, and fingerprints.

The training texts are stored as fingerprints only, so that an evaluation on them is noticed. No
pickle is written or read.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from harness.core import Sample
from harness.errors import ModelError, SpecError
from harness.models.labels import shown
from harness.parts import digest
from harness.storage.files import write_whole
from harness.text.dedup import fingerprint

_log = logging.getLogger(__name__)
CARD, TEXTS = "card.json", "texts.txt"
TRAINED_ON = "trained_on"
"""A detail of the response, 1 if the model was trained on the text."""


@dataclass(frozen=True, slots=True)
class ClassifierCard:
    """What a classifier was trained on, and how.

    `labels` are in the order of its scores, `rows` counts texts by label, `made` counts the
    augmented ones among them by method. `recipe` is all in the YAML that changes the weights.
    """

    model: str
    kind: str
    task: str
    labels: tuple[str, ...]
    recipe: str
    seed: int
    data: str
    files: Mapping[str, str]
    text: str
    rows: Mapping[str, int]
    made: Mapping[str, int]
    checksums: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Digest of the whole card, with the checksums of weights and texts."""
        return digest(self)


@dataclass(frozen=True, slots=True)
class TrainedClassifier:
    """A trained classifier's folder, its card, and the fingerprints of its texts."""

    folder: Path
    card: ClassifierCard
    texts: frozenset[str]

    def has_seen(self, text: str) -> bool:
        """Whether it was trained on a text, or on one of the same words."""
        return fingerprint(text) in self.texts


def fingerprints(texts: Iterable[str]) -> frozenset[str]:
    """The fingerprints of texts."""
    return frozenset(map(fingerprint, texts))


def write_trained(
    folder: Path, card: ClassifierCard, texts: frozenset[str], weights: Sequence[Path]
) -> TrainedClassifier:
    """Write card and texts beside the weights; the card, written last, completes the folder."""
    write_whole(folder / TEXTS, "".join(f"{one}\n" for one in sorted(texts)).encode())
    files = [*weights, folder / TEXTS]
    sums = {path.relative_to(folder).as_posix(): checksum(path) for path in files}
    card = replace(card, checksums=sums)
    content = msgspec.json.format(msgspec.json.encode(card, order="deterministic"), indent=2)
    write_whole(folder / CARD, content + b"\n")
    return TrainedClassifier(folder, card, texts)


def read_trained(folder: Path, *, model: str, task: str) -> TrainedClassifier:
    """Read a folder; every file must match the checksum on the card."""
    train = f"`harness train {model} --task {task} --data DIR` trains it"
    path = folder / CARD
    if not path.is_file():
        raise ModelError(
            f"model {model} is not trained for task {task} ({path} is missing); {train}"
        )
    try:
        card = msgspec.json.decode(path.read_bytes(), type=ClassifierCard)
        checksums = {name: checksum(folder / name) for name in card.checksums}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{folder}: damaged ({error}); {train} again") from error
    if changed := [name for name in checksums if checksums[name] != card.checksums[name]]:
        raise ModelError(f"{folder}: {changed[0]} is not the file of its card; {train} again")
    return TrainedClassifier(folder, card, frozenset((folder / TEXTS).read_text("utf-8").split()))


def checksum(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_fit(trained: TrainedClassifier, labels: Sequence[str], samples: Sequence[Sample]) -> None:
    """Refuse a task of other labels, and samples that are mostly training texts.

    `samples` are those that are asked about. A few training texts among them are logged: released
    splits share some.
    """
    card = trained.card
    if sorted(card.labels) != sorted(labels):
        raise SpecError(
            f"{trained.folder}: trained for the labels {', '.join(card.labels)}, and the task has "
            f"{', '.join(labels)}; train it for this task"
        )
    seen = sum(trained.has_seen(shown(sample)) for sample in samples)
    fact = f"model {card.model} was trained on {seen} of these {len(samples)} texts"
    if 2 * seen > len(samples):
        raise SpecError(
            f"{fact}: what it makes of them says nothing; evaluate on other data, such as the "
            "development split"
        )
    if seen:
        _log.warning("%s, by their words: their answers say %s", fact, TRAINED_ON)
