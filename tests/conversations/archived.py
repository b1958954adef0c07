"""Cold conversations, and an archive of the module's database in a folder, for tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from msgspec.structs import replace

from contracts.events import Event
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.archive.archive import Archive
from conversations.archive.archive_log import ArchiveLog
from conversations.archive.archive_store import FolderStore
from conversations.archive.archive_work import ArchiveWork
from conversations.archive.archiving import Archived, Archiver
from conversations.archive.parquet_file import decode
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from runtime.postgres import Pool, open_pool
from tests.conversations.given import began, turn
from tests.conversations.read_models import empty, follow

DAYS_OLD = 400
"""So long ago everything was said in a cold conversation."""

_FED = """
INSERT INTO projection_positions VALUES ('events_feed', 1, %s)
    ON CONFLICT (name) DO UPDATE SET position = excluded.position
"""


ENTRY_WITHOUT_FILE = """
WITH file AS (
    INSERT INTO archive_files (name, first_position, last_position) VALUES (%(id)s, 1, 1) RETURNING name
)
INSERT INTO archived_conversations
       (conversation_id, account_id, file, version, last_position, seal, positions, seals, in_log)
SELECT %(id)s, %(account)s, name, 1, 1, '', '{}', '{}', false FROM file
"""
"""A conversation of this id in the index alone."""


def days_ago(days: int) -> str:
    return f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%S.000000Z}"


def at(time: str, stored: Sequence[Event]) -> list[Event]:
    return [replace(event, at=time) for event in stored]


@dataclass(frozen=True)
class ColdStorage:
    """The log of the module's database with its archive."""

    store: ConversationStore
    log: Log
    pool: Pool
    url: str
    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", FolderStore(self.folder))
        object.__setattr__(self, "archive", Archive(self.pool, self.files))
        object.__setattr__(self, "work", ArchiveWork(self.pool, self.archive))
        object.__setattr__(self, "archive_log", ArchiveLog(self.pool, self.archive))

    files: FolderStore = None  # type: ignore[assignment] # of __post_init__, as those below
    archive: Archive = None  # type: ignore[assignment]
    work: ArchiveWork = None  # type: ignore[assignment]
    archive_log: ArchiveLog = None  # type: ignore[assignment]

    async def chat(self, *words: str, days: int = DAYS_OLD) -> Conversation:
        """A conversation of so many turns, whose trace ids are of these words."""
        said = [began(), *(event for word in words for event in turn(word, f"Ask {word}", f"Reply {word}"))]
        return await self.store.append(Conversation(conversation_id=new_id()), at(days_ago(days), said))

    async def follow(self) -> None:
        """A chat of today is the newest event, and all who follow the log have read up to it."""
        await self.chat(new_id(), days=0)
        await follow(self.pool, self.log)
        async with await psycopg.AsyncConnection.connect(self.url) as conn:
            await conn.execute(_FED, [await self.log.head()])

    async def archived(self, *, days: int = 365, account_id: str | None = None) -> Archived:
        """What is cold is entered in the index; its rows are in the log still."""
        await self.follow()
        async with open_pool(self.url, role=None) as owner:
            return await Archiver(owner, self.files, days=days, account_id=account_id).run()

    async def moved(self, *, days: int = 365) -> Archived:
        """The same, and their rows have left the log."""
        archived = await self.archived(days=days)
        await self.aged()
        while await self.work.delete_rows():
            pass
        return archived

    async def rows_left(self, *threads: Conversation) -> int:
        query = "SELECT count(*) FROM conversation_events WHERE originator_id = ANY(%s)"
        ((left,),) = await self.rows(query, [each.conversation_id for each in threads])
        assert isinstance(left, int)
        return left

    async def aged(self) -> None:
        """An hour goes by for the archive."""
        async with await psycopg.AsyncConnection.connect(self.url) as conn:
            await conn.execute(
                "UPDATE archived_conversations SET archived_at = archived_at - interval '1 hour'"
            )
            await conn.execute("UPDATE archive_files SET begun_at = begun_at - interval '2 hours'")

    async def rows(self, query: str, *parameters: object) -> list[tuple[object, ...]]:
        async with await psycopg.AsyncConnection.connect(self.url) as conn:
            return await (await conn.execute(query.encode(), parameters or None)).fetchall()

    def contents(self) -> bytes:
        """What the files of the folder hold, read as Parquet."""
        return b"".join(row.state for name in self.files.names() for row in decode(self.files.read(name)))


async def emptied_storage(
    url: str, pool: Pool, log: Log, store: ConversationStore, folder: Path
) -> ColdStorage:
    await emptied(url)
    return ColdStorage(store, log, pool, url, folder)


async def emptied(url: str) -> None:
    """The log, the read models and the archive's index."""
    await empty(url)
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute(
            "TRUNCATE archive_files, archived_conversations, archive_removals, archive_recalls,"
            " recalled_conversations, erased_links, feed_days, unfinished_erasures, erasure_pieces"
        )
        await conn.execute(
            "INSERT INTO feed_days VALUES ((clock_timestamp() AT TIME ZONE 'UTC')::date - 400, 0)"
        )
