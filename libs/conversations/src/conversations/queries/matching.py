"""Where in a conversation a history stands that its caller shows: of one that is known by its id."""

from collections.abc import Sequence

from contracts import events
from contracts.values import ShownMessage
from conversations.event_store.log import Log
from conversations.queries.shown_history import Continued
from conversations.queries.threads import Thread, messages_of
from runtime.postgres import Pool

_PAGE = 200
_PAGE_BYTES = 2 * 1024 * 1024


async def place_of(pool: Pool, thread: Thread, history: Sequence[ShownMessage]) -> Continued | None:
    """The place after `history`: the end of the conversation, or an earlier reply (`has_gone_on`).

    None where the history is another one; it ends with a reply. A message that was not answered counts on
    neither side. No more is read than is shown. Raises DatabaseUnavailable, UnreadableEvent.
    """
    shown = [(each.role, each.content.strip()) for each in history]
    said = await _seed(Log(pool), thread.conversation_id)
    question: events.MessageSaved | None = None
    reply: events.MessageSaved | None = None
    after, more = 0, True
    while more:
        page = await messages_of(
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
                if len(said) >= len(shown):
                    return _earlier(thread, reply) if said == shown else None
                reply = each.message
                said += [("user", question.content.strip()), ("assistant", reply.content.strip())]
                if said != shown[: len(said)]:
                    return None
    if said != shown:
        return None
    return Continued(thread.conversation_id, None if reply is None else reply.message_id)


def _earlier(thread: Thread, reply: events.MessageSaved | None) -> Continued | None:
    if reply is None:
        return None
    return Continued(thread.conversation_id, reply.message_id, reply.trace_id, has_gone_on=True)


async def _seed(log: Log, conversation_id: str) -> list[tuple[str, str]]:
    """What was shown of the conversation before it began here: right after its start."""
    return [
        (message.role, message.content.strip())
        for event in await log.events(conversation_id, 0, 2)
        if isinstance(event, events.ConversationSeeded)
        for message in event.messages
    ]
