"""What configs/prices.yaml may say: what a million tokens cost, and where that was read."""

from typing import Annotated

from msgspec import Meta, field

from harness.specs.schema import Spec

Usd = Annotated[float, Meta(ge=0)]


class PriceSpec(Spec, frozen=True, kw_only=True):
    """US dollars a million tokens of one model; null where no price was read.

    `read` is the day it stood at `source`. `batch_share` is what a call costs in a batch, as a
    share of its price by itself.
    """

    input_usd: Usd | None = None
    output_usd: Usd | None = None
    batch_share: Annotated[float, Meta(gt=0, le=1)] | None = None
    read: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        told = (self.input_usd, self.output_usd, self.read, self.source)
        if len({value is None for value in told}) > 1:
            raise ValueError("give input_usd, output_usd, read and source, or none of them")


class PricesSpec(Spec, frozen=True, kw_only=True):
    """Prices by the name a provider calls a model by."""

    about: str = ""
    prices: dict[str, PriceSpec] = field(default_factory=dict)
