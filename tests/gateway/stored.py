"""Conversations written to the log, as an orchestrator would have."""

from contracts import events, messages
from contracts.values import Usage
from conversations.store import ConversationStore

AT = "2026-11-21T09:30:00.123456Z"


async def write(store: ConversationStore, request: messages.ChatRequested, *following: events.Event) -> None:
    """The beginning of a run, and what follows it."""
    conversation = await store.load(request.conversation_id)
    started = events.ConversationStarted(trace_id=request.trace_id, at=AT, account_id=request.account_id)
    asked = events.MessageSaved(
        trace_id=request.trace_id,
        at=AT,
        message_id=request.message_id,
        role="user",
        agent_id=request.agent_id,
        content=request.message,
    )
    run = events.RunStarted(
        trace_id=request.trace_id, at=AT, attempt=1, agent_version=1, model="m", form=request.form
    )
    beginning: list[events.Event] = [asked, run] if conversation.version else [started, asked, run]
    await store.append(conversation, [*beginning, *following])


async def add(store: ConversationStore, request: messages.ChatRequested, *following: events.Event) -> None:
    """More of a run that has begun."""
    await store.append(await store.load(request.conversation_id), list(following))


def ended(
    request: messages.ChatRequested, content: str, message_id: str = "0192f0c1-7d11-7aaa-8bbb-0000000000d2"
) -> list[events.Event]:
    """A round with this text, and the end of the run."""
    trace_id, usage = request.trace_id, Usage(input_tokens=5, output_tokens=2)
    return [
        events.Delta(trace_id=trace_id, at=AT, round=1, text=content, cuts=(len(content),)),
        events.ModelReplied(
            trace_id=trace_id,
            at=AT,
            round=1,
            blocks=({"type": "text", "text": content},),
            stop_reason="end_turn",
            usage=usage,
        ),
        events.MessageSaved(
            trace_id=trace_id,
            at=AT,
            message_id=message_id,
            role="assistant",
            agent_id=request.agent_id,
            content=content,
            token_count=usage.total,
        ),
        events.RunCompleted(trace_id=trace_id, at=AT, usage=usage, rounds=1),
    ]
