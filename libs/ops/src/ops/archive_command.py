"""`agentchat archive`: moves cold conversations from the log to Parquet files."""

import os
import re
import sys
from urllib.parse import urlsplit

from conversations.archive.archive_store import FolderStore
from conversations.archive.archive_tables import LEAST_DAYS
from conversations.archive.archiving import Archived, Archiver
from ops import connections, environment, folder_secrets, printing
from ops.archive_folder import ARCHIVE_DIR, archive_folder
from ops.errors import SetupError, StackError
from ops.output import counted
from ops.printing import progress
from ops.servers.postgres_server import Cluster
from runtime.postgres import Pool, open_pool
from runtime.roles import OPERATOR

_DAYS = re.compile(r"([0-9]{1,5})d\Z")


def days_of(text: str) -> int:
    """So many days as `365d` names. Raises SetupError."""
    if not (found := _DAYS.match(text)):
        raise SetupError("--older-than: write it as 365d")
    if int(found[1]) < LEAST_DAYS:
        raise SetupError(f"--older-than: conversations stay in the log for {LEAST_DAYS} days at least")
    return int(found[1])


def _owner_url(url: str) -> str:
    """That of the running stack's embedded server, where `url` is its operator's; else `url` itself."""
    parts = urlsplit(url)
    if environment.given(os.environ, connections.DATABASE_URL) or parts.username != OPERATOR:
        return url
    folder = environment.run_folder()
    return Cluster(folder, folder_secrets.keep(folder.secrets).servers_key).url(parts.port or 5432)


def archive(*, older_than: str, account: str | None, as_json: bool) -> None:
    """Raises SetupError, StackError."""
    days, folder = days_of(older_than), archive_folder()
    if folder is None:
        raise SetupError(f"set {ARCHIVE_DIR}: the folder that the projector has too")

    async def work(url: str, _: Pool) -> Archived:
        with progress("archiving") as bar:
            task = bar.add_task("conversations", total=None)
            # As the owner: no service may decide that events leave the log.
            async with open_pool(_owner_url(url), role=None) as pool:
                return await Archiver(
                    pool,
                    FolderStore(folder),
                    days=days,
                    account_id=account,
                    on_file=lambda done: bar.update(task, completed=done.conversations),
                ).run()

    stopped = "stopped; nothing is lost: what was entered is archived, all else is in the log"
    try:
        done = connections.run(work, stopped=stopped)
    except OSError as error:
        raise StackError(f"{folder} cannot be written: {error.strerror or error}") from None
    if as_json:
        printing.as_json(done)
        return
    sys.stdout.write(
        f"{counted(done.conversations, 'conversation')}, {counted(done.events, 'event')}: "
        f"{done.event_bytes:,} bytes in the log, {done.file_bytes:,} in {counted(done.files, 'file')}\n"
    )
    if done.left_in_log:
        printing.note(f"{counted(done.left_in_log, 'conversation')} left in the log: in use, or unreadable")
