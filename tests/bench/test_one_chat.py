"""What one chat may cost, as counted on a stack of its own: counts do not shake as times do."""

import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.counting.counted_stack import start_counted_stack
from bench.counting.one_chat import HELD, Cost, measure_chats

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

TABLE = Path(__file__).with_name("one_chat.toml")
BOUNDS: dict[str, dict[str, int]] = tomllib.loads(TABLE.read_text())


@pytest.fixture(scope="module")
async def costs() -> AsyncIterator[dict[str, Cost]]:
    async with start_counted_stack() as stack:
        yield await measure_chats(stack)


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_chat_costs_no_more_than_the_table_says(costs: dict[str, Cost], kind: str) -> None:
    cost, bounds = costs[kind], BOUNDS[kind]
    held = {name: count for name, count in cost.counts.items() if name.startswith(HELD)}
    more = {name: count for name, count in held.items() if count > bounds.get(name, 0)}
    assert not more, _message(kind, cost, more, bounds)


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("counter", HELD)
def test_every_counter_counts(costs: dict[str, Cost], kind: str, counter: str) -> None:
    assert [name for name in costs[kind].counts if name.startswith(counter)]


def _message(kind: str, cost: Cost, more: dict[str, int], bounds: dict[str, int]) -> str:
    lines = [f"{name}: {count}, where {bounds.get(name, 0)} are allowed" for name, count in more.items()]
    services = {name.partition(".")[2] for name in more}
    statements = [f"  {count} x {who}: {text[:150]}" for (who, text), count in cost.statements.items()]
    return "\n".join(
        (
            f"the chat `{kind}` costs more than before:",
            *lines,
            "its statements, of which the new ones may be spared:",
            *(line for line in statements if not services or any(f"x {name}:" in line for name in services)),
            f"If this is meant, change {TABLE.name}: `make bench-counts` prints it as it would be now.",
        )
    )
