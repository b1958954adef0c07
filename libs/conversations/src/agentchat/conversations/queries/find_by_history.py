"""Find conversations by the history that clients of some protocols always send.

A run's start holds a hash of all messages that were sent with its own. So a history finds its conversation by
all but its last reply, and that reply is compared with the saved one. Content without a key finds nothing:
the hash covers the account, the agent and the client's own key for the conversation too.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from agentchat.contracts import events, wire
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.conversations.queries.read_thread import Thread, list_messages
from agentchat.runtime.postgres import Pool, acquire_connection

_LOOKED_AT = 8
"""The number of runs with the same hash that are compared, the newest first.

Regenerated replies.
"""

_EVENTS = 15
"""The number of events that show a reply, and the failed tries after it."""

_HALF = 32  # hexadecimal digits
_BEYOND = "g"  # every hexadecimal digit

_PAGE = 200
_PAGE_BYTES = 2 * 1024 * 1024


class ContinuedConversation(msgspec.Struct, frozen=True):
    """A conversation that is as the client shows it.

    `reply_id` is the id of its last message; None if its last run waits for approvals and its text is as
    shown. With `has_gone_on` it was as shown up to that message, the reply of the run `trace_id`,
    and more came after.
    """

    conversation_id: str
    reply_id: str | None
    trace_id: str = ""
    has_gone_on: bool = False


class Digests(msgspec.Struct, frozen=True):
    """Hashes of the texts of messages, 64 hexadecimal digits each.

    `messages` covers all. `before` covers those up to the user's last message but one, None if there is none.
    `reply` is the reply to that, "" if there was none.
    """

    messages: str
    before: str | None
    reply: str


def compute_digests(messages: Sequence[ShownMessage]) -> Digests:
    """Compute the digests in one pass: a client may send a megabyte.

    Blanks around a text are ignored.
    """
    has_reply = len(messages) > 1 and messages[-2].role == "assistant"
    asked = len(messages) - (2 if has_reply else 1)  # as many as were sent with the run before
    digest, before = hashlib.sha256(), None
    for index, message in enumerate(messages):
        if index == asked > 0:
            before = digest.hexdigest()
        digest.update(wire.encode((message.role, message.content.strip())))
    return Digests(digest.hexdigest(), before, messages[-2].content if has_reply else "")


def hash_shown(scope: str, agent_id: str, key: str, digest: str) -> str:
    """Return the stored hash of a history: 64 hexadecimal digits.

    `scope` stands for the account and its user (`contracts.ownership.build_scope`).
    """
    return hashlib.sha256(wire.encode((scope, agent_id, key, digest))).hexdigest()


def hash_named(scope: str, agent_id: str, key: str, digest: str) -> str:
    """Return a hash whose first half is only of the caller's key, for `find_newest_run`."""
    return _hash_thread(scope, agent_id, key) + hash_shown(scope, agent_id, key, digest)[:_HALF]


def _hash_thread(scope: str, agent_id: str, key: str) -> str:
    return hashlib.sha256(wire.encode((scope, agent_id, key))).hexdigest()[:_HALF]


async def find_newest_run(pool: Pool, scope: str, agent_id: str, key: str) -> str | None:
    """Return the trace of the last run with a hash by `hash_named` under a key.

    Raises DatabaseUnavailable.
    """
    thread = _hash_thread(scope, agent_id, key)
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_NEWEST, [thread, f"{thread}{_BEYOND}"])).fetchone()
    return None if row is None else str(row[0])


async def find_continued(pool: Pool, asked: str, reply: str, message: str) -> ContinuedConversation | None:
    """Find the conversation that ends with `reply` to the history with the hash `asked`.

    Otherwise one that went on after that reply; None if there is none. Failed tries of `message` after the
    reply, which produced no output, are ignored. `reply` may be the text of a run that waits for approvals.
    Raises DatabaseUnavailable, UnreadableEvent.
    """
    async with acquire_connection(pool) as conn, conn.cursor(binary=True) as cursor:
        rows = await (await cursor.execute(_BEHIND, [asked, _LOOKED_AT, _EVENTS])).fetchall()
    earlier: ContinuedConversation | None = None
    for conversation_id, trace_id, topics, states in rows:
        saved = [mapper.decode_stored(*each) for each in zip(topics or (), states or (), strict=True)]
        match saved:
            case [events.MessageSaved(trace_id=own, role="assistant") as last, *more] if (
                own == trace_id and last.content.strip() == reply.strip()
            ):
                more = more[1:] if last.interrupted else more  # its own end
                if _are_failed_tries(more, message):
                    return ContinuedConversation(conversation_id, last.message_id)
                earlier = earlier or ContinuedConversation(
                    conversation_id, last.message_id, trace_id, has_gone_on=True
                )
            case [] if await _is_waiting_after(pool, trace_id, reply):
                return ContinuedConversation(conversation_id, None)
    return earlier


async def _is_waiting_after(pool: Pool, trace_id: str, text: str) -> bool:
    loaded = await load_run(pool, trace_id)
    return loaded is not None and bool(loaded[1].pending) and loaded[1].text.strip() == text.strip()


def _are_failed_tries(tries: Sequence[events.Event], message: str) -> bool:
    """Return True if these are only tries of `message`, each followed by its run's end."""
    return len(tries) % 2 == 0 and all(
        isinstance(question, events.MessageSaved)
        and question.content.strip() == message.strip()
        and isinstance(end, events.RunFailed | events.RunCancelled)
        for question, end in zip(tries[::2], tries[1::2], strict=True)
    )


_NEWEST = """
SELECT trace_id FROM readable_conversation_events
 WHERE topic = 'run_started.v1'
   AND event_field(state, 'shown_sha256') > %s AND event_field(state, 'shown_sha256') < %s
 ORDER BY notification_id DESC LIMIT 1
"""

# A Delta after the reply is of a later run that produced output.
_BEHIND = """
SELECT begun.originator_id, begun.trace_id, behind.topics, behind.states
  FROM (SELECT originator_id, originator_version, trace_id FROM readable_conversation_events
         WHERE topic = 'run_started.v1' AND event_field(state, 'shown_sha256') = %s
         ORDER BY notification_id DESC LIMIT %s) AS begun,
       LATERAL (
         SELECT array_agg(topic ORDER BY originator_version) AS topics,
                array_agg(state ORDER BY originator_version) AS states
           FROM (SELECT * FROM conversation_events
                  WHERE originator_id = begun.originator_id AND originator_version > begun.originator_version
                    AND (topic LIKE 'message_saved.v%%' OR topic IN ('run_failed.v1', 'run_cancelled.v1')
                         OR topic LIKE 'delta.v%%' AND originator_version > (
                            SELECT min(originator_version) FROM conversation_events
                             WHERE originator_id = begun.originator_id
                               AND originator_version > begun.originator_version
                               AND topic LIKE 'message_saved.v%%'))
                  ORDER BY originator_version LIMIT %s) AS page) AS behind
"""


async def find_place(
    pool: Pool, thread: Thread, history: Sequence[ShownMessage]
) -> ContinuedConversation | None:
    """Find the place after `history`.

    The end of the conversation, or an earlier reply (`has_gone_on`). None if the history differs; it ends
    with a reply. A message without a reply is ignored on both sides; an interrupted reply counts if it is
    shown. No more is read than is shown. Raises DatabaseUnavailable, UnreadableEvent.
    """
    shown = [(each.role, each.content.strip()) for each in history]
    said = await _read_seed(Log(pool), thread.conversation_id)
    question: events.MessageSaved | None = None
    reply: events.MessageSaved | None = None
    after, more = 0, True
    while more:
        page = await list_messages(
            pool,
            thread.conversation_id,
            after=after,
            until=thread.version,
            limit=_PAGE,
            max_bytes=_PAGE_BYTES,
        )
        more = page.more
        for each in page.messages:
            after = each.version
            if each.message.role == "user":
                question = each.message
            elif question is not None and question.trace_id == each.message.trace_id:
                pair = [("user", question.content.strip()), ("assistant", each.message.content.strip())]
                if each.message.interrupted and shown[len(said) : len(said) + 2] != pair:
                    continue
                if len(said) >= len(shown):
                    return _build_earlier(thread, reply) if said == shown else None
                reply = each.message
                said += pair
                if said != shown[: len(said)]:
                    return None
    if said != shown:
        return None
    return ContinuedConversation(thread.conversation_id, None if reply is None else reply.message_id)


def _build_earlier(thread: Thread, reply: events.MessageSaved | None) -> ContinuedConversation | None:
    if reply is None:
        return None
    return ContinuedConversation(thread.conversation_id, reply.message_id, reply.trace_id, has_gone_on=True)


async def _read_seed(log: Log, conversation_id: str) -> list[tuple[str, str]]:
    """Return the messages that the client showed before the conversation began here."""
    return [
        (message.role, message.content.strip())
        for event in await log.read_events(conversation_id, 0, 2)
        if isinstance(event, events.ConversationSeeded)
        for message in event.messages
    ]
