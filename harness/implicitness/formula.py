"""The one formula of the metric: sentence embeddings and a head's matrices to two numbers.

Written in operators that numpy arrays and torch tensors share: scoring and training run the same.

After ImpScore (Wang et al. 2024). An embedding e [dim] has a semantic feature e Ws and a pragmatic
feature e Wp, both [k]. Its implicitness is the distance of the two once one of them, or each of
them, is mapped into a space that they share. The pragmatic distance of two sentences is that of
their pragmatic features.
"""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from harness.specs.implicitness import Direction, Distance, Form

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Matrix = NDArray[Any]  # of float32 or float64: a type variable takes no narrower one
else:
    Matrix = Any  # numpy is left alone by commands that only look

Array = TypeVar("Array", Matrix, "Tensor")
SMALLEST_NORM: Final = 1e-12  # a shorter vector counts as this long, and has no gradient

PUBLISHED: Final = Form()
FORMS: Final = tuple(Form(*choice) for choice in product(Direction, Distance, Distance))


@dataclass(frozen=True, slots=True, eq=False)
class Maps(Generic[Array]):
    """The matrices of one head, all applied from the right.

    `semantic` is Ws [dim, k], `pragmatic` is Wp [dim, k], `transfer` is Wt [k, k]: it maps the
    pragmatic feature (p2s, third) or the semantic one (s2p). `transfer_semantic` [k, k] maps the
    semantic feature into the third space; None in the other two directions.
    """

    semantic: Array
    pragmatic: Array
    transfer: Array
    transfer_semantic: Array | None = None

    def __post_init__(self) -> None:
        given = (self.semantic, self.pragmatic, self.transfer, self.transfer_semantic)
        shapes = [tuple(matrix.shape) for matrix in given if matrix is not None]
        dim, k = shapes[0]
        if shapes[1:] not in ([(dim, k), (k, k)], [(dim, k), (k, k), (k, k)]):
            raise ValueError(f"Ws and Wp are [dim, k], maps between spaces [k, k]; not {shapes}")


def features(embeddings: Array, maps: Maps[Array]) -> tuple[Array, Array]:
    """The semantic and the pragmatic feature of each row of `embeddings` [n, dim], both [n, k]."""
    return embeddings @ maps.semantic, embeddings @ maps.pragmatic


def implicitness(found: tuple[Array, Array], maps: Maps[Array], form: Form) -> Array:
    """The implicitness [n] of the features of n sentences: 0 is literal; in [0, 2] where cosine."""
    semantic, pragmatic = found
    match form.direction:
        case Direction.TO_SEMANTIC:
            pragmatic = pragmatic @ maps.transfer
        case Direction.TO_PRAGMATIC:
            semantic = semantic @ maps.transfer
        case Direction.THIRD:
            if maps.transfer_semantic is None:
                raise ValueError("the third space needs two maps; transfer_semantic is None")
            pragmatic = pragmatic @ maps.transfer
            semantic = semantic @ maps.transfer_semantic
    return distance(semantic, pragmatic, form.implicitness)


def distance(first: Array, second: Array, kind: Distance) -> Array:
    """The distance of each row of `first` [n, k] from its pair in `second`: [n].

    Of the pragmatic features of two sentences it is their pragmatic distance.
    """
    if kind is Distance.EUCLIDEAN:
        apart: Array = norm(first - second) - SMALLEST_NORM  # a sentence is at 0 from itself
        return apart
    cosine: Array = (first * second).sum(-1) / (norm(first) * norm(second))
    turned: Array = (1 - cosine).clip(min=0, max=2)  # rounding alone leads beyond
    return turned


def norm(rows: Array) -> Array:
    """The length of each row; one below SMALLEST_NORM counts as that, without gradient."""
    squares: Array = (rows * rows).sum(-1)
    length: Array = squares.clip(min=SMALLEST_NORM**2) ** 0.5
    return length
