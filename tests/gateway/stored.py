"""Conversations written to the log, as an orchestrator would have."""

from typing import Protocol

from agentchat.contracts import events, frames, ids, messages
from agentchat.contracts.values import Message, Usage
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.projection import Projection
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.runtime.postgres import Pool
from tests.gateway.worker import Turn

AT = "2026-11-21T09:30:00.123456Z"


class Asking(Protocol):
    """An account and its agent."""

    @property
    def account_id(self) -> str: ...

    @property
    def agent(self) -> str: ...


def request(
    account: Asking, conversation_id: str | None = None, *, message: str = "Where is my order?"
) -> messages.ChatRequested:
    """A request as a gateway sends it, on a new thread unless it names one."""
    return messages.ChatRequested(
        trace_id=ids.make_id().replace("-", ""),
        attempt=1,
        account_id=account.account_id,
        agent_id=account.agent,
        conversation_id=conversation_id or ids.make_id(),
        new_conversation=conversation_id is None,
        message_id=ids.make_id(),
        message=message,
        form="json",
        requested_at=AT,
        deadline=AT,
    )


async def write(store: ConversationStore, request: messages.ChatRequested, *following: events.Event) -> None:
    """The beginning of a run, and what follows it."""
    conversation = await store.load(request.conversation_id)
    started = events.ConversationStarted(
        trace_id=request.trace_id, at=AT, account_id=request.account_id, user_id=request.user_id
    )
    asked = events.MessageSaved(
        trace_id=request.trace_id,
        at=AT,
        message_id=request.message_id,
        role="user",
        agent_id=request.agent_id,
        content=request.message,
    )
    run = events.RunStarted(
        trace_id=request.trace_id,
        at=AT,
        attempt=1,
        agent_version=1,
        model="m",
        form=request.form,
        shown_sha256=request.shown_sha256,
    )
    beginning: list[events.Event] = [asked, run] if conversation.version else [started, asked, run]
    await store.append(conversation, [*beginning, *following])


async def add(store: ConversationStore, request: messages.ChatRequested, *following: events.Event) -> None:
    """More of a run that has begun."""
    await store.append(await store.load(request.conversation_id), list(following))


def has_ended(
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
            model="m",
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


async def complete(store: ConversationStore, turn: Turn) -> Message:
    """Store a turn with its tools, as yet not in the log, and tell that it is complete."""
    request, message_id = turn.request, ids.make_id()
    begun = (await store.load(request.conversation_id)).run(request.trace_id) is not None
    put = add if begun else write
    await put(store, request, *turn.tools, *has_ended(request, turn.text, message_id))
    run = (await store.load(request.conversation_id)).run(request.trace_id)
    assert run is not None
    assert run.reply is not None
    calls = sum(isinstance(event, events.ToolCalled) for event in turn.tools)
    await turn.say(
        frames.Completed(seq=turn.number(), attempt=turn.attempt, message=run.reply, tool_calls=calls)
    )
    return run.reply


async def project(pool: Pool, *projections: Projection) -> None:
    """Bring these read models up to date."""
    follower = Follower(pool, Log(pool), projections)
    while await follower.step():
        pass
