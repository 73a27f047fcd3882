"""A command function to what typer reads: records of options become options; and the exit codes."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import IntEnum
from typing import Any, get_args

import typer


class ExitCode(IntEnum):
    """How a command ended, for the shell."""

    DONE = 0
    DONE_WITH_MISSING = 1
    CHECK_FAILED = 1  # the same code: the command ran, and its result is not all that was wanted
    USER_MISTAKE = 2
    OUR_BUG = 70
    INTERRUPTED = 130  # or out of budget: the same command resumes

    @classmethod
    def of(cls, has_missing: object) -> "ExitCode":
        """DONE, or DONE_WITH_MISSING where anything is missing."""
        return cls.DONE_WITH_MISSING if has_missing else cls.DONE


@dataclass(frozen=True)
class Only:
    """In `Annotated[Record, Only("a", "b")]`: the fields that are options of this command."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        """The other fields keep their defaults."""
        object.__setattr__(self, "names", names)


def option(flags: str, about: str, default: object = MISSING, **rules: Any) -> Any:  # noqa: ANN401 - the field's type is its annotation
    """A field or a parameter that is an option, with flags as in `-o --out`; see `argument`."""
    value = ... if default is MISSING else default
    return _field(typer.Option(value, *flags.split(), help=about, **rules), default)


def argument(metavar: str, about: str, default: object = MISSING) -> Any:  # noqa: ANN401 - as of `option`
    """A field or a parameter that is a positional argument; it is required without a default."""
    value = ... if default is MISSING else default
    return _field(typer.Argument(value, metavar=metavar, help=about), default)


def _field(info: object, default: object) -> Any:  # noqa: ANN401 - as of `option`
    if default is MISSING:
        return field(metadata={"typer": info})
    return field(default=default, metadata={"typer": info})


def expanded(function: Callable[..., object]) -> Callable[..., object]:
    """A command whose parameters are the fields of the records that `function` takes."""
    records: dict[str, tuple[type, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        record, only = _record(parameter.annotation)
        if record is None:
            default = parameter.default
            if isinstance(default, Field):
                default = default.metadata["typer"]
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, default=default))
            continue
        added = [_parameter(part) for part in fields(record) if only is None or part.name in only]
        records[name] = record, [part.name for part in added]
        parameters += added

    def command(**given: object) -> object:
        for name, (record, names) in records.items():
            given[name] = record(**{field: given.pop(field) for field in names})
        return function(**given)

    command.__doc__ = function.__doc__
    command.__annotations__ = {part.name: part.annotation for part in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    return command


def _record(annotation: Any) -> tuple[Any, tuple[str, ...] | None]:  # noqa: ANN401 - any annotation
    """The record that an annotation names, and the fields it is narrowed to; else None."""
    kind, *notes = get_args(annotation) or (annotation,)
    only = next((note.names for note in notes if isinstance(note, Only)), None)
    return (kind, only) if is_dataclass(kind) else (None, None)


def _parameter(part: "Field[object]") -> inspect.Parameter:
    default = part.metadata.get("typer", part.default)
    value = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(
        part.name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=part.type
    )
