"""Signatures of some rows to short names that say in what the rows differ.

A signature has eight fields in one order, as `scoring.signature` writes them. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final

MODEL: Final = "model"
_CONTROL: Final = "samples of a control"
_OF: Final[Mapping[str, Sequence[str]]] = {
    "engine": (MODEL,),
    "version": (MODEL, "engine", _CONTROL),
    "data": ("source",),
    "prompts": ("variant", "decoding"),
}
"""What a part goes with: it is said only where it differs although these are alike."""


def short_labels(sources: Mapping[str, str]) -> dict[str, str]:
    """A name for each signature, which is given with the source of its data.

    The model's name, then whatever is not alike in all of them; signatures that differ have names
    that differ.
    """
    parts = {signature: _parts(signature, source) for signature, source in sources.items()}
    keys = [key for key in next(iter(parts.values()), {}) if key != _CONTROL]
    told = [key for key in keys if key == MODEL or _is_telling(key, list(parts.values()))]
    return {name: ", ".join(own[key] for key in told) for name, own in parts.items()}


def _is_telling(key: str, parts: Sequence[Mapping[str, str]]) -> bool:
    """Whether something differs where all that it goes with is alike."""
    pairs = {(tuple(own[of] for of in _OF.get(key, ())), own[key]) for own in parts}
    return len(pairs) > len({of for of, _ in pairs})


def _parts(signature: str, source: str) -> dict[str, str]:
    """What a signature says, by what it says it of, in the order of a name."""
    words, data, variant, model, decoding, judge, way, harness = signature.split("|")
    label, _, limit = data.removeprefix("data:").rpartition(",")
    name, _, built = model.partition(":")
    engine, _, version = built.partition("@")
    drawn, repeats, seed = decoding.rsplit(",", 2)
    texts, _, scale = label.partition("+")
    return {
        MODEL: name,
        "engine": engine,
        "version": version,
        # A control is built with its samples, so that its version changes with them.
        _CONTROL: label if engine == "scripted" else "",
        "source": source,
        "data": f"data {texts}",
        "scale": scale,
        "limit": "all samples" if limit == "all" else f"{limit} samples",
        "variant": variant,
        "prompts": f"prompts {words.rpartition(':')[2]}",
        "decoding": drawn,
        "repeats": repeats,
        "seed": f"seed {seed.removeprefix('s')}",
        "judge": judge,
        "way": way,
        "harness": harness,
    }
