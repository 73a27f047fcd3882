"""The columns of a run's tables and their types; docs/frames.md says what each holds."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from harness.lazy import pyarrow

Kind = Literal["name", "text", "whole", "number", "texts", "numbers", "wholes"]
"""A name is a text that repeats; texts, numbers and wholes are lists."""
FIELD, REFERENCE = "field_", "reference_"
"""How the columns of a sample's fields and references begin."""
STORED: Final[Mapping[str, Mapping[str, Kind]]] = {
    "samples": {
        **{"sample": "text", "cluster": "text", "group": "name", "gold": "text"},
        **{"choices": "texts", "flags": "texts"},
    },
    "answers": {
        **{"sample": "text", "variant": "name", "decoding": "name", "answer": "text"},
        **{"text": "text", "reason": "name", "note": "text", "stop": "name", "served": "name"},
        **{"step": "name", "key": "text"},
        **{"logprobs": "numbers", "tokens": "wholes", "bytes": "wholes"},
        **{"prompt_tokens": "whole", "completion_tokens": "whole", "cost_usd": "number"},
        **{"earlier": "text", "more": "text"},
    },
    "verdicts": {
        **{"row": "whole", "sample": "text", "cluster": "text", "group": "name"},
        **{"variant": "name", "decoding": "name", "judge": "name", "value": "number"},
        **{"reason": "name", "note": "text", "served": "name", "model_served": "name"},
        **{"probabilities": "numbers", "keys": "texts", "replies": "texts", "usages": "text"},
    },
}
"""Each further column of verdicts is a number that a judge gives: a detail."""
FILLED: Final[Mapping[str, tuple[str, ...]]] = {
    "samples": ("sample", "cluster", "group"),
    "answers": ("sample", "variant", "decoding", "step", "key"),
    "verdicts": ("row", "sample", "cluster", "group", "variant", "decoding", "judge"),
}
"""The columns in which no cell may be empty."""


def extra_kind(table: str, name: str) -> Kind:
    """The kind of a column of a table that its schema does not name."""
    if table == "verdicts":
        return "number"
    return "texts" if name.startswith(REFERENCE) else "text"


def arrow_type(kind: Kind) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The type of a kind of column on the disk."""
    known = {"whole": pyarrow.int64(), "number": pyarrow.float64()}
    one = known.get(kind.removesuffix("s"), pyarrow.string())
    return pyarrow.list_(one) if kind in ("texts", "numbers", "wholes") else one


def categories(table: str) -> list[str]:
    """The columns of a table whose texts repeat: names, samples and clusters."""
    columns = STORED[table].items()
    return [name for name, kind in columns if kind == "name" or name in ("sample", "cluster")]
