"""YAML files to checked mappings and frozen specs; specs to JSON schemas, for editors.

Unknown, missing, repeated and ill-typed keys are errors that name the file, the key and the
nearest valid one. Nothing here knows what a spec says, nor where files lie.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from datetime import date
from enum import EnumType
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import yaml
from msgspec import Meta, Struct, structs

from harness.errors import SpecError, did_you_mean

LONGEST_SHOWN = 60
DEEPEST, MOST_VALUES = 100, 1_000_000
"""How deep a YAML file may nest, and how many values it may hold, those of aliases each time."""


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A YAML file's content, checked."""


LanguageCode = Annotated[str, Meta(pattern=r"^[A-Za-z]{2,3}([_-][A-Za-z0-9]+)*$")]
"""A language, such as en or pt-BR."""


class ReadsLanguages(Spec, frozen=True, kw_only=True):
    """`languages` are those that it reads, such as en; without them, any.

    They change no verdict and no score: a run on texts in another language warns.
    """

    languages: tuple[LanguageCode, ...] = ()


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]  # the base depends on how PyYAML was built
    """Safe YAML in which a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, refusing repeated keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            is_word = isinstance(key, yaml.ScalarNode)
            if not is_word or key.value in seen:
                fact = "key {0!r} is given twice" if is_word else "a key is not a plain word"
                problem = fact.format(key.value)
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file holds.

    One that nests more than DEEPEST deep, or that aliases make larger than MOST_VALUES, is refused:
    such a file has no end, or overflows what reads it.
    """
    text = _text(path)
    try:
        problem, content = _parsed(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date with a 13th month
        problem = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise SpecError(f"{path}: not valid YAML: {problem}; correct it there") from error
    if problem:
        raise SpecError(f"{path}: {problem}; write it out")
    if content is None:
        raise SpecError(f"{path}: is empty; write its keys and values, or remove it")
    if not isinstance(content, dict):
        raise SpecError(f"{path}: expected keys and values, found {type(content).__name__}")
    return deepcopy(content)


@lru_cache(maxsize=256)  # a library, a plan and tests read the same files again and again
def _parsed(text: str) -> tuple[str, object]:
    """What makes a YAML text endless, and otherwise what it holds."""
    problem = _endless(text)
    return problem, None if problem else yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # a pipe might never end
            raise SpecError(f"{path}: not a plain file; give one that holds YAML")
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror}); correct the path") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error


def _endless(text: str) -> str:
    """What makes a YAML file endless, or too deep to be read; empty where nothing does."""
    sizes: dict[str, int] = {}  # of what each anchor names, its own aliases counted
    around: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(text, Loader=_Loader):
        match event:
            case yaml.AliasEvent(anchor=name):
                if name in [anchor for anchor, _ in around]:
                    return f"alias *{str(name)[:LONGEST_SHOWN]} is within what it names"
                count += sizes.get(str(name), 0)
            case yaml.CollectionStartEvent(anchor=name):
                around.append((name, count))
                count += 1
            case yaml.CollectionEndEvent():
                name, before = around.pop()
                sizes |= {name: count - before} if name else {}
            case yaml.ScalarEvent(anchor=name):
                count += 1
                sizes |= {name: 1} if name else {}
        if len(around) > DEEPEST or count > MOST_VALUES:
            is_deep = len(around) > DEEPEST
            many = f"its aliases make more than {MOST_VALUES} values"
            return f"nests more than {DEEPEST} deep" if is_deep else many
    return ""


def load_spec(content: dict[str, Any], kind: Any, *, where: str) -> Any:  # noqa: ANN401 - kind may be a union, which no type variable binds
    """Return the spec of type `kind` (a Spec, or a union of them) that a mapping describes.

    A key may have its field's name or the name it is stored under. `where` is named in errors.
    """
    try:
        with suppress(msgspec.ValidationError):  # most contents are right as they are
            return msgspec.convert(content, kind)
        try:
            return msgspec.convert(_stored(content, kind), kind)
        except msgspec.ValidationError as error:
            raise SpecError(f"{where}: {_explain(content, kind, '$')}") from error
    except RecursionError:
        raise SpecError(f"{where}: nests more than {DEEPEST} deep; correct it") from None


def kinds_of(spec: Any) -> dict[str, Any]:  # noqa: ANN401 - a spec or a union of specs
    """Map the `kind` of each spec of a union to that spec; untagged specs are left out."""
    specs = [part for part in _members(spec) if _is_spec(part) and part.__struct_config__.tag]
    return {str(part.__struct_config__.tag): part for part in specs}


def _explain(value: object, kind: Any, path: str) -> str:  # noqa: ANN401 - any annotation
    end = f" - at `{path}`" if path != "$" else ""
    if isinstance(value, Mapping):
        if kinds := kinds_of(kind):
            tag = value.get("kind")
            if "kind" not in value:
                return f"missing required key `kind`{end}; known: {', '.join(kinds)}"
            if isinstance(tag, str) and tag not in kinds:
                place = end.removeprefix(" -")
                return f"unknown kind {tag!r}{place}{did_you_mean(tag, list(kinds))}"
            if not isinstance(tag, str):
                return f"Expected `str`, got `{type(tag).__name__}` - at `{path}.kind`"
        known = _keys(_member(value, kind))
        for key in value:
            if known and isinstance(key, str) and key not in known:
                return f"unknown key `{key}`{end}{did_you_mean(key, [*{*known.values()}])}"
            if key in known and known[key] != key and known[key] in value:
                return f"`{key}` and `{known[key]}`{end} are one key; leave one out"
    for step, part, part_kind in _parts(value, kind):
        if _message(part, part_kind):
            return _explain(part, part_kind, path + step)
    message = _message(value, kind).replace("Object missing", "missing").replace("field `", "key `")
    message = message.replace("Invalid RFC3339 encoded date", "Expected a day such as '2026-11-21'")
    if message.startswith("Invalid enum value"):
        return f"{message}{end}{did_you_mean(str(value), [str(v) for v in _closed(kind)])}"
    return message + end + _shown(message, value)


def _stored(value: Any, kind: Any) -> Any:  # noqa: ANN401 - any annotation
    member = _member(value, kind)
    if member is None or not isinstance(value, Mapping | list):
        return value
    parts = [(step, _stored(part, of)) for step, part, of in _parts(value, kind)]
    if isinstance(value, list):
        return [part for _, part in parts] if len(parts) == len(value) else value
    if not _is_spec(member):
        return dict(zip(value, (part for _, part in parts), strict=True))
    names = {field.name: field.encode_name for field in structs.fields(member)}
    stored = {names.get(step[1:], step[1:]): part for step, part in parts}
    is_twice = len(stored) < len(parts)  # is refused: a key that is left over is unknown
    return {k: v for k, v in value.items() if is_twice or k not in names} | stored


def _message(value: object, kind: Any) -> str:  # noqa: ANN401 - any annotation
    try:
        msgspec.convert(_stored(value, kind), kind)
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
        tag, kinds = value.get("kind"), kinds_of(kind)
        if isinstance(tag, str) and tag in kinds:
            return kinds[tag]
        fitting = [part for part in _members(kind) if _is_spec(part) or get_origin(part) is dict]
    else:
        fitting = [part for part in _members(kind) if get_origin(part) is tuple]
    return fitting[0] if len(fitting) == 1 else None


def _keys(spec: Any) -> dict[str, str]:  # noqa: ANN401 - any annotation
    """The keys that a spec may have, each with the one to prefer; none for another type."""
    if not _is_spec(spec):
        return {}
    tags = {"kind": "kind"} if spec.__struct_config__.tag_field else {}
    fields = structs.fields(spec)
    return tags | {name: one.name for one in fields for name in (one.encode_name, one.name)}


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:  # noqa: ANN401 - any annotation
    member = _member(value, kind)
    if isinstance(value, Mapping) and _is_spec(member):
        types = {
            name: one.type for one in structs.fields(member) for name in (one.encode_name, one.name)
        }
        yield from ((f".{key}", part, types[key]) for key, part in value.items() if key in types)
    elif isinstance(value, Mapping) and member:
        yield from ((f"[{key}]", part, get_args(member)[1]) for key, part in value.items())
    elif isinstance(value, list) and member:
        kinds = get_args(member)
        kinds = kinds[:1] * len(value) if kinds[-1] is ... else kinds
        places = zip(value, kinds, strict=False)  # a list of another length is wrong as a whole
        yield from ((f"[{place}]", part, of) for place, (part, of) in enumerate(places))


def _closed(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    found: list[Any] = []
    for part in _members(kind):
        found += get_args(part) if get_origin(part) is Literal else ()
        found += part if isinstance(part, EnumType) else ()
    return tuple(found)


DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SENTENCE = re.compile(r"(?<=[.;])\s+")


def json_schema(spec: Any, *, title: str) -> dict[str, Any]:  # noqa: ANN401 - a spec or a union of specs
    """Return the JSON schema (draft 2020-12) of a spec, or of a union of specs by `kind`.

    A key is described by the sentences of its spec's docstring that name it. A key that has an
    older name may have either.
    """
    schema = msgspec.json.schema(spec)
    for part in _specs(spec, set()):
        definition = schema["$defs"][part.__name__]
        definition["description"] = " ".join((part.__doc__ or "").split())
        _describe(definition["properties"], part)
    return {"$schema": DIALECT, "title": title, **_plain(schema)}


def _specs(kind: Any, found: set[type[Struct]]) -> set[type[Struct]]:  # noqa: ANN401 - any annotation
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
        found.add(kind)
        for field in structs.fields(kind):
            _specs(field.type, found)
    for part in get_args(kind):
        _specs(part, found)
    return found


def _describe(properties: dict[str, Any], spec: type[Struct]) -> None:
    above = spec.__mro__[: spec.__mro__.index(Spec)]
    sentences = [
        s for part in above for s in _SENTENCE.split(" ".join((part.__doc__ or "").split()))
    ]
    for field in structs.fields(spec):
        key = properties[field.encode_name]
        if text := " ".join(s for s in sentences if re.search(rf"`{field.name}[`:]", s)):
            key["description"] = text
        if field.name != field.encode_name:
            properties[field.name] = {**key}
            key["description"] = f"The older name of `{field.name}`."


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Drop OpenAPI's `discriminator`, which editors do not know; `kind` is a constant instead."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) >= {"enum"} and len(value["enum"]) == 1:
        value = {"const": value["enum"][0], **{k: v for k, v in value.items() if k != "enum"}}
    return {key: _plain(part) for key, part in value.items() if key != "discriminator"}
