"""Measures how well language models handle meaning beyond the literal.

The public library: `import harness as ph`, then `ph.evaluate(...)` (docs/python.md). What is named
in `__all__` is public; each name is imported when it is first used.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = [
    "Case",
    "EvaluatedRun",
    "FunctionModel",
    "HarnessError",
    "Judge",
    "Reason",
    "Response",
    "ResultTable",
    "ResultTables",
    "Sample",
    "Verdict",
    "Workspace",
    "agreement",
    "evaluate",
    "implicitness",
    "judges",
    "load_runs",
    "models",
    "plot",
    "probe_scorer",
    "report",
    "table",
    "tasks",
]
_MODULES = {
    "harness.core": ("Case", "Response", "Sample", "Verdict"),
    "harness.errors": ("HarnessError",),
    "harness.judges.custom": ("ComputedJudge",),
    "harness.library": (
        *("EvaluatedRun", "ResultTable", "ResultTables", "agreement", "evaluate", "load_runs"),
        *("plot", "probe_scorer", "report", "table", "tasks"),
    ),
    "harness.models.function": ("FunctionModel",),
    "harness.parts": ("Reason",),
    "harness.workspace": ("Workspace",),
}

if TYPE_CHECKING:
    from harness.core import Case, Response, Sample, Verdict
    from harness.errors import HarnessError
    from harness.frames import ResultTable, ResultTables
    from harness.judges.custom import ComputedJudge as Judge
    from harness.library import (
        EvaluatedRun,
        agreement,
        evaluate,
        load_runs,
        plot,
        probe_scorer,
        report,
        table,
        tasks,
    )
    from harness.models.function import FunctionModel
    from harness.parts import Reason
    from harness.workspace import Workspace

    from harness import implicitness, judges, models  # isort: skip


class CallablePackage(ModuleType):
    """A package that is a function of the library too: `ph.judges()` beside `harness.judges`."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - those of the function
        """Call the library's function of this package's name."""
        function = getattr(import_module("harness.library"), self.__name__.rpartition(".")[2])
        return function(*arguments, **named)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name in ("implicitness", "judges", "models"):
        return import_module(f"harness.{name}")
    own = {"Judge": "ComputedJudge"}.get(name, name)
    for module, names in _MODULES.items():
        if name in __all__ and own in names:
            return getattr(import_module(module), own)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
