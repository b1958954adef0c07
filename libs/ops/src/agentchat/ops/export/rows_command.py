"""`agentchat export runs|messages|tool-calls|feedback|approvals`: write the rows of a view to a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import msgspec
import typer

from agentchat.contracts.ids import is_uuid
from agentchat.contracts.text_checks import format_count
from agentchat.conversations.queries.analytics_views import RowFilter, View, list_columns, read_pages
from agentchat.ops import printing
from agentchat.ops.admin.arguments import parse_time_option
from agentchat.ops.connections import run_with_pool
from agentchat.ops.errors import SetupError
from agentchat.ops.export.output_file import Output, open_output, record_export
from agentchat.ops.export.row_writers import Format, open_writer
from agentchat.runtime.postgres import Pool

_STATES: dict[View, tuple[str, ...]] = {
    "runs": ("running", "completed", "failed", "cancelled"),
    "tool_calls": ("running", "completed", "failed", "denied", "lost"),
    "approvals": ("pending", "approved", "denied", "expired", "cancelled"),
}


def export_rows(
    context: typer.Context,
    output: Output = None,
    form: Annotated[Format, typer.Option("--format", help="The format of the file.")] = "jsonl",
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Rows of this time and later (ISO 8601, UTC)."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Rows before this time.")] = None,
    account: Annotated[str | None, typer.Option(metavar="ID", help="Rows of this account.")] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Rows of this agent.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Rows of this end user.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Runs, tool calls or approvals in this state, such as failed.")
    ] = None,
) -> None:
    """Write rows as JSON lines, CSV or Parquet: the columns of the view in the schema `analytics`.

    The time is when a run or an approval was requested, a message was created, a tool was called, feedback
    was given. Deleted content is left out. Parquet needs the Python package duckdb. In CSV a text that
    begins like a formula has an apostrophe before it, so that no spreadsheet runs it. The audit log has a
    row of the export, unless the login may only read.
    """
    view = cast(View, str(context.info_name).replace("-", "_"))
    if state is not None and state not in (states := _STATES.get(view, ())):
        raise SetupError(f"--state: {context.info_name} have {_list_states(states)}")
    for option, value in (("--account", account), ("--agent", agent)):
        if value is not None and not is_uuid(value.lower()):
            raise SetupError(f"{option}: {value!r} is not an id")
    wanted = RowFilter(
        since=parse_time_option("--from", since),
        until=parse_time_option("--until", until),
        account_id=account and account.lower(),
        agent_id=agent and agent.lower(),
        user_id=user,
        state=state,
    )
    folder = Path() if output is None else output.absolute().parent
    with open_output(output) as file:
        count = run_with_pool(
            lambda _, pool: _write(pool, view, wanted, form, file, folder), reads_views_only=True
        )
    printing.print_note(format_count(count, "row"))


def _list_states(states: Sequence[str]) -> str:
    return f"the states {', '.join(states)}" if states else "no state"


async def _write(
    pool: Pool, view: View, wanted: RowFilter, form: Format, file: BinaryIO, folder: Path
) -> int:
    """Write the rows and return their number."""
    await record_export(pool, view, msgspec.structs.asdict(wanted))
    columns, count = await list_columns(pool, view), 0
    with open_writer(form, file, columns, folder) as write, printing.build_progress("exporting") as bar:
        task = bar.add_task("", total=None)
        async for page in read_pages(pool, view, wanted):
            write(page)
            count += len(page)
            bar.update(task, completed=count)
    return count
