"""Names and paths to scorers of implicitness, and samples to samples with their implicitness.

A name is that of a scorer's YAML; a path that of a YAML, a head's files or published weights.
Scales of scorers differ, so name and digest join the data's label, which is in every signature.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import structs

from harness.core import Sample
from harness.data.readers.labelled_table import IMPLICITNESS
from harness.errors import DataError, SpecError, check_names
from harness.implicitness import scorer as scorers
from harness.implicitness.pairs import RELEASED
from harness.implicitness.published import published_encoder, published_scorer
from harness.implicitness.scorer import LIMITS, Flag, Head, Scored, Scorer
from harness.models.encoders.encoders import Encoder
from harness.models.spread import HERE, Executor
from harness.models.vectors import Progress, reported_chunks
from harness.parts import digest
from harness.specs import implicitness as specs
from harness.specs.plugins import Extension, foreign_code, spec_digest
from harness.specs.schema import load_spec, read_yaml
from harness.specs.tasks import ImplicitnessSpec, TaskSpec
from harness.stats.classification import PUBLISHED_EDGES
from harness.storage.cells import decode_json
from harness.storage.runs import DataEntry
from harness.storage.tables import read_any
from harness.text.dedup import fingerprint

_log = logging.getLogger(__name__)
SHIPPED: Final = Path(__file__).parent / "heads"
AT_ONCE: Final = 2048  # texts between two writes of the cache
MEASURES: Final = "implicitness"  # the folder of the scores, below that of the cache
COLUMNS: Final = (*RELEASED, "implicit", "explicit", "levels", "text")
NONE, COLUMN, TRAINED_ON = "none", "column", "scorer_trained_on"
"""Two names of `--scorer`: no scores, and those of the table; a flag of samples."""
_LIMITS: Final = {
    Flag.CUT: "exceed what the encoder reads (flag implicitness_cut)",
    Flag.THIN: "have one word, or letters that the encoder does not know (flag implicitness_thin)",
}
Encoders = Callable[[specs.LocalEncoderSpec], Encoder]


def open_scorer(
    name: str, file: Callable[[str], Path], *, encoders: Encoders, executor: Executor = HERE
) -> Scorer:
    """Open the scorer of a name, whose YAML `file` finds, or of a path.

    A path is that of a scorer's YAML, of a head (NAME.json or NAME.safetensors), or of a folder
    with published weights (./NAME in the working folder). Encoders load at the first text.
    `executor` says where the encoder of published weights computes.
    """
    path = Path(name).expanduser()
    if path.suffix in (".json", ".safetensors"):
        head = scorers.load_head(path)
        return Scorer(head.name, head, encoders(_encoder_of(head)))
    is_yaml = path.suffix in (".yaml", ".yml")
    if not is_yaml and (len(path.parts) > 1 or name.startswith(".")):
        if not path.is_dir():
            raise SpecError(
                f"scorer {path}: there is no such folder of published weights; give one, or the "
                "whole name of a head's .json or .safetensors or of a .yaml, or a name in "
                "configs/scorers/"
            )
        name, path = path.resolve().name, path.resolve()
        known: specs.ScorerSpec = specs.PublishedSpec(about="published weights", model=str(path))
    else:
        name, path = (path.stem, path) if is_yaml else (name, file(name))
        known = load_spec(read_yaml(path), specs.ScorerSpec, where=str(path))
    match known:
        case specs.HeadSpec(head=given, encoder=encoder):
            head = scorers.load_head(_head_file(given, path))
            return Scorer(name, head, encoders(encoder or _encoder_of(head)))
        case specs.PublishedSpec(trained_on=table):
            seen = trained_on(path.parent / Path(table).expanduser()) if table else frozenset()
            scorer = published_scorer(name, known, seen=seen)
            executor.place(scorer.encoder, partial(published_encoder, name, known))
            return scorer
        case specs.PythonScorerSpec():
            raise SpecError(f"scorer {name}: kind python scores the texts of tasks alone")


def _encoder_of(head: Head) -> specs.LocalEncoderSpec:
    """The encoder that a head names; SpecError for code, which no file of others may have run."""
    if isinstance(head.encoder, specs.PythonEncoderSpec):
        fact = f"head {head.name}: its encoder is code ({head.encoder.entry})"
        raise SpecError(f"{fact}; read it, then name it as `encoder` of a YAML in configs/scorers/")
    return head.encoder


def _head_file(head: str, path: Path) -> Path:
    own = path.parent / Path(head).expanduser()
    if own.with_name(f"{own.name.removesuffix('.json')}.json").is_file():
        return own
    known = sorted(found.stem for found in SHIPPED.glob("*.json"))
    check_names(f"{path}: no head", [head], known, then=" in its folder")
    return SHIPPED / f"{head}.json"


class TextScorer(Protocol):
    """Anything that scores the implicitness of texts."""

    @property
    def signature(self) -> str:
        """Its name and digest."""

    @property
    def seen(self) -> frozenset[str]:
        """The fingerprints of the texts it was trained on, as far as anybody knows."""

    def score(self, texts: Sequence[object]) -> Sequence[Scored]:
        """Score texts, in their order."""


@dataclass(frozen=True, slots=True)
class CachedScorer:
    """A scorer that stores its scores in a folder and reads them from there the next time.

    `progress` counts the texts that are not stored yet.
    """

    scorer: TextScorer
    folder: Path
    progress: Progress | None = None

    @property
    def signature(self) -> str:
        """Name and digest of the scorer."""
        return self.scorer.signature

    @property
    def seen(self) -> frozenset[str]:
        """The fingerprints of the texts the scorer was trained on."""
        return self.scorer.seen

    def score(self, texts: Sequence[object]) -> list[Scored]:
        """Score texts, in their order; a stored score is not computed again."""
        path = self.folder / f"{self.signature.rpartition('@')[2]}-3.jsonl"
        known: dict[str, Scored] = {}
        with suppress(OSError):
            for line in path.read_bytes().splitlines():
                # A damaged line, as a killed process leaves it, is skipped.
                with suppress(msgspec.MsgspecError, ValueError):
                    key, value, flag = decode_json(line, tuple[str, float | None, Flag | None])
                    known[key] = Scored(value, flag)
        keys = [_key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for batch in reported_chunks(list(new), AT_ONCE, self.progress):
            scores = self.scorer.score([new[key] for key in batch])
            _store(path, [(k, s.value, s.flag) for k, s in zip(batch, scores, strict=True)])
            known |= zip(batch, scores, strict=True)
        return [known[key] for key in keys]


def _store(path: Path, scores: Iterable[tuple[str, float | None, Flag | None]]) -> None:
    """Store scores if the folder can be written: they only save time."""
    # A line end goes before them too, so that they never go on with a torn line.
    lines = b"\n".join([b"", *map(msgspec.json.encode, scores), b""])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(lines)
    except OSError as error:
        why = f"cannot be written ({error.strerror}); the texts will be scored again"
        _log.warning("%s: %s", path, why, extra={"is_once": True})


def _key(text: object) -> str:
    content = repr(text) if not isinstance(text, str) else f"text:{text}"
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def trained_on(path: Path) -> frozenset[str]:
    """Fingerprint the texts in a table's COLUMNS; those of a list count each."""
    table = read_any(path, has_column=True)
    places = [place for place, name in enumerate(table.columns) if name in COLUMNS]
    cells = [cell for place in places for cell in table.cells(place)]
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    texts = {part for part in parts if isinstance(part, str) and part.strip()}
    if not texts:
        raise DataError(f"{path}: no texts in any column of {', '.join(COLUMNS)}; call it `text`")
    return frozenset(map(fingerprint, texts))


def with_options(task: TaskSpec, *, name: str, table: str | None, scorer: str | None) -> TaskSpec:
    """Replace the task's column map and its scorer where the options name others."""
    if table is not None:
        if task.data.map is None:
            raise SpecError(f"--map {table}: task {name} reads no table of labelled texts")
        task = structs.replace(task, data=structs.replace(task.data, map=table))
    if scorer is None:
        return task
    if task.implicitness is None:
        raise SpecError(f"--scorer {scorer}: task {name} reports nothing by implicitness")
    spec = structs.replace(task.implicitness, scorer=scorer, prefers_column=scorer == COLUMN)
    return structs.replace(task, implicitness=spec)


def add_implicitness(
    samples: Sequence[Sample],
    data: DataEntry,
    *,
    spec: ImplicitnessSpec | None,
    scorer: Callable[[str], TextScorer],
) -> tuple[Sequence[Sample], DataEntry]:
    """Add the implicitness of each sample, and the scorer's signature to the data's label.

    `scorer` opens a scorer by its name; it is called only if the samples bring no score.
    """
    if spec is None:
        return samples, data
    if spec.scorer == NONE:
        return tuple(map(_without, samples)), data
    if spec.prefers_column and any(IMPLICITNESS in sample.references for sample in samples):
        _warn_missing(samples, "the table's column")
        return tuple(samples), replace(data, label=f"{data.label}+{COLUMN}")
    if spec.scorer == COLUMN:
        raise DataError(
            "--scorer column: the table has no column of implicitness; name it in the column map, "
            "as `implicitness: COLUMN`, or name a scorer"
        )
    opened = scorer(spec.scorer)
    texts = [sample.fields.get(spec.of) for sample in samples]
    scored = []
    for sample, text, one in zip(samples, texts, opened.score(texts), strict=True):
        flags = [f"implicitness_{one.flag}"] * bool(one.flag)
        flags += [TRAINED_ON] * scorers.is_known(text, opened.seen)
        bare = _without(sample)
        # Beyond the sixth decimal it depends on what else was encoded with it.
        value = {} if one.value is None else {IMPLICITNESS: (repr(round(one.value, 6)),)}
        references = {**bare.references, **value}
        scored.append(replace(bare, references=references, flags=(*sample.flags, *flags)))
    _warn_missing(scored, opened.signature)
    label = f"{data.label}+{opened.signature}"
    data = replace(data, label=label, is_training_known=bool(opened.seen))
    for line in measured_lines(data, scored):
        _log.warning("%s", line)
    return tuple(scored), data


def measured_lines(data: DataEntry, samples: Iterable[Sample]) -> list[str]:
    """Say how many measured samples the scorer was trained on, and whose score says little.

    One line each; none if there are no such samples.
    """
    flags = {sample.id: sample.flags for sample in samples}
    seen = sum(TRAINED_ON in own for own in flags.values())
    overlap = None if data.is_training_known is False else seen
    message = scorers.overlap_message(data.label.partition("+")[2], overlap, len(flags))
    if overlap:
        message += f" (flag {TRAINED_ON}); leave them out, or run with another --scorer"
    counts = {flag: sum(f"implicitness_{flag}" in own for own in flags.values()) for flag in LIMITS}
    found = " and ".join(f"{count} {_LIMITS[flag]}" for flag, count in counts.items() if count)
    little = f"of {len(flags)} texts {found}: their implicitness says little" if found else ""
    return [line for line in (message, little) if line]


def _without(sample: Sample) -> Sample:
    references = {n: texts for n, texts in sample.references.items() if n != IMPLICITNESS}
    return replace(sample, references=references)


def _warn_missing(samples: Sequence[Sample], by: str) -> None:
    found = [sample.references.get(IMPLICITNESS) for sample in samples]
    values = [float(texts[0]) for texts in found if texts]
    if lost := len(samples) - len(values):
        fact = "have no implicitness by %s: they are in no bin and on no curve"
        _log.warning(f"%d of %d texts {fact}", lost, len(samples), by)
    low, high = PUBLISHED_EDGES[0], PUBLISHED_EDGES[-1]
    if beyond := sum(not low <= value <= high for value in values):
        fact = "by %s lie outside %g to %g: they are in no published bin"
        _log.warning(f"%d of %d values {fact}", beyond, len(values), by, low, high)


class ScoresTexts(Protocol):
    """What the class of a scorer has besides `build(name, spec, context)`."""

    def score(self, texts: Sequence[str]) -> Sequence[float | None]:
        """Give each text its implicitness, in their order; None for a text without one."""


@dataclass(frozen=True, slots=True)
class OwnScorer:
    """A scorer of other people's code: settings and source make its signature."""

    name: str
    spec: specs.PythonScorerSpec
    scorer: ScoresTexts
    made_by: Extension

    @property
    def signature(self) -> str:
        """Name and digest."""
        return f"{self.name}@{digest((spec_digest(self.spec), self.made_by.source))[:8]}"

    @property
    def seen(self) -> frozenset[str]:
        """Empty: nobody knows what it was made from."""
        return frozenset()

    def score(self, texts: Sequence[object]) -> Sequence[Scored]:
        """One score a text, in their order; what is no text is flagged and not given to it."""
        reads = [scorers.text_of(text) for text in texts]
        known = [read for read in reads if not isinstance(read, Flag)]
        with foreign_code(f"scorer {self.name}: score"):
            values = list(self.scorer.score(known))
            if len(values) != len(known):
                raise ValueError(f"{len(values)} values for {len(known)} texts")
            if wrong := [value for value in values if value is not None and not isfinite(value)]:
                raise ValueError(f"{wrong[0]} is not finite; give None where there is no value")
        rest = iter([Scored(one, Flag.UNSCORED if one is None else None) for one in values])
        return [Scored(None, read) if isinstance(read, Flag) else next(rest) for read in reads]
