"""Specs to JSON schemas, by which editors complete and check YAML files."""

import re
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs

from harness.specs.schema import Spec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SENTENCE = re.compile(r"(?<=[.;])\s+")


def json_schema(spec: Any, *, title: str) -> dict[str, Any]:  # noqa: ANN401 - a spec or a union of specs
    """Return the JSON schema (draft 2020-12) of a spec, or of a union of specs told by `kind`.

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
    """Every spec that a type holds, at any depth."""
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
        found.add(kind)
        for field in structs.fields(kind):
            _specs(field.type, found)
    for part in get_args(kind):
        _specs(part, found)
    return found


def _describe(properties: dict[str, Any], spec: type[Struct]) -> None:
    """Give each key its older name, and the sentences that name it."""
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
