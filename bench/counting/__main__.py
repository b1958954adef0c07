"""Print the counts, the counted statements, and the bounds as the table of the tests."""

import asyncio
import sys

from rich.console import Console

from agentchat.ops.errors import StackError
from bench.counting.counted_stack import start_counted_stack
from bench.counting.one_chat import HELD, Cost, measure_chats
from bench.report import build_counts_table, show


def render_bounds(found: dict[str, Cost]) -> str:
    """Render the bounds for tests/bench/one_chat.toml. WAL has 5 % of room, since pages fill differently."""
    lines = []
    for kind, cost in found.items():
        lines += ["", f'["{kind}"]']
        for name, count in cost.counts.items():
            if name.startswith(HELD):
                most = round(count * 1.05, -2) if name == "postgres.wal_bytes" else count
                lines.append(f'"{name}" = {most:.0f}')
    return "\n".join(lines)


async def _count(console: Console) -> None:
    async with start_counted_stack() as counted:
        found = await measure_chats(counted)
    show(console, [build_counts_table({kind: cost.counts for kind, cost in found.items()})])
    for kind, cost in found.items():
        console.rule(f"the statements of: {kind}")
        for (service, text), count in sorted(cost.statements.items()):
            console.print(f"{count} x {service}: {text[:200]}", markup=False, highlight=False)
    console.rule("tests/bench/one_chat.toml")
    console.print(render_bounds(found), markup=False, highlight=False)


if __name__ == "__main__":
    try:
        asyncio.run(_count(Console()))
    except StackError as error:
        sys.exit(f"bench: {error}")
