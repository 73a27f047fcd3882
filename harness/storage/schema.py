"""The columns of a run's tables: the name, the type and the meaning of each.

The one place that names them; docs/frames.md is compared with it.
"""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from harness.errors import StoreError

if TYPE_CHECKING:
    from pandas import DataFrame

Kind = Literal["name", "text", "whole", "number", "texts", "numbers", "wholes"]
"""A name is a text of which few differ; texts, numbers and wholes are lists."""


class Column(NamedTuple):
    """A column: what it holds, and what an empty cell means."""

    name: str
    kind: Kind
    about: str
    empty: str = "never"


FIELD, REFERENCE = "field_", "reference_"
"""How the columns of a sample's fields and references begin."""

SAMPLES = (
    Column("sample", "text", "the sample's id, which depends on its content"),
    Column("cluster", "text", "what is resampled together: a dialogue, an original"),
    Column("group", "name", "phenomenon or bin"),
    Column("gold", "text", "the right choice", "a task without choices"),
    Column("choices", "texts", "the choices, in the data's order", "a task without choices"),
    Column("flags", "texts", "what the reader of the data noticed", "nothing"),
)
ANSWERS = (
    Column("sample", "text", "the sample that was asked"),
    Column("variant", "name", "the variant of the prompt"),
    Column("decoding", "name", "how the answer was drawn, such as T0.3"),
    Column("answer", "text", "the answer as judges read it", "there is no answer"),
    Column("text", "text", "the last reply as it came", "no reply, or choices were scored"),
    Column("reason", "name", "why the last call has no answer", "it has one"),
    Column("note", "text", "the error behind the reason", "none"),
    Column("stop", "name", "why the model stopped; `length` is a cut answer", "unknown"),
    Column("served", "name", "the snapshot that the server named", "none was named"),
    Column("step", "name", "the last step that was asked"),
    Column("key", "text", "the key of its call in the ledger, where the prompt is"),
    Column("logprobs", "numbers", "nats of each choice, in the order shown", "not scored"),
    Column("tokens", "wholes", "tokens of each choice; -1 is unknown", "not scored"),
    Column("bytes", "wholes", "bytes of each choice", "not scored"),
    Column("prompt_tokens", "whole", "tokens of the last prompt", "not reported"),
    Column("completion_tokens", "whole", "tokens of the last reply", "not reported"),
    Column("cost_usd", "number", "US dollars of the last call", "not known, or nobody pays"),
    Column("earlier", "text", "JSON: the steps before the last", "there is one step"),
    Column("more", "text", "JSON: rarer facts of the last call", "none"),
)
VERDICTS = (
    Column("row", "whole", "the place of the answer in the table of answers, from 0"),
    Column("sample", "text", "the sample"),
    Column("cluster", "text", "its cluster"),
    Column("group", "name", "its group"),
    Column("variant", "name", "the variant of the prompt"),
    Column("decoding", "name", "how the answer was drawn"),
    Column("judge", "name", "the judge"),
    Column("value", "number", "the verdict, on the judge's scale", "see `reason`"),
    Column("reason", "name", "why there is no value", "there is a value"),
    Column("note", "text", "the error, or what a judge remarks", "none"),
    Column("served", "name", "the judge model's snapshot", "unknown, or it asks none"),
    Column("model_served", "name", "the answering model's snapshot", "unknown"),
    Column("probabilities", "numbers", "of each choice, in the data's order", "not known"),
    Column("keys", "texts", "the keys of the judge's calls", "it asks none"),
    Column("replies", "texts", "the judge model's replies, null for none", "it asks none"),
    Column("usages", "text", "JSON: tokens and cost of each of its calls", "it asks none"),
)
"""Each further column of verdicts is a number that a judge gives: a detail."""
STORED = {"samples": SAMPLES, "answers": ANSWERS, "verdicts": VERDICTS}


def extra_kind(table: str, name: str) -> Kind:
    """The kind of a column of a table that its schema does not name."""
    if table == "verdicts":
        return "number"
    return "texts" if name.startswith(REFERENCE) else "text"


def arrow_type(kind: Kind) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The type of a kind of column on the disk."""
    import pyarrow

    single = {"whole": pyarrow.int64(), "number": pyarrow.float64()}
    lists = {
        "texts": pyarrow.string(),
        "numbers": pyarrow.float64(),
        "wholes": pyarrow.int64(),
    }
    if kind in lists:
        return pyarrow.list_(lists[kind])
    return single.get(kind, pyarrow.string())


def check(frame: "DataFrame", table: str) -> None:
    """StoreError unless a frame has the columns of a table, and a value just without a reason."""
    absent = [column.name for column in STORED[table] if column.name not in frame.columns]
    if absent:
        raise StoreError(f"table {table}: no column {', '.join(absent)}")
    if table == "verdicts":
        odd = frame["value"].isna() != frame["reason"].notna()
        if odd.any():
            first = frame[odd].iloc[0]
            raise StoreError(
                f"table verdicts: {odd.sum()} rows have both or none of value and reason; first: "
                f"sample {first['sample']}, judge {first['judge']}"
            )


def categories(table: str) -> list[str]:
    """The columns of a table whose texts repeat: names, samples and clusters."""
    return [
        column.name
        for column in STORED[table]
        if column.kind == "name" or column.name in ("sample", "cluster")
    ]
