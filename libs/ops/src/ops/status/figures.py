"""What the system is at: runs, queues, lags and webhooks, as an operator may read them."""

import asyncio
import contextlib
from collections.abc import Collection, Iterator

import msgspec
import psycopg

from bus import BusUnavailable
from bus.queues import Queue
from conversations.errors import ConversationsError
from conversations.event_store.log import Log
from conversations.queries.under_way import UnderWay, read_models, under_way
from ops.bus_connection import connected
from ops.command_database import failures_in_one_line, reached
from ops.environment import Environment
from ops.errors import StackError
from runtime.postgres import DatabaseUnavailable, open_pool
from webhooks import outbox
from webhooks.outbox import EndpointFigures

_SECONDS = 5.0
_QUEUES: tuple[Queue, ...] = ("REQUESTS", "TOOLS")
_FAULTS = (
    *(StackError, BusUnavailable, ConversationsError, DatabaseUnavailable),
    *(psycopg.Error, TimeoutError),
)


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that no worker has taken yet; the oldest has waited so long."""

    name: str
    waiting: int
    oldest_seconds: float


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How many positions of the log a follower is behind. `parked` events could not be taken by it."""

    name: str
    behind: int
    parked: int = 0


class Figures(msgspec.Struct, kw_only=True):
    """None is not known; `unknown` says why. Lags are those of the read models and of the feed, `EVENTS`."""

    runs: UnderWay | None = None
    queues: list[QueueStatus] | None = None
    lags: list[Lag] = []
    webhooks: EndpointFigures | None = None
    unknown: list[str] = []


async def gather(environment: Environment, away: Collection[str]) -> Figures:
    """All that is known within a few seconds. The servers `away` are down, and not asked."""
    figures = Figures(unknown=[f"{server} is down" for server in away])
    head: int | None = None
    if "postgres" not in away:
        with _noted(figures, "postgres"):
            async with asyncio.timeout(_SECONDS):
                head = await _ask_database(environment.database_url, figures)
    if "nats" not in away:
        with _noted(figures, "nats"):
            async with asyncio.timeout(_SECONDS):
                await _ask_bus(environment.nats_url, figures, head)
    return figures


@contextlib.contextmanager
def _noted(figures: Figures, server: str) -> Iterator[None]:
    try:
        with failures_in_one_line():
            yield
    except _FAULTS as error:
        reason = str(error).partition("\n")[0] or "no answer in time"
        figures.unknown.append(f"{server}: {reason}")


async def _ask_database(url: str, figures: Figures) -> int:
    """Returns the last position of the log, read before those of the followers."""
    await reached(url)
    async with open_pool(url) as pool:
        head = await Log(pool).head()
        figures.runs = await under_way(pool)
        figures.lags = [
            Lag(name=each.name, behind=max(0, head - each.position), parked=each.parked)
            for each in await read_models(pool)
        ]
        figures.webhooks = await outbox.figures(pool)
    return head


async def _ask_bus(url: str, figures: Figures, head: int | None) -> None:
    async with connected(url, "agentchat status") as bus:
        figures.queues = [
            QueueStatus(name=name, waiting=found.waiting, oldest_seconds=round(found.oldest_seconds, 1))
            for name in _QUEUES
            if (found := await bus.queues.backlog(name))
        ]
        if head is not None:
            end = await bus.feed.end()
            figures.lags.append(Lag(name="EVENTS", behind=max(0, head - end.position)))
