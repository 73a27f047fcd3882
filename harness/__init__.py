"""Measures how well language models handle meaning beyond the literal.

The public library: `import harness as ph`, then `ph.evaluate(...)` (docs/python.md). What is named
in `__all__` is public; each name is imported when it is first used.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Case",
    "EvaluatedRun",
    "FunctionModel",
    "HarnessError",
    "Judge",
    "Reason",
    "Response",
    "ResultTable",
    "Sample",
    "Verdict",
    "Workspace",
    "agreement",
    "evaluate",
    "implicitness",
    "judges",
    "load_runs",
    "models",
    "tasks",
]
_HOMES = {
    "Case": "harness.core:Case",
    "EvaluatedRun": "harness.library:EvaluatedRun",
    "FunctionModel": "harness.models.function:FunctionModel",
    "HarnessError": "harness.errors:HarnessError",
    "Judge": "harness.judges.custom:ComputedJudge",
    "Reason": "harness.parts:Reason",
    "Response": "harness.core:Response",
    "Sample": "harness.core:Sample",
    "ResultTable": "harness.library:ResultTable",
    "Verdict": "harness.core:Verdict",
    "Workspace": "harness.workspace:Workspace",
    "agreement": "harness.library:agreement",
    "evaluate": "harness.library:evaluate",
    "load_runs": "harness.library:load_runs",
    "tasks": "harness.library:tasks",
}

if TYPE_CHECKING:
    from harness.core import Case, Response, Sample, Verdict
    from harness.errors import HarnessError
    from harness.judges.custom import ComputedJudge as Judge
    from harness.library import EvaluatedRun, ResultTable, agreement, evaluate, load_runs, tasks
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
    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
