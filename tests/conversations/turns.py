"""Appends that are open, and what an append has to wait for."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import LiteralString

import psycopg

from agentchat.conversations.event_store.append_statement import AppendItem, build_parameters, build_statement
from agentchat.conversations.event_store.mapper import build_row, find_account
from agentchat.conversations.postgres_sessions import APPENDS_UNDER_WAY, CONVERSATION_LOCKS

Fact = tuple[str, bytes]
EVENT: Fact = ("a.v1", b"{}")
_STATEMENT = build_statement(None)

LOCK_CONVERSATION: LiteralString = f"SELECT pg_advisory_xact_lock({CONVERSATION_LOCKS}, hashtext(%s) & 4095)"
"""Its turn, until the end of the transaction: nobody else appends to the conversation."""


class OpenAppend:
    """An append whose transaction is open until it is asked to end."""

    def __init__(self, conn: psycopg.AsyncConnection) -> None:
        self._conn = conn

    async def append(
        self, conversation_id: str, version: int = 0, events: int = 1, facts: Sequence[Fact] = ()
    ) -> None:
        """So many events, or these."""
        stored = [build_row(*fact) for fact in facts or [EVENT] * events]
        cursor = await self._conn.execute(
            _STATEMENT,
            build_parameters([AppendItem(conversation_id, version, stored, find_account(stored))], None),
        )
        assert len(await cursor.fetchall()) == 1

    async def commit(self) -> None:
        await self._conn.commit()

    async def roll_back(self) -> None:
        await self._conn.rollback()


@contextlib.asynccontextmanager
async def append_held(url: str) -> AsyncIterator[OpenAppend]:
    conn = await psycopg.AsyncConnection.connect(url)
    try:
        yield OpenAppend(conn)
    finally:
        await conn.close()


@contextlib.asynccontextmanager
async def register_late(url: str, position: int) -> AsyncIterator[None]:
    """As an append that read the last position, and registers it when others have passed it."""
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute("SELECT pg_advisory_xact_lock_shared(%s)", [APPENDS_UNDER_WAY << 32 | position])
        yield
