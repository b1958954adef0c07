"""The read model `storage`: what each conversation takes in the log, added up by account on request.

One row a conversation, so that its erasure takes out exactly what was counted of it, however much of it had
been read by then. There is no row an account: a verification or a deletion in pieces leaves rows of single
conversations out, and a sum has to follow. A row is updated in place (no index holds what changes).
"""

from collections.abc import Mapping, Sequence

import msgspec

from contracts import events
from conversations.database import unbounded
from conversations.projections.projection import LoggedFact, Projection, Statement, insert, put
from runtime.postgres import Pool, connection

_TABLES = """
CREATE TABLE storage (
    conversation_id text PRIMARY KEY,
    account_id text NOT NULL,
    events bigint NOT NULL,
    bytes bigint NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX storage_account_idx ON storage (account_id);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON storage TO agentchat_service;
"""


_SUM_SECONDS = 60.0


class AccountStorage(msgspec.Struct, frozen=True, kw_only=True):
    """What the log has of an account: `bytes` are those of its events' JSON, of copies in forks too."""

    conversations: int
    events: int
    bytes: int


NOTHING = AccountStorage(conversations=0, events=0, bytes=0)


async def stored_of(pool: Pool, account_id: str) -> AccountStorage:
    """What an account has stored, as far as the projector has read the log; a second for some 2,000,000
    conversations. Raises DatabaseUnavailable.
    """
    async with connection(pool, seconds=_SUM_SECONDS) as conn, conn.transaction():
        await unbounded(conn)
        row = await (await conn.execute(_OF_ACCOUNT, [account_id])).fetchone()
    assert row is not None, "an aggregate without GROUP BY gives one row"
    return _stored(row)


async def stored_by_account(pool: Pool) -> Mapping[str, AccountStorage]:
    """The same of every account that has something, by its id. Raises DatabaseUnavailable."""
    async with connection(pool, seconds=_SUM_SECONDS) as conn, conn.transaction():
        await unbounded(conn)
        rows = await (await conn.execute(_BY_ACCOUNT)).fetchall()
    return {account_id: _stored(numbers) for account_id, *numbers in rows}


def _stored(numbers: Sequence[int]) -> AccountStorage:
    conversations, stored_events, stored_bytes = numbers
    return AccountStorage(conversations=conversations, events=stored_events, bytes=stored_bytes)


class _Row(msgspec.Struct):
    """What a batch adds to one row."""

    conversation_id: str
    account_id: str
    events: int = 0
    bytes: int = 0


def _changes(facts: Sequence[LoggedFact]) -> list[Statement]:
    rows: dict[str, _Row] = {}
    for fact in facts:
        row = rows.setdefault(fact.conversation_id, _Row(fact.conversation_id, fact.account_id))
        row.events += 1
        row.bytes += fact.size
    return put(_UPSERT, list(rows.values()))


PROJECTION = Projection(
    name="storage",
    tables=_TABLES,
    takes=frozenset(events.EVENTS),
    takes_inherited=True,
    changes=_changes,
)

_UPSERT = insert(
    "storage",
    "conversation_id text, account_id text, events bigint, bytes bigint",
    """(conversation_id) DO UPDATE
   SET events = kept.events + excluded.events, bytes = kept.bytes + excluded.bytes""",
)

_OF_ACCOUNT = """
SELECT count(*), coalesce(sum(events), 0)::bigint, coalesce(sum(bytes), 0)::bigint
  FROM storage WHERE account_id = %s
"""

_BY_ACCOUNT = """
SELECT account_id, count(*), sum(events)::bigint, sum(bytes)::bigint FROM storage GROUP BY account_id
"""
