"""A sandbox for templates of strangers, which fill neither the memory nor the time.

What an operation, filter or method may make is bounded before it is made, as are the rounds of all
loops of one rendering, and the length of its text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST = 1_000_000
"""The most characters, or digits, that a template or an operation of it may make."""
WIDEST, MOST_ROUNDS = 10_000, 100_000
"""The widest padding, and the most rounds of all loops of one rendering together."""
_PADDING = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs", "indent", "to_bytes"})
_WIDTH = re.compile(r"[0-9]{5,}")
_NESTED = re.compile(r":[^{}]*\{")
_COUNTED = "_counted"


@dataclass(slots=True)
class _Spent:
    rounds: int = 0
    letters: int = 0


_spent = ContextVar[_Spent]("_spent")


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """Write `~` as a call that bounds what it makes."""
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment whose templates are bounded; `rendered` renders one."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})
    code_generator_class = _Generator

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of Jinja
        """Take the options of Jinja's environment."""
        super().__init__(**options)
        del self.globals["lipsum"]
        self.filters = {name: _bounded(name, own) for name, own in self.filters.items()}
        self.filters[_COUNTED] = _counted

    def rendered(self, template: jinja2.Template, slots: Mapping[str, object]) -> str:
        """The text of a template; TemplateRuntimeError where it is too long."""
        token = _spent.set(_Spent())
        try:
            parts, length = [], 0
            for part in template.generate(slots):
                parts.append(part)
                length += len(part)
                _refuse(length > LONGEST, "the text")
            return "".join(parts)
        finally:
            _spent.reset(token)

    def joined(self, parts: tuple[object, ...]) -> str:
        """The texts of some values as one, for `~`."""
        texts = [str(part) for part in parts]
        _refuse(sum(map(len, texts)) > LONGEST, "~")
        return "".join(texts)

    def call_binop(
        self,
        context: jinja2.runtime.Context,
        operator: str,
        left: Any,  # noqa: ANN401 - any value of a template
        right: Any,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        """Combine two values whose result is of a size that fits."""
        if operator == "%":
            _check_widths(left, right)
        elif operator == "+":
            sizes = [len(one) for one in (left, right) if hasattr(one, "__len__")]
            _refuse(sum(sizes) > LONGEST, operator)
        else:
            sizes = [len(one) if hasattr(one, "__len__") else abs(one) for one in (left, right)]
            is_repeated = hasattr(left, "__len__") or hasattr(right, "__len__")
            is_power = operator == "**" and isinstance(left, int) and sizes[1] > LONGEST // 1_000
            _refuse(is_power or (is_repeated and sizes[0] * sizes[1] > LONGEST), operator)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as Jinja has it
        """Call a method or function with arguments of a size that fits."""
        own = getattr(__obj, "__self__", None)
        _check(getattr(__obj, "__name__", ""), (own, *args, *kwargs.values()))
        return _fitting(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:  # noqa: ANN401 - any attribute
        """The sandboxed `format` of a text whose widths fit."""
        made = super().wrap_str_format(value)
        if made is not None:
            _check_widths(value.__self__)
            _refuse(_NESTED.search(value.__self__.replace("{{", "")) is not None, "format")
        return made

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(
                *(loop.iter, _COUNTED, [], [], None, None), lineno=loop.lineno, environment=self
            )
        return tree


def shown(value: object) -> object:
    """A value that a template shows, counted; a list is refused."""
    if isinstance(value, tuple):
        raise jinja2.TemplateRuntimeError('a list is shown as if it were a text; use "for" on it')
    if (spent := _spent.get(None)) is not None and isinstance(value, str):
        spent.letters += len(value)
        _refuse(spent.letters > LONGEST, "the text")
    return value


def _counted(value: Any) -> Any:  # noqa: ANN401 - any value of a template
    """What a loop goes through, its rounds counted."""
    if hasattr(value, "__len__"):
        _count(len(value))
        return value
    return _counting(value)


def _counting(values: Any) -> Iterator[object]:  # noqa: ANN401 - as above
    for value in values:
        _count(1)
        yield value


def _count(rounds: int) -> None:
    spent = _spent.get(None) or _Spent()
    spent.rounds += rounds
    if spent.rounds > MOST_ROUNDS:
        raise jinja2.TemplateRuntimeError(f"its loops have more than {MOST_ROUNDS:,} rounds")


def _bounded(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose arguments and result fit."""

    @wraps(own)
    def bounded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - those of the filter
        _check(name, (*args, *kwargs.values()))
        return _fitting(own(*args, **kwargs))

    return bounded


def _check(name: str, values: tuple[Any, ...]) -> None:
    """Refuse arguments, the text itself first, that would make something too large."""
    most = WIDEST if name in _PADDING else LONGEST
    _refuse(any(isinstance(one, int) and abs(one) > most for one in values), name)
    texts = [one for one in values if isinstance(one, str)]
    if name == "replace" and len(texts) > 2:
        _refuse(texts[0].count(texts[1]) * len(texts[2]) > LONGEST, name)
    if name in ("expandtabs", "indent") and texts:
        widest = max((one for one in values if isinstance(one, int)), default=8)
        lines = texts[0].count("\t") + texts[0].count("\n") + 1
        _refuse(lines * max(widest, *map(len, texts[1:]), 1) > LONGEST, name)
    if name == "join":
        parts = [one for one in values if isinstance(one, str | list | tuple)]
        inner = [len(str(part)) for one in parts for part in one if not isinstance(one, str)]
        count = max((len(one) for one in parts), default=0)
        between = min((len(one) for one in parts), default=0)
        _refuse(sum(inner) + count * between > LONGEST, name)
    if name == "format" and texts:
        _check_widths(texts[0])


def _check_widths(text: object, filling: object = ()) -> None:
    """Refuse the widths and precisions of a format that would fill the memory."""
    if isinstance(text, str):
        found = filling if isinstance(filling, tuple) else (filling,)
        is_wide = "*" in text and any(isinstance(one, int) and one > WIDEST for one in found)
        _refuse(is_wide or _WIDTH.search(text) is not None, "format")


def _fitting(value: Any) -> Any:  # noqa: ANN401 - any value of a template
    _refuse(isinstance(value, str) and len(value) > LONGEST, "it")
    return value


def _refuse(is_too_large: bool, what: str) -> None:
    if is_too_large:
        fact = f"{what} makes something too large" if what != "the text" else "its text is too long"
        raise jinja2.TemplateRuntimeError(f"{fact} (at most {LONGEST:,} characters)")
