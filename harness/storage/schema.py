"""The columns of a run's tables: the name, the type and the meaning of each.

The one place that names them; docs/frames.md is compared with it.
"""

from typing import Any, Literal, NamedTuple

from harness.errors import StoreError
from harness.lazy import DataFrame, pyarrow

Kind = Literal["name", "text", "whole", "number", "texts", "numbers", "wholes"]
"""A name is a text that repeats; texts, numbers and wholes are lists."""


class TableColumn(NamedTuple):
    """A column: what it holds, and what an empty cell means."""

    name: str
    kind: Kind
    about: str
    empty: str = "never"


FIELD, REFERENCE = "field_", "reference_"
"""How the columns of a sample's fields and references begin."""

SAMPLES = (
    TableColumn("sample", "text", "the sample's id, which depends on its content"),
    TableColumn("cluster", "text", "what is resampled together: a dialogue, an original"),
    TableColumn("group", "name", "phenomenon or bin"),
    TableColumn("gold", "text", "the right choice", "a task without choices"),
    TableColumn("choices", "texts", "the choices, in the data's order", "a task without choices"),
    TableColumn("flags", "texts", "what the reader of the data noticed", "nothing"),
)
ANSWERS = (
    TableColumn("sample", "text", "the sample that was asked"),
    TableColumn("variant", "name", "the variant of the prompt"),
    TableColumn("decoding", "name", "how the answer was drawn, such as T0.3"),
    TableColumn("answer", "text", "the answer as judges read it", "there is no answer"),
    TableColumn("text", "text", "the last reply as it came", "no reply, or choices were scored"),
    TableColumn("reason", "name", "why the last call has no answer", "it has one"),
    TableColumn("note", "text", "the error behind the reason", "none"),
    TableColumn("stop", "name", "why the model stopped; `length` is a cut answer", "unknown"),
    TableColumn("served", "name", "the snapshot that the server named", "none was named"),
    TableColumn("step", "name", "the last step that was asked"),
    TableColumn("key", "text", "the key of its call in the ledger, where the prompt is"),
    TableColumn("logprobs", "numbers", "nats of each choice, in the order shown", "not scored"),
    TableColumn("tokens", "wholes", "tokens of each choice; -1 is unknown", "not scored"),
    TableColumn("bytes", "wholes", "bytes of each choice", "not scored"),
    TableColumn("prompt_tokens", "whole", "tokens of the last prompt", "not reported"),
    TableColumn("completion_tokens", "whole", "tokens of the last reply", "not reported"),
    TableColumn("cost_usd", "number", "US dollars of the last call", "not known, or nobody pays"),
    TableColumn("earlier", "text", "JSON: the steps before the last", "there is one step"),
    TableColumn("more", "text", "JSON: rarer facts of the last call", "none"),
)
VERDICTS = (
    TableColumn("row", "whole", "the place of the answer in the table of answers, from 0"),
    TableColumn("sample", "text", "the sample"),
    TableColumn("cluster", "text", "its cluster"),
    TableColumn("group", "name", "its group"),
    TableColumn("variant", "name", "the variant of the prompt"),
    TableColumn("decoding", "name", "how the answer was drawn"),
    TableColumn("judge", "name", "the judge"),
    TableColumn("value", "number", "the verdict, on the judge's scale", "see `reason`"),
    TableColumn("reason", "name", "why there is no value", "there is a value"),
    TableColumn("note", "text", "the error, or what a judge remarks", "none"),
    TableColumn("served", "name", "the judge model's snapshot", "unknown, or it asks none"),
    TableColumn("model_served", "name", "the answering model's snapshot", "unknown"),
    TableColumn("probabilities", "numbers", "of each choice, in the data's order", "not known"),
    TableColumn("keys", "texts", "the keys of the judge's calls", "it asks none"),
    TableColumn("replies", "texts", "the judge model's replies, null for none", "it asks none"),
    TableColumn("usages", "text", "JSON: tokens and cost of each of its calls", "it asks none"),
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
    single = {"whole": pyarrow.int64(), "number": pyarrow.float64()}
    lists = {
        "texts": pyarrow.string(),
        "numbers": pyarrow.float64(),
        "wholes": pyarrow.int64(),
    }
    if kind in lists:
        return pyarrow.list_(lists[kind])
    return single.get(kind, pyarrow.string())


def check(frame: DataFrame, table: str) -> None:
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
