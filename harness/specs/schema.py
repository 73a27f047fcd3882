"""YAML files to checked mappings and frozen specs.

Unknown, missing, repeated and ill-typed keys are errors that name the file, the key and the
nearest valid one. Nothing here knows what a spec says, nor where files lie.
"""

import re
from dataclasses import dataclass
from datetime import date
from enum import EnumType
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Struct

from harness.errors import SpecError, did_you_mean

LONGEST_TOLD = 60


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A YAML file's content, checked."""


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]  # the base depends on how PyYAML was built
    """Safe YAML in which a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, refusing repeated keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is not a plain word", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} is given twice", key.start_mark
                )
            seen.add(key.value)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds."""
    try:
        content = yaml.load(path.read_text("utf-8"), Loader=_Loader)  # noqa: S506 - a safe loader
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date with a 13th month
        told = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise SpecError(f"{path}: not valid YAML: {told}; correct it there") from error
    if content is None:
        raise SpecError(f"{path}: is empty; write its keys and values, or remove it")
    if not isinstance(content, dict):
        raise SpecError(f"{path}: expected keys and values, found {type(content).__name__}")
    return content


def load_spec(content: dict[str, Any], kind: Any, *, where: str) -> Any:  # noqa: ANN401 - kind may be a union, which no type variable binds
    """The spec of type `kind` (a Spec, or a union of them) that a mapping describes.

    `where` is named in errors.
    """
    aliases: dict[str, str] = {}
    try:
        content = _with_stored_keys(content, kind, aliases)
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        message = _explain(str(error), kind, content)
        for stored, alias in aliases.items():
            message = re.sub(rf"(?<=[.`]){stored}(?=`)", alias, message)
        raise SpecError(f"{where}: {message}") from error


def _with_stored_keys(content: Any, kind: Any, aliases: dict[str, str]) -> Any:  # noqa: ANN401 - any annotation
    """The content with each key of a spec as it is stored; a file may have the field's name.

    The names that were given so are added to `aliases`, by the keys they are stored under.
    """
    members = [kind]
    while get_origin(members[0]) in (Annotated, Union, UnionType):
        is_annotated = get_origin(members[0]) is Annotated
        members = [*get_args(members[0])[: 1 if is_annotated else None], *members[1:]]
    inner = next((get_args(part) for part in members if get_origin(part) in (dict, tuple)), None)
    if isinstance(content, list) and inner:
        return [_with_stored_keys(part, inner[0], aliases) for part in content]
    if not isinstance(content, dict):
        return content
    for part in members:
        if hasattr(part, "__struct_config__") and part.__struct_config__.tag in (
            None,
            content.get("kind"),
        ):
            return _with_fields(content, part, aliases)
    return {
        key: _with_stored_keys(value, inner[-1] if inner else None, aliases)
        for key, value in content.items()
    }


def _with_fields(content: dict[Any, Any], spec: Any, aliases: dict[str, str]) -> dict[Any, Any]:  # noqa: ANN401 - a spec
    """A spec's mapping with each key as it is stored."""
    fields = {field.name: field for field in _fields(spec)}
    fields |= {field.encode_name: field for field in fields.values()}
    stored: dict[Any, Any] = {}
    for key, value in content.items():
        field = fields.get(key)
        name = field.encode_name if field else key
        if name in stored:
            raise msgspec.ValidationError(f"`{key}` and `{name}` are one key; leave one out")
        if name != key:
            aliases[name] = key
        stored[name] = _with_stored_keys(value, field.type if field else None, aliases)
    return stored


@cache
def _fields(spec: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(spec)


def _explain(message: str, kind: Any, content: object) -> str:  # noqa: ANN401 - as in check
    """msgspec's message, with the key and value that it means and the nearest valid ones."""
    fact = message.replace("Object contains", "").replace("Object missing", "missing").strip()
    fact = fact.replace("field `", "key `")
    path = found[1] if (found := re.search(r" - at `\$(.*)`$", message)) else ""
    place = _walked(kind, path, content)
    fact = fact.replace(f"`${path}`", f"`${place.path}`")
    if unknown := re.search(r"unknown field `([^`]+)`", message):
        return f"{fact}{did_you_mean(unknown[1], _keys(place.member))}"
    if bad := re.search(r"Invalid value '([^']+)' - at `\$(.*)\.kind`", message):
        outer = _walked(kind, bad[2], content)
        where = f" at `${outer.path}`" if outer.path else ""
        return f"unknown kind {bad[1]!r}{where}{did_you_mean(bad[1], list(_by_tag(outer.kind)))}"
    if bad := re.search(r"Invalid enum value '([^']+)'", message):
        return f"{fact}{did_you_mean(bad[1], [str(v) for v in _closed(place.member)])}"
    known = list(_by_tag(place.kind)) if "`kind`" in fact else []
    return f"{fact}; known: {', '.join(known)}" if known else fact + _found(message, place.content)


def _found(message: str, value: object) -> str:
    """A sentence end that tells the value of which a message tells the type, or a bound."""
    if not message.startswith("Expected") or not isinstance(value, str | float | int | date):
        return ""
    told = str(value).lower() if isinstance(value, bool) else f"{value}"
    told = repr(value) if isinstance(value, str) else told
    is_text = message.startswith("Expected `str") and not isinstance(value, str)
    return f"; it is {told[:LONGEST_TOLD]}" + (f": put it in quotes, '{told}'" if is_text else "")


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a file: the type there, of a union the member meant, what stands there, its path.

    The path names the keys of mappings.
    """

    kind: Any
    member: Any
    content: object
    path: str


def _by_tag(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - as in check
    """The members of a union of specs, by the `kind` each stands for; none of another type."""
    specs = [part for part in get_args(kind) if hasattr(part, "__struct_config__")]
    return {str(part.__struct_config__.tag): part for part in specs}


def _named(kind: Any, content: object) -> Any:  # noqa: ANN401 - as in check
    """The member of a union that a mapping means, by its `kind` or for want of another."""
    specs = _by_tag(kind) if get_origin(kind) is UnionType else {}
    tag = content.get("kind") if isinstance(content, dict) else None
    if len(specs) == 1:
        return next(iter(specs.values()))  # a spec, or null
    return specs.get(tag, kind) if isinstance(tag, str) else kind


def _walked(kind: Any, path: str, content: object) -> _Place:  # noqa: ANN401 - any annotation
    """What stands at a path such as `.variants[...].steps[0]`."""
    told = ""
    for name, place in re.findall(r"\.(\w+)|\[([^]]*)\]", path):
        spec = _named(kind, content)
        if name:
            # Of a union no member may be meant, as where its kind is unknown.
            hints = get_type_hints(spec) if hasattr(spec, "__struct_config__") else {}
            named = {field.encode_name: field.name for field in _fields(spec)} if hints else {}
            kind, told = hints.get(named.get(name, name)), f"{told}.{name}"
            content = content.get(name) if isinstance(content, dict) else None
        else:
            kind = get_args(spec)[-1 if get_origin(spec) is dict else 0]
            # Of a mapping msgspec does not tell the key: it is that of the first that is wrong.
            if isinstance(content, dict):
                place = _wrong(content, kind)
                content = content.get(place)
            else:
                content = content[int(place)] if isinstance(content, list) else None
            told = f"{told}[{place}]"
    return _Place(kind, _named(kind, content), content, told)


def _wrong(content: dict[Any, Any], kind: Any) -> object:  # noqa: ANN401 - any annotation
    """The first key of a mapping whose value is not of a type; dots where none is found."""
    for key, value in content.items():
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return key
    return "..."


def _keys(kind: Any) -> list[str]:  # noqa: ANN401 - as in _at
    """The keys that may stand in a spec of this type."""
    tags = ["kind"] if kind.__struct_config__.tag_field else []
    return [*tags, *kind.__struct_fields__]


def _closed(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - as in _at
    """The values of a Literal or an enum, or of one that may be null."""
    parts = [part for part in get_args(kind) or (kind,) if part is not type(None)]
    return tuple(v for p in parts for v in get_args(p) or (p if isinstance(p, EnumType) else (p,)))
