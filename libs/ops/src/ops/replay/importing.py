"""Stores an export in the log of this system, for `agentchat replay import`."""

from collections import Counter
from collections.abc import Mapping
from typing import BinaryIO

import msgspec
from rich.progress import Progress, TaskID

from administration import admin_accounts as accounts
from administration import agent_rows
from contracts.admin_errors import NotFound
from conversations.event_store.store import ConversationStore, open_store
from conversations.transfer import file_format, moving
from conversations.transfer.file_format import Carried
from conversations.transfer.moving import Names
from ops.connections import run
from ops.errors import StackError
from ops.printing import progress
from runtime.postgres import Pool, connection


class Brought(msgspec.Struct, kw_only=True):
    """Conversations by outcome; `unknown_agents` counts in how many conversations each is named."""

    dry_run: bool
    new: int = 0
    longer: int = 0
    present: int = 0
    events: int = 0
    unknown_agents: dict[str, int] = {}


def bring_in(
    file: BinaryIO, accounts: Mapping[str, str], agents: Mapping[str, str], *, dry_run: bool
) -> Brought:
    """Read the file twice: to check all of it, and to store it. Raises StackError."""
    names = Names(accounts=accounts, agents=agents)
    return run(lambda url, pool: _bring_in(url, pool, file, names, dry_run=dry_run))


async def _bring_in(url: str, pool: Pool, file: BinaryIO, names: Names, *, dry_run: bool) -> Brought:
    with progress("checking") as bar:
        checked = await _Check(pool, names, bar).all(file)
    if dry_run:
        return msgspec.structs.replace(checked, dry_run=True)
    done = Brought(dry_run=False, unknown_agents=checked.unknown_agents)
    file.seek(0)
    async with open_store(url) as store:
        with progress("importing") as bar:
            task = bar.add_task("", total=checked.new + checked.longer + checked.present)
            for there in file_format.read(file):
                await _bring(store, pool, moving.renamed(there, names), done)
                bar.advance(task)
    return done


async def _bring(store: ConversationStore, pool: Pool, carried: Carried, done: Brought) -> None:
    move = await moving.planned(pool, carried)
    if move.kind != "present":
        await moving.bring(store, carried, move)
    _count(done, carried, move)


def _count(done: Brought, carried: Carried, move: moving.Move) -> None:
    setattr(done, move.kind, getattr(done, move.kind) + 1)
    if move.kind != "present":
        done.events += sum(each.version > move.have for each in carried.stored)


class _Check:
    """Checks the complete file before anything is stored."""

    def __init__(self, pool: Pool, names: Names, bar: Progress) -> None:
        self._pool = pool
        self._names = names
        self._bar = bar
        self._accounts: set[str] = set()
        self._agents: dict[str, str | None] = {}

    async def all(self, file: BinaryIO) -> Brought:
        """What an import would do. Raises UnfitFile, Clash, StackError."""
        task: TaskID = self._bar.add_task("", total=None)
        found = Brought(dry_run=False)
        unknown: Counter[str] = Counter()
        for there in file_format.read(file):
            carried = moving.renamed(there, self._names)
            await self._check_account(there, carried)
            unknown.update([each for each in carried.agents if not await self._is_own(each, carried)])
            _count(found, carried, await moving.planned(self._pool, carried))
            self._bar.advance(task)
        found.unknown_agents = dict(unknown)
        return found

    async def _check_account(self, there: Carried, carried: Carried) -> None:
        if carried.account_id in self._accounts:
            return
        async with connection(self._pool) as conn:
            try:
                await accounts.present(conn, carried.account_id)
            except NotFound:
                raise StackError(
                    f"line {carried.line:,}: account {carried.account_id} is not here; name one that is, "
                    f"by --account {there.account_id}=ID"
                ) from None
        self._accounts.add(carried.account_id)

    async def _is_own(self, agent_id: str, carried: Carried) -> bool:
        if agent_id not in self._agents:
            async with connection(self._pool) as conn:
                try:
                    self._agents[agent_id] = (await agent_rows.found(conn, agent_id)).account_id
                except NotFound:
                    self._agents[agent_id] = None
        return self._agents[agent_id] == carried.account_id
