"""Open runs as they stream, for all browsers with the same filter: one look, one subscription, one rendering.

Runs of the table are followed on the bus while somebody looks; nobody else is asked for anything.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

import msgspec
from jinja2 import Environment

from bus.bus import Bus
from bus.errors import BusUnavailable
from bus.subscription import Subscription
from console.live.badges import Badges
from console.live.broadcast import BEAT, Broadcast, message
from console.pages.now.live_run import LiveRun, RunRow
from console.pages.now.now_view import FIGURES_SECONDS, Boards
from conversations.queries.under_way import OpenRun, open_runs
from directory.shown_names import ShownNames, shown_names
from runtime import logs
from runtime.postgres import DatabaseUnavailable, Pool

MOST_ROWS = 60
TICK_SECONDS = 0.5
_LOOK_SECONDS = 2.0
_OVER_SECONDS = 4.0
"""A run that has ended stays in the table for so long, with its end."""

_MOST_FILTERS = 32


class NowFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None: all."""

    account_id: str | None = None
    agent_id: str | None = None


class NowSources(msgspec.Struct, frozen=True, kw_only=True):
    """What the table is made of."""

    pool: Pool
    bus: Bus
    boards: Boards
    badges: Badges
    templates: Environment


class RunTable(msgspec.Struct, frozen=True, kw_only=True):
    """The newest runs of `total`; `problem` says what is away, then the rows are as they were."""

    rows: list[RunRow]
    total: int
    problem: str | None = None


class _Followed:
    """A run of the table, with the time at which it was open for `seconds`."""

    def __init__(self, run: OpenRun) -> None:
        self.live = LiveRun(run)
        self.subscription: Subscription | None = None
        self.looked_at = time.monotonic()
        self.over_at: float | None = None

    async def close(self) -> None:
        if self.subscription is not None:
            await self.subscription.close()

    def seconds(self) -> float:
        until = self.over_at or time.monotonic()
        return self.live.run.seconds + until - self.looked_at


class LiveRuns:
    """The table of one filter. It works while it has readers."""

    def __init__(self, sources: NowSources, chosen: NowFilter) -> None:
        self._sources, self._chosen = sources, chosen
        self._broadcast = Broadcast()
        self._followed: dict[str, _Followed] = {}
        self._names = ShownNames({}, {})
        self._total = 0
        self._problem: str | None = None
        self._working: asyncio.Task[None] | None = None
        self._sent: tuple[object, ...] = ()

    def __len__(self) -> int:
        return len(self._broadcast)

    async def table(self) -> RunTable:
        """As it is now: from memory where somebody looks already."""
        if self._working is None:
            await self._look()
        return RunTable(rows=self._rows(), total=self._total, problem=self._problem)

    async def read(self) -> AsyncGenerator[bytes, None]:
        """The whole table first, then what changes. A beat opens the stream: a look may take a while."""
        yield BEAT
        board = await self._sources.boards.board()
        first = self._rendered(await self.table(), board)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        async for event in self._broadcast.read(first):
            yield event

    async def close(self) -> None:
        """End all readers, and follow nothing more."""
        self._broadcast.close()
        if self._working is not None:
            self._working.cancel()
            self._working = None
        followed, self._followed = self._followed, {}
        for each in followed.values():
            await each.close()

    async def _work(self) -> None:
        log, look_at, board_at = logs.get_logger("now"), 0.0, time.monotonic() + FIGURES_SECONDS
        try:
            self._follow()
            while True:
                await asyncio.sleep(TICK_SECONDS)
                if not len(self._broadcast):
                    break
                now = time.monotonic()
                if now >= look_at:
                    await self._look()
                    self._follow()
                    look_at = now + _LOOK_SECONDS
                if parts := self._changes():
                    self._broadcast.send(message(parts))
                if now >= board_at:
                    await self._send_board()
                    board_at = now + FIGURES_SECONDS
        except Exception:
            log.exception("live_runs_failed")
        self._working = None
        await self.close()

    async def _look(self) -> None:
        """Raises nothing: a database that is away is said in the table."""
        try:
            total, found = await open_runs(
                self._sources.pool,
                account_id=self._chosen.account_id,
                agent_id=self._chosen.agent_id,
                limit=MOST_ROWS,
            )
            await self._name(found)
        except DatabaseUnavailable as error:
            self._problem = f"The database does not answer: {error}"
            return
        self._problem, self._total = None, total
        await self._keep(found)

    async def _name(self, found: list[OpenRun]) -> None:
        accounts = {run.account_id for run in found} - self._names.accounts.keys()
        agents = {run.agent_id for run in found} - self._names.agents.keys()
        if accounts or agents:
            more = await shown_names(self._sources.pool, accounts, agents)
            self._names = ShownNames(self._names.accounts | more.accounts, self._names.agents | more.agents)

    async def _keep(self, found: list[OpenRun]) -> None:
        now, open_now = time.monotonic(), {run.trace_id for run in found}
        for run in found:
            known = self._followed.get(run.trace_id)
            if known is None:
                self._followed[run.trace_id] = _Followed(run)
            elif not known.live.is_over:
                known.live.look(run)
                known.looked_at = now
        for trace_id, each in tuple(self._followed.items()):
            if each.over_at is None and (each.live.is_over or trace_id not in open_now):
                each.over_at = now
            if trace_id not in open_now and now - (each.over_at or now) >= _OVER_SECONDS:
                del self._followed[trace_id]
                await each.close()

    def _follow(self) -> None:
        """The runs that are at work, also those that were not when they were found."""
        for trace_id, each in self._followed.items():
            is_at_work = each.over_at is None and each.live.run.waits_for is None
            if each.subscription is not None or not is_at_work:
                continue
            try:
                each.subscription = self._sources.bus.traces.follow_trace(trace_id, each.live.take)
            except BusUnavailable as error:
                self._problem = f"NATS does not answer: {error}"

    def _rows(self) -> list[RunRow]:
        newest = sorted(self._followed.values(), key=lambda each: each.live.run.seconds - each.looked_at)
        return [
            each.live.row(
                self._names.agents.get(each.live.run.agent_id, each.live.run.agent_id[-8:]),
                self._names.accounts.get(each.live.run.account_id, each.live.run.account_id[-8:]),
                each.seconds(),
            )
            for each in newest
        ]

    def _changes(self) -> str:
        """All rows where some came or went or a part is away, else those that have changed."""
        rows = self._rows()
        frame = (self._total, self._problem, *(row.trace_id for row in rows))
        changed = {trace_id for trace_id, each in self._followed.items() if each.live.changed}
        for trace_id in changed:
            self._followed[trace_id].live.changed = False
        if frame != self._sent:
            self._sent = frame
            table = RunTable(rows=rows, total=self._total, problem=self._problem)
            return self._sources.templates.get_template("parts/now_table.html").render(table=table)
        some = [row for row in rows if row.trace_id in changed]
        if not some:
            return ""
        return self._sources.templates.get_template("parts/now_rows.html").render(rows=some)

    async def _send_board(self) -> None:
        board, waiting = await self._sources.boards.board(), await self._sources.badges.approvals()
        parts = self._sources.templates.get_template("parts/now_board.html").render(
            board=board, waiting=waiting
        )
        self._broadcast.send(message(parts))

    def _rendered(self, table: RunTable, board: object) -> bytes:
        templates = self._sources.templates
        parts = templates.get_template("parts/now_table.html").render(table=table)
        return message(
            parts + templates.get_template("parts/now_board.html").render(board=board, waiting=None)
        )


class NowPage:
    """The tables that somebody looks at, by filter."""

    def __init__(self, make: Callable[[NowFilter], LiveRuns], boards: Boards) -> None:
        self._make = make
        self._tables: dict[NowFilter, LiveRuns] = {}
        self.boards = boards

    async def table_of(self, chosen: NowFilter) -> LiveRuns:
        """Shared by all with this filter. Those that nobody looks at are dropped when there are many."""
        found = self._tables.get(chosen)
        if found is None:
            if len(self._tables) >= _MOST_FILTERS:
                for idle in [each for each, runs in self._tables.items() if not len(runs)]:
                    await self._tables.pop(idle).close()
            found = self._tables[chosen] = self._make(chosen)
        return found

    async def drain(self) -> None:
        """End all streams: their browsers come back to the next console."""
        for each in self._tables.values():
            await each.close()
