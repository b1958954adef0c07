"""`agentchat export conversations`: write conversations of the log to a file."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, BinaryIO

import typer

from agentchat.administration import admin_accounts
from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.ids import is_uuid
from agentchat.contracts.text_checks import format_count
from agentchat.conversations.conversation_export import ExportWriter, load_exportable_events
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries import find_by_trace
from agentchat.ops import printing
from agentchat.ops.connections import NoneSuchError, run_with_pool
from agentchat.ops.errors import SetupError
from agentchat.ops.export.output_file import Output, open_output, record_export
from agentchat.ops.printing import build_progress
from agentchat.ops.terminal_text import shorten
from agentchat.runtime.postgres import Pool, acquire_connection


def export_conversations(
    conversations: Annotated[
        list[str] | None, typer.Argument(metavar="[CONVERSATION]...", help="Ids of conversations.")
    ] = None,
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="All conversations of this account.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All conversations of all accounts.")] = False,
    output: Output = None,
) -> None:
    """Write conversations as JSON lines, one event per line.

    Events are written as stored, with ids and versions. Active runs are left out. Exit code 2: unknown
    conversation or account.
    """
    if sum((bool(conversations), account is not None, everything)) != 1:
        raise SetupError("choose what to export: ids of conversations, or --account, or --all")
    wanted = tuple(dict.fromkeys(each.lower() for each in conversations or ()))
    with open_output(output) as file:
        writer = run_with_pool(lambda _, pool: _export(pool, wanted, account, file))
    printing.print_note(
        f"{format_count(writer.conversations, 'conversation')}, {format_count(writer.events, 'event')}"
    )


async def _export(
    pool: Pool, conversations: Sequence[str], account: str | None, file: BinaryIO
) -> ExportWriter:
    log = Log(pool)
    wanted = await _find_conversation_ids(pool, log, conversations, account)
    await record_export(pool, "conversations", {"account_id": account, "conversations": conversations})
    writer = ExportWriter(file, exported_at=datetime.now(UTC).isoformat(timespec="seconds"))
    with build_progress("exporting") as bar:
        task = bar.add_task("", total=len(conversations) or None)
        async for conversation_id in wanted:
            exportable = await load_exportable_events(log, conversation_id)
            if exportable.active_run_events:
                events = format_count(exportable.active_run_events, "event")
                printing.print_note(
                    f"conversation {conversation_id}: {events} of an active run were left out"
                )
            if exportable.entries:
                writer.add(exportable.entries)
            bar.advance(task)
    writer.end()
    return writer


async def _find_conversation_ids(
    pool: Pool, log: Log, conversations: Sequence[str], account: str | None
) -> AsyncIterator[str]:
    """Find the ids of these conversations, of an account's, or of all if neither is given.

    Raises NoneSuchError before the first one.
    """
    if conversations:
        known = await log.find_owners(conversations)
        for each in conversations:
            if not is_uuid(each) or each not in known:
                raise NoneSuchError(f"no such conversation: {shorten(each, 100)}")
        return _iterate(conversations)
    if account is None:
        return find_by_trace.iterate_conversation_ids(log)
    async with acquire_connection(pool) as conn:
        try:
            account = (await admin_accounts.find_account(conn, account)).id
        except NotFound:
            raise NoneSuchError(f"no such account: {shorten(account, 100)}") from None
    return find_by_trace.iterate_conversation_ids(log, account)


async def _iterate(conversation_ids: Sequence[str]) -> AsyncIterator[str]:
    for conversation_id in conversation_ids:
        yield conversation_id
