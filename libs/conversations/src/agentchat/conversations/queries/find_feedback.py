"""Read feedback on replies from the log, so that its author sees it at once."""

from collections.abc import Sequence

import msgspec

from agentchat.contracts import events
from agentchat.contracts.values import MAX_FEEDBACK
from agentchat.conversations.event_store import mapper
from agentchat.runtime.postgres import Pool, acquire_connection


class ReplyFeedback(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback on one reply: the number of names, their mean score, the newest first."""

    count: int
    mean_score: float
    newest: tuple[events.FeedbackGiven, ...]


async def find_feedback(
    pool: Pool, conversation_id: str, message_ids: Sequence[str], until: int, *, most: int = MAX_FEEDBACK
) -> dict[str, ReplyFeedback]:
    """Return feedback by the reply's id, as of a version; at most `most` of each reply.

    Raises DatabaseUnavailable.
    """
    named = {"id": conversation_id, "messages": list(message_ids), "until": until, "most": most}
    async with acquire_connection(pool) as conn, conn.cursor(binary=True) as cursor:
        rows = await (await cursor.execute(_NEWEST, named)).fetchall()
    found: dict[str, ReplyFeedback] = {}
    for message_id, topic, state, count, mean in rows:
        event = mapper.decode_stored(topic, state)
        assert isinstance(event, events.FeedbackGiven)
        before = found.get(message_id)
        newest = (event,) if before is None else (*before.newest, event)
        found[message_id] = ReplyFeedback(count=count, mean_score=mean, newest=newest)
    return found


_NEWEST = """
WITH given AS (
  SELECT originator_version AS version, topic, state, event ->> 'message_id' AS message_id,
         event ->> 'on_behalf_of' AS name, (event ->> 'score')::double precision AS score
    FROM (SELECT *, convert_from(state, 'UTF8')::json AS event FROM readable_conversation_events
           WHERE originator_id = %(id)s AND topic IN ('feedback_given.v1', 'feedback_withdrawn.v1')
             AND originator_version <= %(until)s) AS stored
), newest AS (
  SELECT DISTINCT ON (message_id, name) * FROM given WHERE message_id = ANY (%(messages)s)
   ORDER BY message_id, name, version DESC
)
SELECT message_id, topic, state, count, mean
  FROM (SELECT *, count(*) OVER reply AS count, avg(score) OVER reply AS mean,
               row_number() OVER (PARTITION BY message_id ORDER BY version DESC) AS place
          FROM newest WHERE topic = 'feedback_given.v1' WINDOW reply AS (PARTITION BY message_id)) AS counted
 WHERE place <= %(most)s ORDER BY message_id, place
"""
