"""Count what one chat costs: send each kind several times in turn, and take the low quartile of each count.

What the services do now and then without a chat (heartbeats, sweeps) falls out of a quartile, on a busy
machine too; the work of a chat after its answer (read models, the feed) is in it, since the next
one waits for it.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, LiteralString, TypeVar

import msgspec

from agentchat.runtime.postgres import Connection as Session
from agentchat.runtime.postgres import acquire_connection, open_pool
from bench.counting.counted_stack import (
    Counted,
    Logged,
    StatementLog,
    find_nats_monitor,
    read_nats_counts,
    read_task_counts,
    read_valkey_counts,
)
from bench.load import BenchError, Connection, Reply, request
from bench.systems import SHORT, TOOL, make_agents

_WARM_UP = 3
_SETTLED_SECONDS = 10.0
_CONVERSATION = re.compile(rb'"conversation_id":"([^"]+)"')

HELD = ("statements.", "postgres.", "nats.", "redis.", "tasks.")
"""The counts that a test checks. The others are only printed, since a busy machine adds one or two."""

Counts = dict[str, int]
Statement = tuple[str, str]
"""A service and the text of a statement."""
Key = TypeVar("Key", str, Statement)


class Cost(msgspec.Struct, frozen=True):
    """The counts of one kind of chat, without zeros; `statements` are those after `statements.<service>`."""

    counts: Counts
    statements: dict[Statement, int]


async def measure_chats(counted: Counted, chats: int = 12) -> dict[str, Cost]:
    """Return the cost by kind of chat: a conversation's first message, its next, and one with a tool call."""
    agents = await make_agents(counted.stack, SHORT, TOOL)
    database_url = counted.stack.environment.database_url
    async with open_pool(database_url, role=None) as pool, acquire_connection(pool, seconds=300) as session:
        counter = _Counter(counted, session)
        await counter.wait_until(_IS_LOGGED)
        return {
            "first message": await counter.measure_chat(agents[SHORT], chats),
            "next message": await counter.measure_chat(agents[SHORT], chats, same_conversation=True),
            "tool call": await counter.measure_chat(agents[TOOL], chats),
        }


class _Counter:
    def __init__(self, counted: Counted, session: Session) -> None:
        self._counted = counted
        self._session = session
        self._log = StatementLog(counted.stack.folder.log("postgres"))
        self._monitor = find_nats_monitor(counted.stack.pid("nats"))

    async def measure_chat(self, agent_id: str, chats: int, *, same_conversation: bool = False) -> Cost:
        found = self._counted.stack.environment
        url = f"{found.base_url}/v1/chat/stream"
        headers = {"X-Api-Key": found.load_api_key, "X-Agent-Id": agent_id, "X-Stream-Form": "1"}
        body = {"message": "Go."}
        client = await Connection.to(found.base_url)
        for _ in range(_WARM_UP):
            reply = await _ask(client, request(url, headers, body))
            if same_conversation:
                body["conversation_id"] = _get_conversation(reply)
        before, _ = await self._read_settled()
        counts, statements = [], []
        for _ in range(chats):
            with self._hold_projector():
                await _ask(client, request(url, headers, body))
                await self.wait_until(_HAS_ENDED)
            after, logged = await self._read_settled()
            since = {name: count - before.get(name, 0) for name, count in after.items()}
            begun = {f"transactions.{service}": count for service, count in logged.transactions.items()}
            counts.append(since | begun)
            statements.append(logged.statements)
            before = after
        client.close()
        return compute_cost(counts, statements)

    async def _read_settled(self) -> tuple[Counts, Logged]:
        """Return the counters and the new log lines once no run has work left."""
        await self.wait_until(_HAS_ENDED)
        await self.wait_until(_IS_PROJECTED)
        logged = self._log.read_next()
        written, wal = await self._fetch_row(_WRITTEN)
        counts = {"postgres.writing_transactions": int(written), "postgres.wal_bytes": int(wal)}
        counts |= await read_nats_counts(self._monitor)
        counts |= await read_valkey_counts(self._counted.valkey_url)
        return counts | read_task_counts(self._counted.loops), logged

    @contextlib.contextmanager
    def _hold_projector(self) -> Iterator[None]:
        """Hold the projector, so that it reads all events of a chat at once, as under load."""
        pid = self._counted.stack.pid("projector-1")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def wait_until(self, query: LiteralString) -> None:
        """Wait until the query returns true. Raises TimeoutError."""
        async with asyncio.timeout(_SETTLED_SECONDS):
            while not (await self._fetch_row(query))[0]:  # noqa: ASYNC110 - a table has no event
                await asyncio.sleep(0.01)

    async def _fetch_row(self, query: LiteralString) -> tuple[Any, ...]:
        row = await (await self._session.execute(query)).fetchone()
        assert row is not None
        return row


async def _ask(client: Connection, asked: bytes) -> Reply:
    reply = await client.ask(asked)
    if reply.failed:
        raise BenchError(reply.failed)
    return reply


def compute_cost(counts: Sequence[Mapping[str, int]], statements: Sequence[Mapping[Statement, int]]) -> Cost:
    usual = compute_usual(statements)
    by_service: Counter[str] = Counter()
    for (service, _), count in usual.items():
        by_service[f"statements.{service}"] += count
    return Cost(dict(sorted((compute_usual(counts) | by_service).items())), usual)


def compute_usual(chats: Sequence[Mapping[Key, int]]) -> dict[Key, int]:
    """The low quartile of each count over the chats; those that are usually 0 are left out."""
    names = {name: None for chat in chats for name in chat}
    found = {name: sorted(chat.get(name, 0) for chat in chats)[len(chats) // 4] for name in names}
    return {name: count for name, count in found.items() if count}


def _get_conversation(reply: Reply) -> str:
    found = _CONVERSATION.search(reply.head)
    assert found is not None, "the first event names the conversation"
    return found[1].decode()


_IS_LOGGED = "SELECT current_setting('log_statement') = 'all'"
_HAS_ENDED = "SELECT NOT EXISTS (SELECT FROM run_leases)"
_IS_PROJECTED = """
SELECT (SELECT min(position) FROM projection_positions WHERE name <> 'events_feed')
       >= (SELECT max(notification_id) FROM conversation_events)
"""
_WRITTEN = """
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint
"""
