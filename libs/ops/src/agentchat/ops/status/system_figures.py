"""Gather the state of a running system: runs, queues, lags, webhooks, and the last errors in its logs."""

import asyncio
import contextlib
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime

import msgspec
import psycopg

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.work_queues import Queue
from agentchat.conversations.errors import ConversationsError
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.current_activity import (
    Activity,
    FailedRuns,
    count_failed_runs,
    find_leading_projector,
    list_read_models,
    load_activity,
)
from agentchat.conversations.queries.quota_figures import DayCost, load_cost_of_today
from agentchat.ops.connections import check_reachable, connect_bus, translate_database_errors
from agentchat.ops.demo_env import Environment
from agentchat.ops.errors import StackError
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.stack_report import format_log_line, read_end
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, open_pool
from agentchat.webhooks import delivery_queue
from agentchat.webhooks.delivery_queue import EndpointFigures

_SECONDS = 5.0
_QUEUES: tuple[Queue, ...] = ("REQUESTS", "TOOLS")
_FAULTS = (
    *(StackError, BusUnavailable, ConversationsError, DatabaseUnavailable),
    *(psycopg.Error, TimeoutError),
)


FAILED_HOURS = 24
"""Failed runs of this number of hours are counted."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: messages that no worker has taken yet, and the age of the oldest."""

    name: str
    waiting: int
    oldest_seconds: float


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """A follower's lag in positions of the log. `parked` counts events that it could not apply."""

    name: str
    behind: int
    parked: int = 0


class SystemFigures(msgspec.Struct, kw_only=True):
    """The state of a system. Unknown figures are None; `unknown` has the reasons.

    Lags are those of the read models and of EVENTS. `projector` is the leading one, `log_end` the last
    position of the log, `cost_today` that of the runs of all accounts that ended today (UTC).
    """

    runs: Activity | None = None
    failed_runs: list[FailedRuns] | None = None
    cost_today: DayCost | None = None
    queues: list[QueueStatus] | None = None
    lags: list[Lag] = []
    projector: str | None = None
    webhooks: EndpointFigures | None = None
    log_end: int | None = None
    unknown: list[str] = []


async def gather_figures(environment: Environment, away: Collection[str]) -> SystemFigures:
    """Read the figures, within a few seconds each. Servers in `away` are down and are not asked."""
    figures = SystemFigures(unknown=[f"{server} is down" for server in away])
    async with contextlib.AsyncExitStack() as opened:
        pool = bus = None
        if "postgres" not in away:
            with _note_failures(figures, "postgres"), translate_database_errors():
                async with asyncio.timeout(_SECONDS):
                    await check_reachable(environment.database_url)
                pool = await opened.enter_async_context(open_pool(environment.database_url))
        if "nats" not in away:
            with _note_failures(figures, "nats"):
                async with asyncio.timeout(_SECONDS):
                    bus = await opened.enter_async_context(
                        connect_bus(environment.nats_url, "agentchat status")
                    )
        await _gather(figures, pool, bus)
    return figures


async def gather_from(pool: Pool, bus: Bus) -> SystemFigures:
    """Read the figures through existing connections."""
    figures = SystemFigures()
    await _gather(figures, pool, bus)
    return figures


async def _gather(figures: SystemFigures, pool: Pool | None, bus: Bus | None) -> None:
    if pool is not None:
        with _note_failures(figures, "postgres"):
            async with asyncio.timeout(_SECONDS):
                await _ask_database(pool, figures)
    if bus is not None:
        with _note_failures(figures, "nats"):
            async with asyncio.timeout(_SECONDS):
                await _ask_bus(bus, figures)


@contextlib.contextmanager
def _note_failures(figures: SystemFigures, server: str) -> Iterator[None]:
    try:
        yield
    except _FAULTS as error:
        reason = str(error).partition("\n")[0] or "no answer in time"
        figures.unknown.append(f"{server}: {reason}")


async def _ask_database(pool: Pool, figures: SystemFigures) -> None:
    """Read the last position of the log before those of the followers."""
    head = await Log(pool).read_head()
    figures.runs = await load_activity(pool)
    figures.cost_today = await load_cost_of_today(pool)
    figures.failed_runs = await count_failed_runs(pool, seconds=FAILED_HOURS * 3600)
    figures.lags = [
        Lag(name=each.name, behind=max(0, head - each.position), parked=each.parked)
        for each in await list_read_models(pool)
    ]
    figures.projector = await find_leading_projector(pool)
    figures.webhooks = await delivery_queue.load_figures(pool)
    figures.log_end = head


async def _ask_bus(bus: Bus, figures: SystemFigures) -> None:
    figures.queues = [
        QueueStatus(name=name, waiting=found.waiting, oldest_seconds=round(found.oldest_seconds, 1))
        for name in _QUEUES
        if (found := await bus.queues.measure_backlog(name))
    ]
    if figures.log_end is not None:
        end = await bus.feed.find_end()
        figures.lags.append(Lag(name="EVENTS", behind=max(0, figures.log_end - end.position)))


_TAIL_BYTES = 262_144
"""Size of the end of each log that is searched."""

_ERRORS = ("error", "critical")

_SERVER_ERROR = re.compile(
    r"(?:\[\d+\] )?(?P<at>\d{4}.\d\d.\d\d \d\d:\d\d:\d\d\.\d+)(?: UTC \[\d+\])? "
    r"(?P<text>(?:(?:ERROR|FATAL|PANIC): +|\[(?:ERR|FTL)\] ).+)"
)
"""A line of an error in the log of Postgres or NATS."""


class LoggedError(msgspec.Struct, frozen=True, kw_only=True):
    """An error in a log. `at` is ISO 8601, UTC."""

    at: str
    service: str
    text: str


class _Line(msgspec.Struct):
    timestamp: str = ""
    level: str = ""


def read_last_errors(folder: RunFolder, limit: int) -> list[LoggedError]:
    """Read the newest errors since the stack's start, the newest last."""
    found = [
        problem
        for log in folder.logs.glob("*.log")
        for line in read_end(log, _TAIL_BYTES)
        if (problem := _parse_error(log.stem, line))
    ]
    return sorted(found, key=lambda each: each.at)[-limit:]


def _parse_error(service: str, line: str) -> LoggedError | None:
    if line.startswith("{"):
        try:
            head = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:
            return None
        if head.level not in _ERRORS:
            return None
        return LoggedError(at=head.timestamp, service=service, text=format_log_line(line))
    found = _SERVER_ERROR.match(line)
    if found is None:
        return None
    at = datetime.fromisoformat(found["at"].replace("/", "-")).replace(tzinfo=UTC)
    return LoggedError(at=at.isoformat().replace("+00:00", "Z"), service=service, text=found["text"])
