"""Measures how well language models handle meaning beyond the literal (docs/python.md)."""

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
# Of all that is not in the library.
_MODULES = {
    **dict.fromkeys(("Case", "Response", "Sample", "Verdict"), "core"),
    **{"HarnessError": "errors", "Judge": "judges.custom", "FunctionModel": "models.function"},
    **{"Reason": "parts", "Workspace": "workspace"},
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
    if name not in __all__:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    module = import_module(f"harness.{_MODULES.get(name, 'library')}")
    return getattr(module, "ComputedJudge" if name == "Judge" else name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
