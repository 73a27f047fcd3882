"""YAML files to checked mappings and frozen specs.

Unknown, missing, repeated and ill-typed keys are errors that name the file, the key and the
nearest valid one. Nothing here knows what a spec says, nor where files lie.
"""

import difflib
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from harness.errors import SpecError


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A YAML file's content, checked."""


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]  # the base depends on how PyYAML was built
    """Safe YAML in which a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, refusing repeated keys."""
        seen: set[str] = set()
        for key, _ in node.value:
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
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise SpecError(f"{path}: expected keys and values, found {type(content).__name__}")
    return content


def check(content: dict[str, Any], kind: Any, *, where: str) -> Any:  # noqa: ANN401 - kind may be a union, which no type variable binds
    """The spec of type `kind` (a Spec, or a union of them) that a mapping describes.

    `where` is named in errors.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise SpecError(f"{where}: {_explain(str(error), kind)}") from error


def nearest(name: str, known: list[str]) -> str:
    """A sentence end that names the closest known names, and all of them where few."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{hint} known: {', '.join(sorted(known)) or 'none'}"


def _explain(message: str, kind: object) -> str:
    """msgspec's message, with the nearest valid key or value added."""
    fact = message.replace("Object contains", "").replace("Object missing", "missing").strip()
    fact = fact.replace("field `", "key `")
    if unknown := re.search(r"unknown field `([^`]+)`", message):
        return f"{fact}{nearest(unknown[1], _names(kind))}"
    if bad := re.search(r"Invalid value '([^']+)' - at `\$\.kind`", message):
        tags = [s.__struct_config__.tag for s in getattr(kind, "__args__", ())]
        return f"unknown kind {bad[1]!r}{nearest(bad[1], tags)}"
    return fact


def _names(kind: object) -> list[str]:
    """Every key that may stand in a spec of this type, at any depth."""
    found: set[str] = set()
    queue: list[Any] = [kind]
    while queue:
        part = queue.pop()
        if isinstance(part, type) and issubclass(part, Struct):
            found |= set(part.__struct_fields__)
            queue += [f.type for f in msgspec.structs.fields(part)]
        queue += getattr(part, "__args__", ())
    return sorted(found)
