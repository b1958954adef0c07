"""Build the table of open runs, with the last words of each, and that of the runs that ended last.

The read models list the runs; the words come from their frames on the bus, which are followed while a browser
shows the table. All browsers with the same filter share one table.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Literal

import msgspec

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.subscription import Subscription
from agentchat.contracts import frames
from agentchat.conversations.queries.current_activity import OpenRun, open_runs
from agentchat.conversations.queries.find_runs import RunFilter, RunRow, find_runs
from agentchat.directory.display_names import DisplayNames, load_display_names
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

MOST_ROWS = 60
_ENDED_ROWS = 10
LOOK_SECONDS = 1.0
_MOST_FILTERS = 32
_LET_GO_SECONDS = 10.0
_WORDS = 160
_CHARACTERS_A_TOKEN = 4


class NowFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of open runs; None means all. `account_ids` are the accounts that a person is limited to."""

    account_id: str | None = None
    account_ids: tuple[str, ...] | None = None
    agent_id: str | None = None


class OpenRunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. `seconds` is how long the run has been open.

    `tokens` is an estimate by the length of the reply: models report usage at the end.
    """

    trace_id: str
    conversation_id: str
    agent: str
    account: str
    kind: Literal["running", "waiting"]
    stage: str
    attempts: int
    seconds: float
    tokens: int
    words: str


class RunTable(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of `total` open runs, and those that ended last; `problem` says what does not answer."""

    rows: list[OpenRunRow]
    total: int
    ended: list[RunRow] = []
    names: DisplayNames = DisplayNames({}, {})
    problem: str | None = None


class LastWords:
    """The end of a run's reply, from its frames."""

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.asked_at = time.monotonic()
        self.characters = 0
        self.text = ""

    def apply(self, frame: frames.Frame) -> None:
        """Add the text of a frame."""
        if isinstance(frame, frames.DeltaFrame):
            self.characters = frame.offset + len(frame.text)
            self.text = (self.text + frame.text)[-_WORDS:]


class OpenRuns:
    """Loads open runs at most twice a second for each filter, and follows those watched."""

    def __init__(self, pool: Pool, bus: Bus) -> None:
        self._pool, self._bus = pool, bus
        self._watchers = 0
        self._words: dict[str, LastWords] = {}
        self._look = asyncio.Lock()
        self._tables: BoundedMap[NowFilter, tuple[float, RunTable]] = BoundedMap(_MOST_FILTERS)

    async def watch(self, chosen: NowFilter) -> AsyncGenerator[RunTable]:
        """Yield the table every second. The runs are followed until the last caller stops."""
        self._watchers += 1
        try:
            while True:
                yield await self.load_table(chosen)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._watchers -= 1
            await self._stop_following(time.monotonic() if self._watchers else float("inf"))

    async def load_table(self, chosen: NowFilter) -> RunTable:
        """Return the present table, with `problem` if Postgres or NATS does not answer."""
        async with self._look:
            now = time.monotonic()
            known = self._tables.get(chosen)
            if known is not None and now - known[0] < LOOK_SECONDS / 2:
                return known[1]
            try:
                table = await self._read(chosen)
            except DatabaseUnavailable as error:
                table = msgspec.structs.replace(
                    RunTable(rows=[], total=0) if known is None else known[1],
                    problem=f"The database does not answer: {error}",
                )
            self._tables.put(chosen, (now, table))
            return table

    async def _read(self, chosen: NowFilter) -> RunTable:
        total, found = await open_runs(
            self._pool,
            account_id=chosen.account_id,
            account_ids=chosen.account_ids,
            agent_id=chosen.agent_id,
            limit=MOST_ROWS,
        )
        limited = None if chosen.account_ids is None else list(chosen.account_ids)
        wanted = RunFilter(
            account_id=chosen.account_id, account_ids=limited, agent_id=chosen.agent_id, is_open=False
        )
        ended = (await find_runs(self._pool, wanted, limit=_ENDED_ROWS)).rows
        names = await load_display_names(
            self._pool,
            {run.account_id for run in found} | {run.account_id for run in ended},
            {run.agent_id for run in found} | {run.agent_id for run in ended if run.agent_id},
        )
        problem = None
        if self._watchers:
            await self._stop_following(time.monotonic())
            problem = await self._follow(found)
        rows = [
            build_row(
                run,
                names.agents.get(run.agent_id, run.agent_id[-8:]),
                names.accounts.get(run.account_id, run.account_id[-8:]),
                self._words.get(run.trace_id) or LastWords(),
            )
            for run in sorted(found, key=lambda run: run.seconds)
        ]
        return RunTable(rows=rows, total=total, ended=ended, names=names, problem=problem)

    async def _follow(self, runs: Iterable[OpenRun]) -> str | None:
        """Follow the runs at work; return why if NATS does not answer."""
        for run in runs:
            words = self._words.setdefault(run.trace_id, LastWords())
            words.asked_at = time.monotonic()
            if words.subscription is None and run.waits_for is None:
                try:
                    words.subscription = await self._bus.traces.follow_trace(run.trace_id, words.apply)
                except BusUnavailable as error:
                    return f"NATS does not answer: {error}"
        return None

    async def _stop_following(self, now: float) -> None:
        """Stop following runs that nobody has watched in the last seconds."""
        idle = [each for each, words in self._words.items() if now - words.asked_at > _LET_GO_SECONDS]
        for words in [self._words.pop(each) for each in idle]:
            if words.subscription is not None:
                await words.subscription.close()


def build_row(run: OpenRun, agent: str, account: str, words: LastWords) -> OpenRunRow:
    """Build the row of a run."""
    if run.waits_for is not None:
        stage = f"approval {run.waits_for}"
    elif run.tool is not None:
        stage = f"tool {run.tool}"
    else:
        stage = f"model {run.rounds + 1}" if run.model else "starting"
    return OpenRunRow(
        trace_id=run.trace_id,
        conversation_id=run.conversation_id,
        agent=agent,
        account=account,
        kind="running" if run.waits_for is None else "waiting",
        stage=stage,
        attempts=run.attempts,
        seconds=run.seconds,
        tokens=words.characters // _CHARACTERS_A_TOKEN,
        words=" ".join(words.text.split()),
    )
