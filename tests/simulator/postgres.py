"""Postgres, as far as the services use it: the log, and what the statements on the other tables do.

The libraries' own code runs up to the statement (`Leases`, `WaitingLine`, `claim_abandoned`); each statement
has its meaning here, found by the very object that is executed. An unknown one is an error.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from agentchat.contracts import events
from agentchat.contracts.timings import BREAK_SECONDS, LEASE_SECONDS
from agentchat.conversations import postgres_sessions
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store.append_statement import AppendItem, LeaseChange
from agentchat.conversations.event_store.event_log import LogEntry
from agentchat.conversations.leases import abandoned_runs, database_availability, leases, waiting_line
from agentchat.directory import plans
from agentchat.tool_runner import database_clock as tool_clock
from agentchat.tool_runner import journal
from tests.simulator.process import Server
from tests.simulator.world import World

_START = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = (events.RunCompleted, events.RunFailed, events.RunCancelled)
Row = tuple[Any, ...]


class Session(Protocol):
    """A connection that listens."""

    closed: bool

    def notify(self, payload: str) -> None:
        """Somebody has said something."""


class Postgres(Server):
    """The tables. Everything in here happens at once, in the order in which calls arrive."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.log: list[LogEntry] = []
        self.threads: dict[str, list[LogEntry]] = {}
        self.events: dict[str, list[events.Event]] = {}
        self.open_runs: dict[str, tuple[str, float]] = {}
        self.ended_at: dict[str, float] = {}
        self.messages: dict[tuple[str, str], tuple[str, str, int]] = {}
        self.fences = True
        self._leases: dict[str, tuple[str, float]] = {}
        self._line: dict[str, tuple[str, float, str, float]] = {}
        self._requests: dict[str, tuple[int, float]] = {}
        self._calls: dict[tuple[str, str], tuple[str, float]] = {}
        self._since, self._noted_at = world.now - 100.0, world.now
        self._sessions: list[Session] = []
        self.statements: dict[int, Callable[..., list[Row]]] = {
            id(leases._ACQUIRE): self._acquire,
            id(leases._RENEW): self._renew,
            id(leases._RELEASE): self._release,
            id(leases._ALIVE): self._is_alive,
            id(waiting_line._JOIN): self._join,
            id(waiting_line._FIRST): self._find_first,
            id(waiting_line._LEAVE): self._leave,
            id(waiting_line._NOTIFY): self._notify,
            id(waiting_line._RENEW): self._renew_waiters,
            id(abandoned_runs._CLAIM): self._claim,
            id(database_availability._NOTE): self._note,
            id(journal._CLAIM): self._begin_call,
            id(journal._FIND): self._find_call,
            id(postgres_sessions._SERVER_NOW): lambda: [(self.time(),)],
            id(plans._PLAN_OF): lambda _account: [("pro", None, None, None, True, *[None] * 5)],
            id(tool_clock._NOW): lambda: [((_START + timedelta(seconds=world.now)).timestamp(),)],
        }

    def time(self, seconds: float = 0.0) -> str:
        """The clock, as events carry it."""
        then = _START + timedelta(seconds=self.world.now + seconds)
        return then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def append(self, item: AppendItem) -> str | None:
        """Store one append. Raises VersionConflict, unless it is this very one that is stored."""
        thread = self.threads.setdefault(item.conversation_id, [])
        first, last = item.expected, item.expected + len(item.stored)
        if len(thread) != first and self.fences:
            found = [(row.topic, row.state) for row in thread[first:last]]
            if found == [(each.topic, each.state) for each in item.stored]:
                return item.beginning.at if item.beginning else None
            raise VersionConflict(item.conversation_id, first)
        at = self._change_lease(item)
        for each in item.stored:
            entry = LogEntry(
                position=len(self.log) + 1,
                conversation_id=item.conversation_id,
                version=len(thread) + 1,
                topic=each.topic,
                state=each.state,
                account_id=item.account_id,
            )
            self.log.append(entry)
            thread.append(entry)
            self._saw(item.conversation_id, entry.event)
        return at

    def _change_lease(self, item: AppendItem) -> str | None:
        """With an append. Raises VersionConflict where its run is not to begin."""
        match item.lease:
            case LeaseChange(trace_id, worker, None):
                self._release(worker, trace_id)
            case LeaseChange(trace_id, worker, seconds):
                free = not self._is_behind(trace_id, item.conversation_id)
                if not free or not (taken := self._acquire(trace_id, worker, seconds or 0.0)):
                    raise VersionConflict(item.conversation_id, item.expected)
                return str(taken[0][0])
            case None:
                pass
        return None

    def _saw(self, conversation_id: str, event: events.Event) -> None:
        self.events.setdefault(conversation_id, []).append(event)
        self.world.note(f"log {conversation_id} {_describe_event(event)}")
        match event:
            case events.MessageSaved():
                saved = (event.message_id, event.content, event.token_count or 0)
                self.messages[event.trace_id, event.role] = saved
            case events.RunStarted():
                self.open_runs.setdefault(event.trace_id, (conversation_id, self.world.now))
            case events.RunCompleted() | events.RunFailed() | events.RunCancelled():
                self.open_runs.pop(event.trace_id, None)
                self.ended_at[event.trace_id] = self.world.now
            case _:
                pass

    def _note(self, **seconds: float) -> list[Row]:
        now = self.world.now
        if now - self._noted_at > seconds["break"]:
            self._since = now
        if now - self._noted_at > seconds["fresh"]:
            self._noted_at = now
        return []

    def _is_steady(self) -> bool:
        now = self.world.now
        return self._since <= now - LEASE_SECONDS and now - self._noted_at <= BREAK_SECONDS

    def _acquire(self, trace_id: str, worker: str, seconds: float) -> list[Row]:
        held = self._leases.get(trace_id)
        if held is not None and (held[1] > self.world.now or not self._is_steady()):
            return []
        self._leases[trace_id] = (worker, self.world.now + seconds)
        return [(self.time(),)]

    def _renew(self, seconds: float, worker: str, traces: Sequence[str]) -> list[Row]:
        kept = [trace for trace in traces if trace in self._leases and self._leases[trace][0] == worker]
        for trace in kept:
            self._leases[trace] = (worker, self.world.now + seconds)
        return [(trace,) for trace in kept]

    def _release(self, worker: str, trace_id: str) -> list[Row]:
        if trace_id in self._leases and self._leases[trace_id][0] == worker:
            del self._leases[trace_id]
        return []

    def _is_alive(self, trace_id: str) -> list[Row]:
        held = self._leases.get(trace_id)
        return [(1,)] if held is not None and held[1] > self.world.now else []

    def _join(self, **given: Any) -> list[Row]:
        trace_id, thread = given["trace"], given["conversation"]
        place = datetime.fromisoformat(given["asked_at"]).timestamp()
        known = self._line.get(trace_id)
        if known is not None:
            thread, place = known[0], known[1]
        self._line[trace_id] = (thread, place, given["worker"], self.world.now + given["seconds"])
        return [()]

    def _find_first(self, traces: Sequence[str], threads: Sequence[str]) -> list[Row]:
        asked = zip(traces, threads, strict=True)
        return [(trace,) for trace, thread in asked if not self._is_behind(trace, thread)]

    def _is_behind(self, trace_id: str, thread: str) -> bool:
        mine = self._line.get(trace_id)
        return any(
            its_thread == thread
            and other != trace_id
            and expires > self.world.now
            and (mine is None or (place, other) < (mine[1], trace_id))
            for other, (its_thread, place, _, expires) in self._line.items()
        )

    def _leave(self, trace_id: str) -> list[Row]:
        place = self._line.pop(trace_id, None)
        return [] if place is None else [(place[0],)]

    def _notify(self, _channel: str, thread: str) -> list[Row]:
        self._sessions = [each for each in self._sessions if not each.closed]
        for session in self._sessions:
            self.world.at(self.world.now + self.world.latency(), session.notify, thread)
        return []

    def _renew_waiters(self, seconds: float, worker: str, traces: Sequence[str]) -> list[Row]:
        for trace in traces:
            if trace in self._line and self._line[trace][2] == worker:
                thread, place, _, _ = self._line[trace]
                self._line[trace] = (thread, place, worker, self.world.now + seconds)
        return []

    def _claim(self, grace: float, limit: int, first: float, step: float, longest: float) -> list[Row]:
        now, claimed = self.world.now, list[Row]()
        if not self._is_steady():
            return claimed
        for trace, (thread, started) in sorted(self.open_runs.items(), key=lambda item: item[1][1]):
            attempt, next_at = self._requests.get(trace, (0, 0.0))
            if started >= now - grace or self._is_alive(trace) or next_at > now or len(claimed) == limit:
                continue
            if attempt == 0:
                self._requests[trace] = (2, now + first)
            else:
                self._requests[trace] = (attempt + 1, now + min(step * attempt, longest))
            claimed.append((trace, thread, self._requests[trace][0]))
        return claimed

    def _begin_call(
        self, trace_id: str, call_id: str, runner: str, seconds: float, deadline: datetime | None
    ) -> list[Row]:
        now = _START + timedelta(seconds=self.world.now)
        if (trace_id, call_id) in self._calls or (deadline is not None and now >= deadline):
            return []
        self._calls[trace_id, call_id] = (runner, self.world.now + seconds)
        return [(1,)]

    def _find_call(self, trace_id: str, call_id: str) -> list[Row]:
        found = self._calls.get((trace_id, call_id))
        return [] if found is None else [(found[0], found[1] - self.world.now)]

    def add_listener(self, session: Session) -> None:
        """Notify it from now on."""
        self._sessions.append(session)


def _describe_event(event: events.Event) -> str:
    name = type(event).__name__
    match event:
        case events.RunStarted():
            return f"{name} {event.trace_id[-2:]} attempt {event.attempt}"
        case events.Delta():
            return f"{name} {event.trace_id[-2:]} round {event.round} {event.text!r}"
        case events.ToolCalled() | events.ToolReturned():
            return f"{name} {event.trace_id[-2:]} {event.call_id}"
        case events.MessageSaved():
            return f"{name} {event.trace_id[-2:]} {event.role} {event.content!r}"
        case events.RunFailed():
            return f"{name} {event.trace_id[-2:]} {event.code}"
        case _:
            return f"{name} {event.trace_id[-2:]}"
