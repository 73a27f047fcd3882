"""Measures how well language models handle meaning beyond the literal.

The public library: `import harness as ph`, then `ph.evaluate(...)` (docs/python.md). What is named
in `__all__` is public; each name is imported when it is first used.
"""

from importlib import import_module
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
    "Sample",
    "Verdict",
    "Workspace",
    "agreement",
    "evaluate",
    "items",
    "leaderboard",
    "load_runs",
    "names",
    "plot",
    "report",
    "samples",
    "score_implicitness",
    "table",
]
_MODULES = {
    "harness.core": ("Case", "Response", "Sample", "Verdict"),
    "harness.errors": ("HarnessError",),
    "harness.judges.custom": ("ComputedJudge",),
    "harness.library": (
        *("EvaluatedRun", "agreement", "evaluate", "items", "leaderboard", "load_runs", "names"),
        *("plot", "report", "samples", "score_implicitness", "table"),
    ),
    "harness.models.function": ("FunctionModel",),
    "harness.parts": ("Reason",),
    "harness.workspace": ("Workspace",),
}

if TYPE_CHECKING:
    from harness.core import Case, Response, Sample, Verdict
    from harness.errors import HarnessError
    from harness.judges.custom import ComputedJudge as Judge
    from harness.library import (
        EvaluatedRun,
        agreement,
        evaluate,
        items,
        leaderboard,
        load_runs,
        names,
        plot,
        report,
        samples,
        score_implicitness,
        table,
    )
    from harness.models.function import FunctionModel
    from harness.parts import Reason
    from harness.workspace import Workspace


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    own = {"Judge": "ComputedJudge"}.get(name, name)
    for module, names in _MODULES.items():
        if name in __all__ and own in names:
            return getattr(import_module(module), own)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
