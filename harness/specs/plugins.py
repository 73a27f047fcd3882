"""Classes and functions that others add: by an entry point, or by the path of a Python file.

Only what a YAML of a home folder names is ever run; nothing of a results folder or a data file.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

from msgspec import Struct, structs

from harness.errors import HarnessError, SpecError, did_you_mean
from harness.parts import digest

Group = Literal["harness.models", "harness.judges", "harness.readers"]
_NOT_OWN = frozenset({"__dict__", "__weakref__", "__module__", "__doc__", "__annotations__"})
OWN = "python"  # the kind of a class of the user's own, which the key `entry` names


@dataclass(frozen=True, slots=True)
class Extension:
    """An object, where it comes from, and the sha256 of its source, empty for one of ours."""

    value: Any
    origin: str
    source: str = ""


def shipped(entry: str) -> Extension:
    """Import an object of this package, given as module:name."""
    module, _, name = entry.partition(":")
    return Extension(getattr(import_module(module), name), entry)


def plugin_kinds(group: Group) -> list[str]:
    """List the kinds that installed packages add; none of them is imported."""
    return sorted({point.name for point in entry_points(group=group)})


def plugin(group: Group, kind: str, *, known: Iterable[str], where: str) -> Extension:
    """Import what one installed package adds under a kind, else raise SpecError."""
    # A package that is on the path twice, as a checkout and installed, is one.
    found = {(_package(p), p.value): p for p in entry_points(group=group, name=kind)}
    points = tuple(found.values())
    if not points:
        names = [*known, *plugin_kinds(group)]
        fact = f"{'no reader' if group == 'harness.readers' else 'unknown kind'} {kind!r}"
        raise SpecError(f"{where}: {fact}{did_you_mean(kind, names)}")
    packages = " and ".join(sorted(map(_package, points)))
    if len(points) > 1:
        raise SpecError(f"{where}: kind {kind!r} is added by {packages}; uninstall all but one")
    with foreign_code(f"{where}: kind {kind!r} of {packages}"):
        value = points[0].load()
    return Extension(value, packages, _source(value, points[0].module, where=where))


def own_entry(entry: str, folder: Path, *, where: str) -> Extension:
    """Import what `path/to/file.py:Name`, from a folder, or `package.module:Name` names."""
    place, _, name = entry.rpartition(":")
    if not place or not name.isidentifier():
        raise SpecError(f"{where}: entry {entry!r}; write path/to/file.py:Name or module:Name")
    if place.endswith(".py"):
        origin = str(folder / Path(place).expanduser())
        module, source = _file_module(Path(origin), where=where)
    else:
        origin = f"module {place}"
        with foreign_code(f"{where}: {origin}"):
            module = import_module(place)
        source = _source(module, place, where=where)
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise SpecError(f"{where}: no {name!r} in {origin}{did_you_mean(name, public)}")
    return Extension(getattr(module, name), origin, source)


def build(made_by: Extension, *arguments: object, protocol: type, where: str) -> Any:  # noqa: ANN401 - one of ours by its protocol
    """Call the `build` of a class, which gives an object of a protocol, else raise SpecError."""
    made, origin = made_by.value, made_by.origin
    if not made_by.source:
        return made.build(*arguments)
    if not isinstance(made, type) or not hasattr(made, "build"):
        raise SpecError(f"{where}: {made!r} of {origin} is no class with a method `build`")
    with foreign_code(f"{where}: {made.__name__}.build of {origin}"):
        built = made.build(*arguments)
    required = [name for name in vars(protocol) if not name.startswith("_")]
    # Looked up without running a property, which may open a connection.
    if missing := [name for name in required if inspect.getattr_static(built, name, ...) is ...]:
        fact = f"{type(built).__name__} of {origin} has no {', '.join(missing)}"
        raise SpecError(f"{where}: {fact}, which every {protocol.__name__} has; add it")
    return built


def spec_of(made_by: Extension, kind: str, *, where: str) -> type[Struct]:
    """Return the `Spec` of a plugin's class, whose tag is the kind."""
    spec: Any = getattr(made_by.value, "Spec", None)
    if getattr(getattr(spec, "__struct_config__", None), "tag", None) != kind:
        raise SpecError(
            f"{where}: {made_by.value!r} of {made_by.origin} needs a class `Spec`, declared with "
            f"tag_field='kind', tag={kind!r}"
        )
    return spec  # type: ignore[no-any-return]  # by its tag


def spec_digest(spec: Struct) -> str:
    """Digest what a spec says, but for keys that change no answer and no verdict."""
    content = structs.asdict(spec)
    return digest({key: v for key, v in content.items() if key not in ("about", "entry")})


def source_digest(item: object, *, is_strict: bool = True) -> str:
    """The sha256, in hex, of the compiled code of a function or class, and of the state it holds.

    What the code reads from elsewhere (globals, files, weights) does not count. Raises SpecError
    for state that has no digest, such as a loaded network, unless not `is_strict`.
    """
    return digest(_content(item, is_strict, ()))


def _content(item: Any, is_strict: bool, outer: tuple[int, ...]) -> object:  # noqa: ANN401 - any object
    """What makes a value what it is, without addresses; `outer` are the ids of values around it."""
    if id(item) in outer:  # a method's closure may hold its class
        return outer.index(id(item))
    nested = partial(_content, is_strict=is_strict, outer=(*outer, id(item)))
    match item:
        case None | int() | float() | str() | bytes() | Enum() | complex() | EllipsisType():
            return repr(item)
        case CodeType():
            return [item.co_name, item.co_code.hex(), item.co_names, nested(item.co_consts)]
        case list() | tuple():
            return [*map(nested, item)]
        case set() | frozenset():
            return sorted(map(repr, map(nested, item)))
        case dict():
            return [[repr(nested(key)), nested(value)] for key, value in item.items()]
        case partial():
            return ["partial", nested(item.func), nested(item.args), nested(item.keywords)]
        case FunctionType():
            cells = [cell.cell_contents for cell in item.__closure__ or ()]
            return nested((item.__code__, item.__defaults__, item.__kwdefaults__, cells))
        case property() | staticmethod() | classmethod():
            return [nested(item.fget if isinstance(item, property) else item.__func__)]
        case MethodType():
            return [nested(item.__func__), nested(item.__self__)]
        case ModuleType() | BuiltinFunctionType():
            return item.__name__
        case type():
            own = {k: v for k, v in vars(item).items() if k not in _NOT_OWN}
            is_ours = item.__module__.partition(".")[0] in ("builtins", "harness")
            return item.__qualname__ if is_ours else [nested(own), [*map(nested, item.__bases__)]]
    if hasattr(item, "__dict__"):
        return [nested(type(item)), nested(vars(item))]
    if is_strict:
        raise SpecError(f"a {type(item).__name__} has no digest of its own: give a `version`")
    return type(item).__name__


@contextmanager
def foreign_code(what: str) -> Iterator[None]:
    """Turn an exception of other people's code into a SpecError that names its line."""
    try:
        yield
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # whatever code of others does, it is no bug of ours
        last = error if isinstance(error, SyntaxError) else extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
        fact = f"{what} failed ({type(error).__name__}: {error}; {place})"
        raise SpecError(f"{fact}; correct it there") from error


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist else f"module {point.module}"


def _file_module(path: Path, *, where: str) -> tuple[ModuleType, str]:
    """The module of a Python file and its sha256: just the bytes that are hashed are run."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{where}: {path}: {error.strerror}; correct `entry`") from error
    source = sha256(content).hexdigest()
    name = f"harness_own_{sha256(str(path.resolve()).encode()).hexdigest()[:8]}_{source[:8]}"
    if name not in sys.modules:
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module  # dataclasses look their module up
        try:
            with foreign_code(f"{where}: {path}"):
                exec(compile(content, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own file, which their YAML names
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name], source


def _source(value: object, module: str, *, where: str) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", module)
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        raise SpecError(f"{where}: module {name} has no source file; name one that has")
    return sha256(Path(file).read_bytes()).hexdigest()
