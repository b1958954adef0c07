"""Compute the cost of tokens by an operator's price table."""

from pathlib import Path
from typing import Annotated

import msgspec

from agentchat.contracts.text import convert_to_utf8
from agentchat.contracts.values import Usage

_MILLION = 1_000_000
_Amount = Annotated[float, msgspec.Meta(ge=0)]


class UnreadablePrices(ValueError):  # noqa: N818 - a state of the file
    """The file does not exist or is not a price table; the text is one line."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of a million tokens.

    Without a price for cached tokens, a run that used any has no known cost.
    """

    input: _Amount
    output: _Amount
    cache_read: _Amount | None = None
    cache_write: _Amount | None = None


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices by the name of the model, as agents have it."""

    models: dict[str, Price] = {}
    currency: str = ""

    def compute_cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost; None if the table has no price for it."""
        price = self.models.get(model)
        if price is None:
            return None
        total = price.input * usage.input_tokens + price.output * usage.output_tokens
        for amount, tokens in (
            (price.cache_read, usage.cache_read_tokens),
            (price.cache_write, usage.cache_creation_tokens),
        ):
            if tokens and amount is None:
                return None
            total += (amount or 0.0) * tokens
        return total / _MILLION


def read_prices(path: Path) -> Prices:
    """Read the table from a file of JSON. Raises UnreadablePrices."""
    try:
        return msgspec.json.decode(convert_to_utf8(path.read_bytes()), type=Prices)
    except OSError as error:
        raise UnreadablePrices(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadablePrices(f"{path} is not a price table: {error}") from None
