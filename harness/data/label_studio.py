"""Label Studio's JSON export to ratings, and texts to rate to its tasks and labelling config.

Every text of a sample or model is data: JSON and XML escape it, so none becomes markup.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import msgspec

from harness.data.ratings import Conversion, Rating, Target, checked, number, target
from harness.errors import DataError
from harness.storage.tables import read_text

_KINDS = ("rating", "number", "choices")


class _Result(msgspec.Struct):
    type: str
    value: dict[str, object]
    from_name: str = ""


class _Annotation(msgspec.Struct):
    completed_by: object = None
    result: list[_Result] = []
    was_cancelled: bool = False


class _Task(msgspec.Struct):
    data: dict[str, object]
    annotations: list[_Annotation]
    id: object = None


def from_label_studio(path: Path, how: Conversion) -> list[Rating]:
    """The ratings of an export in Label Studio's JSON format; skipped tasks are left out."""
    try:
        tasks = msgspec.json.decode(read_text(path), type=list[_Task])
    except msgspec.DecodeError as error:
        raise DataError(
            f"{path}: not an export of Label Studio in its JSON format: {error}; choose JSON, not "
            "JSON_MIN, when exporting"
        ) from error
    ratings = [one for at, task in enumerate(tasks, 1) for one in _ratings(path, at, task, how)]
    if not ratings:
        raise DataError(f"{path}: no ratings in its {len(tasks)} tasks; export annotated tasks")
    return checked(ratings)


def tasks_text(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Rows of a sheet as tasks to import, with every markup character escaped."""
    text = msgspec.json.format(msgspec.json.encode([{"data": row} for row in rows]), indent=1)
    for mark in (b"<", b">", b"&"):
        text = text.replace(mark, b"\\u%04x" % ord(mark))
    return text + b"\n"


def config_text(fields: Sequence[str], *, answer: str, low: int, high: int) -> str:
    """The labelling config: the fields, the answer, and one choice for each whole number."""
    shown = [*fields, answer]
    parts = [
        f"  <Header value={quoteattr(name)}/>\n"
        f'  <Text name="text{place}" value={quoteattr("$" + name)}/>\n'
        for place, name in enumerate(shown, 1)
    ]
    choices = "".join(f'    <Choice value="{value}"/>\n' for value in range(low, high + 1))
    rated = f'  <Choices name="rating" toName="text{len(shown)}" choice="single" required="true">\n'
    return f"<View>\n{''.join(parts)}{rated}{choices}  </Choices>\n</View>\n"


def _ratings(path: Path, number_of_task: int, task: _Task, how: Conversion) -> Iterator[Rating]:
    for annotation in task.annotations:
        if annotation.was_cancelled:
            continue
        place = f"{path}, task {task.id or number_of_task}"
        rater = _rater(annotation.completed_by, place)
        for result in annotation.result:
            if result.type in _KINDS and how.control in ("", result.from_name):
                value = _value(result, how=how, place=place)
                yield _target(task, result, how=how, place=place).rated(rater, value, place)


def _rater(completed_by: object, place: str) -> str:
    """The annotator's id; `completed_by` is one, or an object with an e-mail address or an id."""
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    if completed_by is None or isinstance(completed_by, bool | list | dict):
        raise DataError(f"{place}: completed_by names nobody; export with annotators")
    return str(completed_by)


def _target(task: _Task, result: _Result, *, how: Conversion, place: str) -> Target:
    data = {name: value for name, value in task.data.items() if isinstance(value, str)}
    if how.keys:
        return target(data.get("row", ""), how=how, place=place)
    return Target(
        task=data.get("task") or how.task,
        sample_id=data.get("sample_id", ""),
        model=data.get("model", ""),
        scale=how.scale or data.get("scale") or result.from_name,
    )


def _value(result: _Result, *, how: Conversion, place: str) -> float | None:
    value = result.value.get(result.type)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or value == []:
        return None
    if isinstance(value, bool | list | dict):
        raise DataError(f"{place}: {result.type} {value!r} is not one rating; have one chosen")
    return number(str(value), words=how.words, place=place)
