"""An account goes from one database to another with all that it has, while it is used."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from administration import admin_accounts, admin_documents, admin_keys, admin_knowledge
from administration.admin_values import AccountChanges, NewAccount, NewDocument, NewKey, NewKnowledgeBase
from administration.admin_versions import create_agent
from contracts.admin_errors import Conflict
from contracts.events import Event
from contracts.ids import new_id, new_unlisted_id
from contracts.webhooks import NewEndpoint
from conversations.aggregate.conversation import Conversation
from conversations.claims.idempotency import claim_key
from conversations.claims.table import Claims
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore, open_store
from conversations.projections.follower import Follower
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.usage_table import lines_of
from conversations.queries.month_usage import spent_of
from directory.account_cells import Elsewhere, elsewhere
from directory.agent_draft import AgentDraft
from directory.caller import resolve
from directory.secrets import Sealer
from ops.cells import account_move
from ops.cells.account_move import AccountMove, Moved, opened
from ops.cells.account_rows import ROWS
from ops.errors import StackError
from runtime.postgres import Pool, connection, open_pool
from tests.administrator import SEALER, administrator, plan_with, put_plan
from tests.conversations.given import AT, ERASED, asked, began, started, turn
from webhooks import endpoints


class Cell:
    """One of two databases, with the projector's work done in this process."""

    def __init__(self, url: str, pool: Pool, store: ConversationStore) -> None:
        self.url, self.pool, self.store, self.log = url, pool, store, Log(pool)

    async def rows(self, query: str, *given: object) -> list[tuple[Any, ...]]:
        async with connection(self.pool) as conn:
            return await (await conn.execute(query.encode(), given or None)).fetchall()

    async def project(self) -> None:
        follower = Follower(self.pool, self.log, PROJECTIONS)
        while True:
            if not await follower.step():
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def _cell(url: str, *, projected: bool = True) -> AsyncIterator[Cell]:
    async with open_pool(url) as pool, open_store(url) as store:
        cell = Cell(url, pool, store)
        projecting = asyncio.create_task(cell.project() if projected else asyncio.sleep(0))
        try:
            yield cell
        finally:
            projecting.cancel()
            await asyncio.gather(projecting, return_exceptions=True)


class Account:
    """In the first cell: an agent with a secret, knowledge, a webhook endpoint, a key, and conversations."""

    def __init__(self, cell: Cell, account_id: str, key: str, agent_id: str) -> None:
        self.cell, self.id, self.key, self.agent_id = cell, account_id, key, agent_id

    async def chat(self, *stored: Event, unlisted: bool = False) -> Conversation:
        beginning = replace(began(), account_id=self.id)
        chat = Conversation(conversation_id=new_unlisted_id() if unlisted else new_id())
        return await self.cell.store.append(chat, [beginning, *stored])

    async def erase(self, chat: Conversation) -> None:
        stored = await self.cell.store.load(chat.conversation_id)
        spent = spent_of(stored)
        await self.cell.store.append(stored, [replace(ERASED, account_id=self.id, spent=spent)])


async def _account(cell: Cell) -> Account:
    admin = administrator(cell.pool)
    await put_plan(cell.pool, plan_with("Cellular", requests_per_minute=7))
    account = await admin_accounts.create(admin, NewAccount(name="Shop", plan="Cellular"))
    key = await admin_keys.create(admin, account.id, NewKey())
    base = await admin_knowledge.create(admin, NewKnowledgeBase(account_id=account.id, name="Policies"))
    await admin_documents.put(
        admin, base.id, NewDocument(name="returns", text="Apples come back in 30 days.")
    )
    draft = AgentDraft(name="Shop", model="demo-shop-1", provider_key="offline")
    async with connection(cell.pool, seconds=30) as conn:
        agent_id = await create_agent(conn, SEALER, account.id, draft, actor="test")
    await endpoints.create(
        cell.pool,
        SEALER,
        account.id,
        NewEndpoint(url="https://example.org/hook", events=("run.completed",)),
    )
    return Account(cell, account.id, key.key, agent_id)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was accepted by a gateway here, so nothing has to be waited for."""
    monkeypatch.setattr(account_move, "ACCEPT_SECONDS", 0.0)
    monkeypatch.setattr(account_move, "LATE_SECONDS", 0.0)


async def _move(
    account: Account,
    other_url: str,
    *,
    sealer: Sealer = SEALER,
    wait: float = 5.0,
    report: Callable[[str], None] = lambda _: None,
) -> Moved:
    async with opened(account.cell.url, other_url, account.id, "b") as move:
        return await move.run(sealer, wait_seconds=wait, report=report)


async def _events(cell: Cell, chats: Sequence[Conversation]) -> list[list[tuple[int, str, bytes]]]:
    logged = [await cell.log.rows(each.conversation_id) for each in chats]
    return [[(each.version, each.topic, each.state) for each in entries] for entries in logged]


async def test_all_of_an_account_is_in_the_other_cell_and_its_key_opens_it_there(
    migrated_database_url: str, other_database_url: str
) -> None:
    async with _cell(migrated_database_url) as here, _cell(other_database_url) as there:
        neighbour, account = await _account(here), await _account(here)
        await _account(there)  # so that its knowledge base has another number
        chats = [await account.chat(*turn(f"all-{number}", "Hello", "Hi")) for number in range(3)]
        chats.append(await account.chat(*turn("all-u", "Hello", "Hi"), unlisted=True))
        theirs = await neighbour.chat(*turn("all-n", "Hello", "Hi"))
        await account.erase(chats[0])
        claim = {"account_id": account.id, "key": "k-1", "request_hash": b"h", "seconds": 0.0}
        async with contextlib.aclosing(Claims(here.pool)) as claims:
            await claim_key(claims, **claim, trace_id="1" * 32, conversation_id=chats[1].conversation_id)  # type: ignore[arg-type]  # of one dict
        before = await _events(here, chats)
        moved = await _move(account, there.url)
        assert (moved.conversations, moved.rows["chunks"], moved.rows["idempotency_keys"]) == (4, 1, 1)
        assert await _events(there, chats) == before
        assert await there.log.rows(theirs.conversation_id) == []
        found = await resolve(there.pool, account.key, account.agent_id)
        assert found is not None
        assert found[1] is not None
        assert (found[0].account_id, found[0].plan.requests_per_minute) == (account.id, 7)
        assert await resolve(here.pool, account.key, account.agent_id) is None
        assert await elsewhere(here.pool, account.key) == Elsewhere(account.id, "b")
        assert await resolve(here.pool, neighbour.key, None) is not None
        async with contextlib.aclosing(Claims(there.pool)) as claims:
            known = await claim_key(claims, **claim, trace_id="2" * 32, conversation_id=new_id())  # type: ignore[arg-type]  # of one dict
        assert known.trace_id == "1" * 32
        assert await there.rows(
            "SELECT count(*) FROM chunks JOIN knowledge_bases USING (knowledge_base_id) WHERE account_id = %s"
            " AND words @@ (quote_literal('#' || number) || ' & appl')::tsquery",
            account.id,
        ) == [(1,)]
        head = await there.log.head()
        assert await there.rows(
            "SELECT begins_after, position FROM webhook_endpoints JOIN webhook_cursors USING (endpoint_id)"
            " WHERE account_id = %s",
            account.id,
        ) == [(head, head)]
        assert await lines_of(there.pool, AT[:7], account.id) == await lines_of(here.pool, AT[:7], account.id)


async def test_what_is_said_and_erased_meanwhile_comes_along(
    migrated_database_url: str, other_database_url: str
) -> None:
    async with _cell(migrated_database_url) as here, _cell(other_database_url) as there:
        account = await _account(here)
        chats = [await account.chat(*turn(f"mean-{number}", "Hello", "Hi")) for number in range(2)]
        async with opened(here.url, there.url, account.id, "b") as move:
            await move._import([each.conversation_id for each in chats])
        await account.erase(chats[0])
        grown = await here.store.append(
            await here.store.load(chats[1].conversation_id), turn("mean-more", "And?", "So")
        )
        chats.append(await account.chat(*turn("mean-new", "Hello", "Hi")))
        await _move(account, there.url)
        assert await _events(there, chats[1:]) == await _events(here, chats[1:])
        assert len(await there.log.rows(grown.conversation_id)) == grown.version
        (left,) = await there.log.rows(chats[0].conversation_id)
        assert left.topic == "conversation_erased.v1"


async def test_a_run_that_does_not_end_keeps_the_account_here_and_open(
    migrated_database_url: str, other_database_url: str
) -> None:
    async with _cell(migrated_database_url) as here, _cell(other_database_url) as there:
        account = await _account(here)
        await account.chat(asked("stays"), started("stays"))
        with pytest.raises(StackError, match=r"7374617973.* the account stays here"):
            await _move(account, there.url, wait=0.3)
        assert await resolve(here.pool, account.key, None) is not None
        assert await resolve(there.pool, account.key, None) is None


async def test_a_move_that_was_broken_off_is_closed_until_it_is_repeated_or_undone(
    migrated_database_url: str, other_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _cell(migrated_database_url) as here:
        account = await _account(here)
        await account.chat(*turn("broken", "Hello", "Hi"))
        async with _cell(other_database_url, projected=False) as there:
            monkeypatch.setattr(account_move, "CAUGHT_UP_SECONDS", 0.0)
            with pytest.raises(StackError, match="read models lag"):
                await _move(account, there.url)
            assert await elsewhere(here.pool, account.key) == Elsewhere(account.id, None)
            with pytest.raises(Conflict, match="has left this cell, or does now"):
                await admin_accounts.change(
                    administrator(here.pool), account.id, AccountChanges(disabled=False)
                )
            async with opened(here.url, there.url, account.id, "b") as move:
                with pytest.raises(StackError, match="another command is moving the account"):
                    await _move(account, there.url)
                await move.undo()
            assert await resolve(here.pool, account.key, None) is not None
        monkeypatch.undo()
        monkeypatch.setattr(account_move, "ACCEPT_SECONDS", 0.0)
        monkeypatch.setattr(account_move, "LATE_SECONDS", 0.0)
        async with _cell(other_database_url) as there:
            with monkeypatch.context() as broken:
                broken.setattr(AccountMove, "_point", _gone)
                with pytest.raises(ConnectionError):
                    await _move(account, there.url)
            assert await resolve(there.pool, account.key, None) is not None
            async with opened(here.url, there.url, account.id, "b") as move:
                with pytest.raises(StackError, match="served by the other cell already"):
                    await move.undo()
            assert (await _move(account, there.url)).rows == {}
            assert await elsewhere(here.pool, account.key) == Elsewhere(account.id, "b")
            with pytest.raises(StackError, match="it has left this cell"):
                await _move(account, there.url)


async def _gone(_: AccountMove) -> float:
    raise ConnectionError("this process ends")


async def test_an_account_whose_secrets_the_other_cell_cannot_open_is_not_moved(
    migrated_database_url: str, other_database_url: str
) -> None:
    async with _cell(migrated_database_url) as here:
        account = await _account(here)
        with pytest.raises(StackError, match="add it there as a previous one"):
            await _move(account, other_database_url, sealer=Sealer(b"o" * 32))
        assert await resolve(here.pool, account.key, None) is not None
        known = Sealer(b"o" * 32, previous=[b"k" * 32])
        async with _cell(other_database_url):
            await _move(account, other_database_url, sealer=known)


async def test_nothing_is_moved_where_the_archive_of_the_cell_is_not_known(
    migrated_database_url: str, other_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCHAT_DATABASE_URL", migrated_database_url)
    async with _cell(migrated_database_url) as here:
        account = await _account(here)
        async with await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as owner:
            await owner.execute(
                "INSERT INTO archive_files (name, first_position, last_position) VALUES ('file', 1, 2)"
            )
            with pytest.raises(StackError, match="AGENTCHAT_ARCHIVE_DIR"):
                await _move(account, other_database_url)
            await owner.execute("DELETE FROM archive_files")
        assert await resolve(here.pool, account.key, None) is not None


STAYS = {
    *(each.name for each in PROJECTIONS),  # made of the imported conversations
    *("webhook_cursors", "webhook_deliveries", "waiting_line", "account_cells"),
    "archived_conversations",  # they are imported into the other cell's log
}
"""Tables about accounts whose rows are not copied: see docs/operate/cells.md, "What stays behind"."""


def test_each_table_of_accounts_is_copied_or_known_to_stay(migrated_database_url: str) -> None:
    with psycopg.connect(migrated_database_url) as conn:
        rows = conn.execute(
            "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'public'"
            " AND column_name IN ('account_id', 'agent_id', 'knowledge_base_id', 'endpoint_id', 'key_id')"
        )
        named = {table for (table,) in rows}
    assert named - {each.table for each in ROWS} == STAYS & named
