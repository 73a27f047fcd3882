"""A model whose identity is known."""

from typing import TypeVar

from harness.core import Model

_Model = TypeVar("_Model", bound=Model)


def resolved(model: _Model) -> _Model:
    """The model itself, after it found out which one it is."""
    model.resolve()
    return model
