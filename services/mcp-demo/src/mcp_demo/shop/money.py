"""Money is whole euro cents inside the shop, and euros with two decimals in what a tool answers."""

CURRENCY = "EUR"


def euros(cents: int) -> float:
    """Cents as euros; a float is exact enough here, because sums are made in cents."""
    return round(cents / 100, 2)
