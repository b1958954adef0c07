"""Writes conversations of the log to a file, for `agentchat replay export`."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec

from administration import admin_accounts
from contracts.admin_errors import NotFound
from contracts.ids import is_uuid
from conversations.event_store.log import Log
from conversations.queries import find_run
from conversations.transfer import file_format, moving
from ops.connections import NoneSuchError, run
from ops.output import one_line
from ops.printing import progress
from runtime.postgres import Pool, connection


class ExportOptions(msgspec.Struct, frozen=True):
    """These conversations; or those of an account; or, where both are empty, all of them."""

    conversations: tuple[str, ...] = ()
    account: str | None = None


class Written(msgspec.Struct, kw_only=True):
    """`left` counts, by conversation, the events of active runs, which are not exported."""

    conversations: int = 0
    events: int = 0
    left: dict[str, int] = {}


def write(wanted: ExportOptions, file: BinaryIO) -> Written:
    """Raises StackError."""
    return run(lambda _, pool: _write(pool, wanted, file))


async def _write(pool: Pool, wanted: ExportOptions, file: BinaryIO) -> Written:
    log = Log(pool)
    wanted_ids = await chosen_ids(pool, log, wanted)
    out = file_format.FileWriter(file, exported_at=datetime.now(UTC).isoformat(timespec="seconds"))
    done = Written()
    with progress("exporting") as bar:
        task = bar.add_task("", total=len(wanted.conversations) or None)
        async for conversation_id in wanted_ids:
            found = await moving.outgoing(log, conversation_id)
            if found.left:
                done.left[conversation_id] = found.left
            if found.entries:
                out.add(found.entries)
                done.conversations += 1
                done.events += len(found.entries)
            bar.advance(task)
    out.end()
    return done


async def chosen_ids(pool: Pool, log: Log, wanted: ExportOptions) -> AsyncIterator[str]:
    """Their ids. Raises NoneSuchError, before the first one."""
    if wanted.conversations:
        known = await log.accounts_of(wanted.conversations)
        for each in wanted.conversations:
            if not is_uuid(each) or each not in known:
                raise NoneSuchError(f"no such conversation: {one_line(each, 100)}")
        return _each(wanted.conversations)
    if wanted.account is None:
        return find_run.all_ids(log)
    async with connection(pool) as conn:
        try:
            account = await admin_accounts.present(conn, wanted.account)
        except NotFound:
            raise NoneSuchError(f"no such account: {one_line(wanted.account, 100)}") from None
    return find_run.all_ids(log, account.id)


async def _each(conversation_ids: tuple[str, ...]) -> AsyncIterator[str]:
    for conversation_id in conversation_ids:
        yield conversation_id
