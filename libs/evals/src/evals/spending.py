"""What a run of a suite has cost, judges included, and whether its budget lets it go on."""

from contracts.values import Usage
from evals.errors import UnfitSuite
from evals.suite import SETTINGS, SuiteBudget
from experiments.prices import Prices


class Spending:
    """`money` is in the price table's currency; 0 where there are no prices.

    What is under way counts with its estimate, so that the budget is passed by no more than the difference.
    """

    def __init__(self, budget: SuiteBudget, prices: Prices) -> None:
        self.tokens = 0
        self.money = 0.0
        self.prices = prices
        self._budget = budget
        self._reserved: list[tuple[int, float]] = []

    def check(self, model: str) -> None:
        """Raises UnfitSuite where the budget is in money and the model has no price."""
        if self._budget.money is not None and model not in self.prices.models:
            raise UnfitSuite(SETTINGS, f"budget.money needs a price table that has {model} (--prices)")

    def reserve(self, model: str, expected: Usage) -> tuple[int, float]:
        """Count a call that begins; `release` it when it has ended."""
        reserved = expected.total, self.cost(model, expected)
        self._reserved.append(reserved)
        return reserved

    def release(self, reserved: tuple[int, float]) -> None:
        self._reserved.remove(reserved)

    def add(self, model: str, usage: Usage) -> None:
        """A call has ended."""
        self.tokens += usage.total
        self.money += self.cost(model, usage)

    @property
    def lasts(self) -> bool:
        """Whether something is left of the budget, if all under way costs what is expected."""
        tokens = self.tokens + sum(each for each, _ in self._reserved)
        money = self.money + sum(each for _, each in self._reserved)
        budget = self._budget
        return (budget.tokens is None or tokens < budget.tokens) and (
            budget.money is None or money < budget.money
        )

    def cost(self, model: str, usage: Usage) -> float:
        """Cached tokens without a price of their own count as any: the budget is not passed for that."""
        known = self.prices.cost(model, usage)
        if known is None:
            plain = Usage(input_tokens=usage.total - usage.output_tokens, output_tokens=usage.output_tokens)
            known = self.prices.cost(model, plain)
        return known or 0.0
