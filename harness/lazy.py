"""Packages that take long to import: each is loaded when something of it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as numpy
    import pandas as pandas
    import pyarrow as pyarrow
    import torch as torch
    from matplotlib.axes import Axes as Axes
    from numpy.typing import NDArray
    from pandas import DataFrame as DataFrame
    from pandas import Index as Index
    from pandas import Series as Series
    from pyarrow import compute as compute
    from torch import Tensor as Tensor
    from transformers import PretrainedConfig as PretrainedConfig
    from transformers import PreTrainedModel as PreTrainedModel
    from transformers import PreTrainedTokenizerBase as PreTrainedTokenizerBase

    ArrowTable = pyarrow.Table
    Mask = NDArray[numpy.bool_]
    Places = NDArray[numpy.intp]
else:

    class _Package:
        """Stands for a package; each attribute is the package's own."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:  # noqa: ANN401 - whatever the package has
            return getattr(import_module(self._name), attribute)

    numpy, pandas, pyarrow, torch = map(_Package, ("numpy", "pandas", "pyarrow", "torch"))
    compute = _Package("pyarrow.compute")
    DataFrame = Index = Series = ArrowTable = Axes = Tensor = Mask = Places = Any
    PretrainedConfig = PreTrainedModel = PreTrainedTokenizerBase = Any
