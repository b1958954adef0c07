"""The archive that a command works on: the folder of AGENTCHAT_ARCHIVE_DIR, or of the running stack."""

import os
from pathlib import Path

from conversations.archive.archive import Archive
from conversations.archive.archive_log import ArchiveLog
from conversations.archive.archive_store import FolderStore
from conversations.event_store.log import Log
from ops import environment
from ops.connections import DATABASE_URL
from runtime.postgres import Pool

ARCHIVE_DIR = "AGENTCHAT_ARCHIVE_DIR"


def archive_folder() -> Path | None:
    """None where AGENTCHAT_DATABASE_URL names a database, and nothing its archive."""
    if own := environment.given(os.environ, ARCHIVE_DIR):
        return Path(own)
    if environment.given(os.environ, DATABASE_URL):
        return None
    return environment.run_folder().archive


def archive_of(pool: Pool) -> Archive | None:
    """The same, to be read."""
    folder = archive_folder()
    return None if folder is None else Archive(pool, FolderStore(folder))


def log_of(pool: Pool) -> Log:
    """The log with what is archived. Where the archive is not known, what is read of it comes back into the
    log, by the projector.
    """
    archive = archive_of(pool)
    return Log(pool) if archive is None else ArchiveLog(pool, archive)
