"""Events of conversations as tests tell them: short names, one fixed time, ids from a word."""

from typing import Any

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.files import StoredFile
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.values import AgentFacts, Decider, Usage
from agentchat.conversations.aggregate.conversation import Conversation, Run, fold
from agentchat.conversations.aggregate.rounds import list_tool_calls

AT = "2026-11-21T09:30:00.000000Z"
LATER = "2026-11-21T09:31:00.000000Z"
ACCOUNT = "account-1"
AGENT = AgentFacts(agent_version=3, model="demo-shop-1")


def trace(word: str = "a") -> str:
    return word.encode().hex().rjust(32, "0")


def build_conversation_started() -> events.ConversationStarted:
    return events.ConversationStarted(trace_id=trace(), at=AT, account_id=ACCOUNT)


def build_user_message(
    word: str = "a", text: str = "Where is it?", attachments: tuple[StoredFile, ...] = ()
) -> events.MessageSaved:
    return events.MessageSaved(
        trace_id=trace(word),
        at=AT,
        message_id=f"user-{word}",
        role="user",
        agent_id="agent-1",
        content=text,
        attachments=attachments,
    )


def build_run_started(word: str = "a", attempt: int = 1, **more: Any) -> events.RunStarted:
    facts: dict[str, Any] = {"agent_version": 3, "model": "demo-shop-1", "form": "form1"} | more
    return events.RunStarted(trace_id=trace(word), at=AT, attempt=attempt, **facts)


def begin(
    word: str = "a", text: str = "Where is it?", attachments: tuple[StoredFile, ...] = (), **more: Any
) -> tuple[events.MessageSaved, events.RunStarted]:
    """A run's message and its first attempt."""
    return build_user_message(word, text, attachments), build_run_started(word, **more)


def build_handed_over(word: str = "a", tokens: int = 0) -> events.ReplyLost:
    """Its worker stops."""
    return events.ReplyLost(trace_id=trace(word), at=AT, round=1, usage=Usage(output_tokens=tokens))


def build_delta(text: str, word: str = "a", number: int = 1) -> tuple[events.Delta, events.ModelReplied]:
    """A whole reply that asks for no tool."""
    return (
        events.Delta(trace_id=trace(word), at=AT, round=number, text=text, cuts=(len(text),)),
        build_model_replied([{"type": "text", "text": text}], word, number, "end_turn"),
    )


def build_model_replied(
    blocks: list[dict[str, Any]], word: str = "a", number: int = 1, stop_reason: str = "tool_use"
) -> events.ModelReplied:
    return events.ModelReplied(
        trace_id=trace(word),
        at=AT,
        round=number,
        blocks=tuple(blocks),
        stop_reason=stop_reason,
        usage=Usage(input_tokens=10, output_tokens=5),
    )


def use(call_id: str, name: str = "get_order", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def build_tool_called(
    blocks: list[dict[str, Any]], word: str = "a", number: int = 1
) -> tuple[events.Event, ...]:
    """A reply that asks for tools, with its ToolCalled events."""
    reply = build_model_replied(blocks, word, number)
    return (reply, *list_tool_calls(reply))


def build_held_call(word: str = "a", call_id: str = "call") -> tuple[events.Event, ...]:
    """A call that a person has allowed."""
    reply, *called = build_tool_called([use(call_id)], word)
    waits = (
        replace(event, needs_approval=True) if isinstance(event, events.ToolCalled) else event
        for event in called
    )
    asked_ = events.ApprovalRequested(
        trace_id=trace(word),
        at=AT,
        approval_id=f"approval-{word}-{call_id}",
        call_id=call_id,
        round=1,
        input_sha256="",
        expires_at="2126-11-28T09:30:00.000000Z",
        agent_id="agent-1",
        server="shop",
        tool="get_order",
    )
    decided = events.ApprovalDecided(
        trace_id=trace(word),
        at=LATER,
        approval_id=asked_.approval_id,
        decision="approved",
        by=Decider(kind="account", id="key-1"),
    )
    return (reply, *waits, asked_, decided)


def build_tool_returned(
    call_id: str, output: str = '{"ok":true}', word: str = "a", number: int = 1
) -> events.ToolReturned:
    return events.ToolReturned(
        trace_id=trace(word), at=AT, round=number, call_id=call_id, output=output, is_error=False, ms=4
    )


def build_answer(text: str, word: str = "a") -> tuple[events.MessageSaved, events.RunCompleted]:
    saved = events.MessageSaved(
        trace_id=trace(word),
        at=LATER,
        message_id=f"reply-{word}",
        role="assistant",
        agent_id="agent-1",
        content=text,
        token_count=15,
    )
    return saved, events.RunCompleted(trace_id=trace(word), at=LATER, usage=Usage(input_tokens=15), rounds=1)


def build_compacted(
    through: int, word: str = "c", summary: str = "They met.", **more: Any
) -> events.ContextCompacted:
    return events.ContextCompacted(
        trace_id=trace(word),
        at=AT,
        through_version=through,
        summary=summary,
        model="m",
        prompt_sha256="",
        usage=Usage(input_tokens=100),
        **more,
    )


def build_run_failed(word: str = "a") -> events.RunFailed:
    return events.RunFailed(trace_id=trace(word), at=LATER, code="provider_error", message="It broke.")


def build_run_cancelled(word: str = "a") -> events.RunCancelled:
    return events.RunCancelled(trace_id=trace(word), at=LATER)


def build_feedback(
    score: float, name: str | None = None, word: str = "a", **more: Any
) -> events.FeedbackGiven:
    """Feedback on the reply of a turn."""
    return events.FeedbackGiven(
        trace_id=trace(word),
        at=LATER,
        message_id=f"reply-{word}",
        by=Decider(kind="account", id="key-1"),
        score=score,
        on_behalf_of=name,
        **more,
    )


def turn(word: str, text: str, reply: str) -> tuple[events.Event, ...]:
    """A whole turn without tools."""
    return (*begin(word, text), *build_delta(reply, word), *build_answer(reply, word))


def build_run(*stored: events.Event) -> Conversation:
    return fold("conversation-1", stored)


def build_thread(*stored: events.Event) -> Conversation:
    """A conversation with these events after its first."""
    return build_run(build_conversation_started(), *stored)


def run_after(*stored: events.Event) -> Run:
    run = build_thread(build_user_message(), *stored).run(trace())
    assert run is not None
    return run


def request(word: str = "a", **more: Any) -> ChatRequested:
    facts: dict[str, Any] = {
        "trace_id": trace(word),
        "attempt": 1,
        "account_id": ACCOUNT,
        "agent_id": "agent-1",
        "conversation_id": "conversation-1",
        "new_conversation": False,
        "message_id": f"user-{word}",
        "message": "Where is it?",
        "form": "form1",
        "requested_at": AT,
        "deadline": LATER,
    }
    return ChatRequested(**facts | more)


ERASED = events.ConversationErased(trace_id=trace("z"), at=LATER, account_id=ACCOUNT)


def build_described(number: int) -> list[events.Event]:
    """So many changes of the title."""
    return [
        events.ConversationDescribed(trace_id=trace(str(each)), at=AT, title=f"title {each}", metadata={})
        for each in range(number)
    ]
