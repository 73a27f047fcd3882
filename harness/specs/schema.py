"""YAML files to checked mappings and frozen specs; specs to JSON schemas, for editors.

Nothing here knows what a spec says, nor where files lie.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import date
from enum import EnumType
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import yaml
from msgspec import Struct, structs

from harness.errors import SpecError, did_you_mean

LONGEST_SHOWN = 60
DEEPEST = 100  # how deep a YAML file may nest
LARGEST = 2**53  # the highest number that a key may have; keys of a lower one say so themselves
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SENTENCE = re.compile(r"(?<=[.;])\s+")
_WORDS = {
    "Object missing": "missing",
    "Object contains ": "",
    "field `": "key `",
    "Invalid value": "unknown kind",
    "Invalid RFC3339 encoded date": "Expected a day such as '2026-11-21'",
}


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A YAML file's content, checked."""


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]  # the base depends on how PyYAML was built
    """Safe YAML in which a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, refusing repeated keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            is_word = isinstance(key, yaml.ScalarNode)
            if not is_word or key.value in seen:
                problem = f"key {key.value!r} is given twice" if is_word else "a key is no word"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file holds; one with aliases, or DEEPEST deep, is refused."""
    try:
        content = _parsed(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror}); correct the path") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date with a 13th month
        problem = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise SpecError(f"{path}: not valid YAML: {problem}; correct it there") from error
    if not isinstance(content, dict):
        found = "nothing" if content is None else type(content).__name__
        raise SpecError(f"{path}: expected keys and values, found {found}; write them")
    return deepcopy(content)


@lru_cache(maxsize=256)  # a library, a plan and tests read the same files again and again
def _parsed(text: str) -> object:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):  # it may have no end, or a billion values
            raise ValueError(f"alias *{str(event.anchor)[:LONGEST_SHOWN]}; write out what it names")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"nests more than {DEEPEST} deep")
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader


def load_spec(content: dict[str, Any], kind: Any, *, where: str) -> Any:  # noqa: ANN401 - kind may be a union, which no type variable binds
    """Return the spec of type `kind` (a Spec, or a union of them) that a mapping describes.

    An error names `where`, the key and the nearest valid one.
    """
    try:
        made = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise SpecError(f"{where}: {_explain(content, kind, '$')}") from error
    except RecursionError:
        raise SpecError(f"{where}: nests more than {DEEPEST} deep; correct it") from None
    if odd := next(_odd_numbers(made), None):
        raise SpecError(f"{where}: `{odd}` is no number up to {LARGEST:,}; correct it")
    return made


def _odd_numbers(value: object, place: str = "") -> Iterator[str]:
    """The keys of numbers that nothing can have: endless ones, NaN, beyond LARGEST.

    What a mapping without keys of its own holds is for others to judge.
    """
    parts: Iterable[tuple[str, object]] = ()
    match value:
        case Struct():
            fields = structs.fields(value)
            parts = ((f"{place}.{one.encode_name}", getattr(value, one.name)) for one in fields)
        case tuple():
            parts = ((f"{place}[{at}]", part) for at, part in enumerate(value))
        case dict():
            owned = ((key, one) for key, one in value.items() if isinstance(one, Struct))
            parts = ((f"{place}.{key}", one) for key, one in owned)
        case int() | float() if not abs(value) <= LARGEST:
            yield place.removeprefix(".")
    for key, part in parts:
        yield from _odd_numbers(part, key)


def kinds_of(spec: Any) -> dict[str, Any]:  # noqa: ANN401 - a spec or a union of specs
    """Map the `kind` of each spec of a union to that spec; untagged specs are left out."""
    specs = [part for part in _members(spec) if _is_spec(part) and part.__struct_config__.tag]
    return {str(part.__struct_config__.tag): part for part in specs}


def _explain(value: object, kind: Any, path: str) -> str:  # noqa: ANN401 - any annotation
    """What is wrong with a value, at the innermost place that is wrong by itself."""
    for step, part, part_kind in _parts(value, kind):
        if _message(part, part_kind):
            return _explain(part, part_kind, path + step)
    message, _, inner = _message(value, kind).partition(" - at `$")
    for word, ours in _WORDS.items():
        message = message.replace(word, ours)
    if message.startswith("missing required key") and _is_spec(of := _member(value, kind)):
        absent = [one.encode_name for one in structs.fields(of) if one.required]
        absent = [f"`{name}`" for name in absent if name not in dict(value)]  # type: ignore[call-overload]  # a mapping
        message = f"missing required key{'s' * (len(absent) > 1)} {', '.join(absent)}"
    end = f" - at `{place}`" if (place := path + inner[:-1]) != "$" else ""
    if message.startswith("unknown key"):
        wrong, spec = message.split("`")[1], _member(value, kind)
        known = [field.encode_name for field in structs.fields(spec)]
        known += ["kind"] if spec.__struct_config__.tag_field else []
        if wrong in ("api_key", "key") and "key_env" in known:
            return f"{message}{end}; name an environment variable that holds it in `key_env`"
    elif message.startswith("Invalid enum value"):
        wrong, known = str(value), [str(v) for v in _closed(kind)]
    elif kinds := "kind" in message and kinds_of(kind):
        wrong, known = message.partition("'")[2][:-1], [*kinds]
    else:
        return message + end + _shown(message, value)
    return message + end + did_you_mean(wrong, known)


def _message(value: object, kind: Any) -> str:  # noqa: ANN401 - any annotation
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _shown(message: str, value: object) -> str:
    if not message.startswith("Expected") or not isinstance(value, str | float | int | date):
        return ""
    text = repr(value) if isinstance(value, str) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    needs_quotes = message.startswith("Expected `str") and not isinstance(value, str)
    hint = f": put it in quotes, '{text}'" if needs_quotes else ""
    return f"; it is {text[:LONGEST_SHOWN]}{hint}"


def _is_spec(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    return isinstance(kind, type) and issubclass(kind, Struct)


def _members(kind: Any) -> list[Any]:  # noqa: ANN401 - any annotation
    """The types that a value of this type may be, without None and without bounds."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return [member for part in get_args(kind) for member in _members(part)]
    return [] if kind is NoneType else [kind]


def _member(value: object, kind: Any) -> Any:  # noqa: ANN401 - any annotation
    """The member of a union that a mapping or list is meant to be; None where nothing says so."""
    if isinstance(value, Mapping):
        if isinstance(tag := value.get("kind"), str) and (found := kinds_of(kind).get(tag)):
            return found
        fitting = [part for part in _members(kind) if _is_spec(part) or get_origin(part) is dict]
    else:
        fitting = [part for part in _members(kind) if get_origin(part) is tuple]
    return fitting[0] if len(fitting) == 1 else None


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:  # noqa: ANN401 - any annotation
    """The parts of a mapping or list: the step to each, and the type that it should have."""
    member = _member(value, kind)
    if isinstance(value, Mapping) and _is_spec(member):
        types = {one.encode_name: one.type for one in structs.fields(member)}
        yield from ((f".{key}", part, types[key]) for key, part in value.items() if key in types)
    elif isinstance(value, Mapping) and member:
        yield from ((f"[{key}]", part, get_args(member)[1]) for key, part in value.items())
    elif isinstance(value, list) and member:
        kinds = get_args(member)
        kinds = kinds[:1] * len(value) if kinds[-1] is ... else kinds
        places = zip(value, kinds, strict=False)  # a list of another length is wrong as a whole
        yield from ((f"[{place}]", part, of) for place, (part, of) in enumerate(places))


def _closed(kind: Any) -> list[Any]:  # noqa: ANN401 - any annotation
    """The values of the closed lists among the members of a type."""
    found: list[Any] = []
    for part in _members(kind):
        found += get_args(part) if get_origin(part) is Literal else ()
        found += part if isinstance(part, EnumType) else ()
    return found


def json_schema(spec: Any, *, title: str) -> dict[str, Any]:  # noqa: ANN401 - a spec or a union of specs
    """Return the JSON schema (draft 2020-12) of a spec, or of a union of specs by `kind`.

    A key is described by the sentences of its spec's docstring that name it.
    """
    schema = msgspec.json.schema(spec)
    for part in _specs(spec, set()):
        definition = schema["$defs"][part.__name__]
        definition["description"] = " ".join((part.__doc__ or "").split())
        above = part.__mro__[: part.__mro__.index(Spec)]
        whole = " ".join(" ".join((one.__doc__ or "").split()) for one in above)
        for name, key in definition["properties"].items():
            named = re.compile(rf"`{name}[`:]")
            if text := " ".join(filter(named.search, _SENTENCE.split(whole))):
                key["description"] = text
    return {"$schema": DIALECT, "title": title, **schema}


def _specs(kind: Any, found: set[type[Struct]]) -> set[type[Struct]]:  # noqa: ANN401 - any annotation
    if _is_spec(kind) and kind not in found:
        found.add(kind)
        for field in structs.fields(kind):
            _specs(field.type, found)
    for part in get_args(kind):
        _specs(part, found)
    return found
