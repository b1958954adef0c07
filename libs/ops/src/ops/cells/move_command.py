"""`agentchat move`: the command."""

import asyncio
import os
import sys
from typing import Annotated

from contracts.ids import is_uuid
from directory.secrets import sealer_of
from ops import printing
from ops.cells.account_move import Moved, opened
from ops.connections import failures_in_one_line, reached
from ops.errors import SetupError, StoppedError
from ops.output import counted
from runtime.settings import ServiceSettings, Setting, load_or_exit


class MoveSettings(ServiceSettings, frozen=True, kw_only=True):
    """Both databases as their owners; the keys are those of the other cell."""

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    target_database_url: Annotated[str, Setting("AGENTCHAT_TARGET_DATABASE_URL", secret=True)]
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()


def move(account: str, cell: str, *, wait: float, undo: bool, as_json: bool) -> None:
    """Move an account, or undo a move that has not come to its end. Raises StackError, SetupError."""
    account_id = account.lower()
    if not is_uuid(account_id):
        raise SetupError(f"{account[:100]!r} is no account's id")
    settings = load_or_exit(MoveSettings, os.environ)
    try:
        with failures_in_one_line():
            moved = asyncio.run(_move(settings, account_id, cell, wait, undo=undo))
    except KeyboardInterrupt:
        raise StoppedError("stopped: repeat the move, or undo it with --undo") from None
    if moved is None:
        sys.stdout.write("the account is served here again\n")
    elif as_json:
        printing.as_json(moved)
    else:
        sys.stdout.write(
            f"{moved.account_id} is in cell {moved.cell}: {counted(moved.conversations, 'conversation')}, "
            f"{counted(sum(moved.rows.values()), 'other row')}; closed for {moved.closed_seconds:g} s\n"
        )


async def _move(
    settings: MoveSettings, account_id: str, cell: str, wait: float, *, undo: bool
) -> Moved | None:
    sealer = sealer_of(settings.secret_key, settings.previous_secret_keys)
    for url in (settings.database_url, settings.target_database_url):
        await reached(url)
    async with opened(settings.database_url, settings.target_database_url, account_id, cell) as this:
        if undo:
            await this.undo()
            return None
        return await this.run(sealer, wait_seconds=wait, report=printing.note)
