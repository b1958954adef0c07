"""Compute the cost of tokens by a price table: the operator's own, or list prices of common models."""

from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from agentchat.contracts.text_checks import convert_to_utf8
from agentchat.contracts.values import Usage
from agentchat.runtime.settings import SettingsError

SETTING = "AGENTCHAT_PRICES"

_MILLION = 1_000_000
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Day = Annotated[str, msgspec.Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]


class UnreadablePrices(ValueError):  # noqa: N818 - a state of the file
    """The file does not exist or is not a price table; the text is one line."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"since": "from"}):
    """Prices of a million tokens, from the day `since` (UTC) on.

    Without a price for cached tokens, a run that used any has no known cost.
    """

    since: _Day = ""
    input: _Amount
    output: _Amount
    cache_read: _Amount | None = None
    cache_write: _Amount | None = None


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices by the name of the model, as agents have it, and the day when they were `checked`.

    Several prices of a model differ in the day from which they hold.
    """

    models: dict[str, Price | list[Price]] = {}
    currency: str = ""
    checked: _Day = ""

    def compute_cost(self, model: str, usage: Usage, at: str | None = None) -> float | None:
        """Return the cost at a time, by default now; None if the table has no price for it."""
        today = datetime.now(UTC).isoformat()  # noqa: TID251 - of estimates; stored costs name their time
        price = self._find_price(model, at or today)
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

    def has_price(self, model: str) -> bool:
        """Return True if the table has a price of the model, now or later."""
        return bool(self._list_prices(model))

    def _find_price(self, model: str, at: str) -> Price | None:
        begun = [each for each in self._list_prices(model) if each.since <= at[:10]]
        return max(begun, key=lambda each: each.since, default=None)

    def _list_prices(self, model: str) -> list[Price]:
        # The offline model's names may have a query, such as `demo-shop-1?delay_ms=10`.
        found = self.models.get(model) or self.models.get(model.partition("?")[0], [])
        return [found] if isinstance(found, Price) else found


def read_prices(path: Path) -> Prices:
    """Read the table from a file of JSON. Raises UnreadablePrices."""
    try:
        return msgspec.json.decode(convert_to_utf8(path.read_bytes()), type=Prices)
    except OSError as error:
        raise UnreadablePrices(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadablePrices(f"{path} is not a price table: {error}") from None


def load_prices(path: str | None) -> Prices:
    """Read the table at `path`, the list prices that come with this program without one.

    Raises SettingsError.
    """
    if not path:
        return msgspec.json.decode(files(__package__).joinpath("prices.json").read_bytes(), type=Prices)
    try:
        return read_prices(Path(path))
    except UnreadablePrices as error:
        raise SettingsError(f"{SETTING}: {error}") from None
