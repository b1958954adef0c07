"""Prices of models: the list that comes with the program, and a file of the operator's own."""

from pathlib import Path

import pytest

from agentchat.contracts.values import Usage
from agentchat.runtime.prices import Price, Prices, load_prices
from agentchat.runtime.settings import SettingsError

USED = Usage(input_tokens=1_000_000, cache_read_tokens=1_000_000, output_tokens=1_000_000)


def test_list_prices_are_those_of_the_day() -> None:
    prices = load_prices(None)
    assert (prices.currency, len(prices.checked)) == ("USD", 10)
    for day, cost in (("2026-10-06", 12.2), ("2026-10-07", 12.1)):
        assert prices.compute_cost("claude-sonnet-5-5", USED, f"{day}T23:00:00Z") == pytest.approx(cost)
    assert all(prices.compute_cost(model, USED) for model in prices.models)
    assert prices.has_price("demo-shop-1?delay_ms=10")
    assert not prices.has_price("unknown?delay_ms=10")


def test_a_price_of_a_later_day_does_not_count_today() -> None:
    """What-if and eval commands price runs by the prices of today."""
    today, later = Price(input=1, output=2), Price(since="9999-01-01", input=3, output=4)
    prices = Prices(models={"m": [today, later], "n": [later]})
    assert prices.compute_cost("m", Usage(input_tokens=1_000_000, output_tokens=1_000_000)) == 3
    assert prices.compute_cost("n", USED) is None
    assert prices.has_price("n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not a price table"),
        ('{"models": {"m": {"input": 1}}}', "missing required field `output`"),
        ('{"models": {"m": [{"from": "May", "input": 1, "output": 2}]}}', "from"),
        ('{"models": {"m": {"input": 1e308, "output": 2}}}', "<= 1000000000000"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "prices.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingsError, match=r"^AGENTCHAT_PRICES: ") as refused:
        load_prices(str(file))
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
