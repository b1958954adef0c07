"""Record which end users an account wants deleted, until the projector has erased all that they had.

The conversations that are not erased are the remaining work (`projector.delete_users_and_accounts`). At the
end the user's name goes from the ledger of runs, whose tokens stay counted for the account, and the feedback
given on the user's behalf goes from others' conversations: the log keeps that there was some, without name
and words.
"""

from collections.abc import Sequence
from typing import LiteralString

import msgspec

from agentchat.conversations.projections import conversations_table, runs_table
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

TABLES = """
CREATE TABLE user_deletions (
    account_id text NOT NULL,
    user_id text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account_id, user_id)
);
GRANT SELECT, INSERT, DELETE ON user_deletions TO agentchat_service;
"""


class UserDeletion(msgspec.Struct, frozen=True):
    """An end user who is to be deleted."""

    account_id: str
    user_id: str


class FeedbackEvent(msgspec.Struct, frozen=True):
    """An event of feedback that was given or withdrawn on behalf of a user: its place in the log."""

    conversation_id: str
    position: int


async def request_user_deletion(pool: Pool, account_id: str, user_id: str) -> None:
    """Have the projector delete a user; safe to repeat. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_REQUEST, [account_id, user_id])


async def is_user_being_deleted(pool: Pool, account_id: str, user_id: str) -> bool:
    """Return True while a requested deletion is not complete. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return await (await conn.execute(_FIND, [account_id, user_id])).fetchone() is not None


async def list_users_to_delete(pool: Pool) -> list[UserDeletion]:
    """List the deletions that are not complete, the oldest first. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return [UserDeletion(*row) for row in await (await conn.execute(_LIST)).fetchall()]


async def list_feedback_of_user(pool: Pool, deletion: UserDeletion) -> list[FeedbackEvent]:
    """List the events of feedback on the user's behalf, in all of the account's conversations.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_FEEDBACK, [deletion.account_id, deletion.user_id])).fetchall()
    return [FeedbackEvent(*row) for row in rows]


async def finish_user_deletion(
    conn: Connection, deletion: UserDeletion, feedback: Sequence[FeedbackEvent]
) -> None:
    """Remove the user's name from the ledger of runs, the feedback, and the request: in one transaction.

    The read models must have the feedback.
    """
    values = [deletion.account_id, deletion.user_id]
    positions = [each.position for each in feedback]
    await conn.execute(_FORGET, values)
    await conn.execute(_SUBTRACT_BYTES, [positions])
    await conn.execute("SELECT remove_content(%s)", [positions])
    await conn.execute(_ADD_BYTES, [positions])
    for rate, key, name in _RATED:
        withdrawn = await (await conn.execute(_WITHDRAWN.format(key=key, name=name), values)).fetchone()
        await conn.execute(rate, withdrawn)
    await conn.execute(_DELETE_FEEDBACK, values)
    await conn.execute(_DELETE, values)


_REQUEST = "INSERT INTO user_deletions (account_id, user_id) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_FIND = "SELECT FROM user_deletions WHERE account_id = %s AND user_id = %s"
_LIST = "SELECT account_id, user_id FROM user_deletions ORDER BY requested_at"
_FORGET = "UPDATE runs SET user_id = NULL WHERE account_id = %s AND user_id = %s"
_FEEDBACK = """
SELECT originator_id, notification_id FROM conversation_events
 WHERE topic IN ('feedback_given.v1', 'feedback_withdrawn.v1')
   AND originator_id IN (SELECT conversation_id FROM conversations WHERE account_id = %s)
   AND event_field(state, 'on_behalf_of') = %s
"""
# A rebuild counts the bytes of the events as they are then.
_CHANGE_BYTES: LiteralString = """
UPDATE conversations SET bytes = conversations.bytes {sign} changed.bytes
  FROM (SELECT originator_id, sum(octet_length(state)) AS bytes FROM conversation_events
         WHERE notification_id = ANY (%s) GROUP BY originator_id) AS changed
 WHERE conversation_id = originator_id
"""
_SUBTRACT_BYTES = _CHANGE_BYTES.format(sign="-")
_ADD_BYTES = _CHANGE_BYTES.format(sign="+")
# The user's scores, as if each had been withdrawn, in the form that the statement of a read model takes.
_WITHDRAWN: LiteralString = """
SELECT coalesce(json_agg(given), '[]')::text
  FROM (SELECT {key}, json_object_agg({name}, NULL::text) AS scores
          FROM feedback WHERE account_id = %s AND on_behalf_of = %s GROUP BY {key}) AS given
"""
_RATED: tuple[tuple[LiteralString, LiteralString, LiteralString], ...] = (
    (runs_table.RATE, "trace_id", "on_behalf_of"),
    (conversations_table.RATE, "conversation_id", "trace_id || ' ' || on_behalf_of"),
)
_DELETE_FEEDBACK = """
WITH deleted AS (
    DELETE FROM feedback WHERE account_id = %s AND on_behalf_of = %s
    RETURNING message_id || ' ' || on_behalf_of AS text_id
)
DELETE FROM search USING deleted WHERE search.text_id = deleted.text_id
"""
_DELETE = "DELETE FROM user_deletions WHERE account_id = %s AND user_id = %s"
