"""Give one example of every message on EVENTS and DEAD, and the ids that the documentation shows."""

from agentchat.contracts import events, messages
from agentchat.contracts.files import StoredFile
from agentchat.contracts.values import Decider, InputAsked, Message, ShownMessage, Source, Usage

ACCOUNT = "0192f0c1-0000-7000-8000-0000000000a1"
AGENT = "0192f0c1-0000-7000-8000-0000000000b1"
CONVERSATION = "0192f0c1-7c4e-7aaa-8bbb-0000000000c1"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
USER_MESSAGE = "0192f0c1-7c4e-7aaa-8bbb-0000000000d1"
REPLY = "0192f0c1-7d11-7aaa-8bbb-0000000000d2"
AT = "2026-11-21T09:30:00.123456Z"
APPROVAL = "0192f0c1-7d11-7aaa-8bbb-0000000000f1"
KEY = "0192f0c1-0000-7000-8000-0000000000e2"
CALL = "toolu_01A09q90qw90lq917835lq9"

_USAGE = Usage(input_tokens=412, output_tokens=57)
SOURCE = Source(
    index=1,
    id="returns#2",
    title="Returns",
    url="https://shop.example/returns",
    source_type="document",
    score=0.83,
    snippet="You may return an order within 30 days.",
)
MESSAGE = Message(
    id=REPLY, conversation_id=CONVERSATION, content="It has shipped.", token_count=469, created_at=AT
)
FILE = StoredFile(
    file_id="0192f0c1-7c4e-7aaa-8bbb-0000000000f2",
    sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    media_type="image/png",
    bytes=48_213,
    name="parcel.png",
)

EVENT_EXAMPLES: tuple[events.Event, ...] = (
    events.ConversationStarted(
        trace_id=TRACE, at=AT, account_id=ACCOUNT, user_id="CUST-001", external_id="ticket-4711"
    ),
    events.ConversationForked(
        trace_id=TRACE, at=AT, source_id="0192f0c1-7c4e-7aaa-8bbb-0000000000c0", source_version=6
    ),
    events.ConversationSeeded(
        trace_id=TRACE,
        at=AT,
        messages=(ShownMessage("user", "Hello"), ShownMessage("assistant", "Hello! How can I help?")),
    ),
    events.MessageSaved(
        trace_id=TRACE,
        at=AT,
        message_id=USER_MESSAGE,
        role="user",
        agent_id=AGENT,
        content="Where is it?",
        attachments=(FILE,),
    ),
    events.RunStarted(
        trace_id=TRACE,
        at=AT,
        attempt=1,
        agent_version=3,
        model="demo-shop-1",
        form="form1",
        worker="orchestrator-1/0192f0c1-0000-7000-8000-0000000000e1",
    ),
    events.SourcesRetrieved(trace_id=TRACE, at=AT, sources=(SOURCE,)),
    events.ContextCompacted(
        trace_id=TRACE,
        at=AT,
        through_version=412,
        summary="The user is Ada. She has returned the tent of order ORD-1001.",
        model="claude-sonnet-4-5",
        prompt_sha256="0d6be69b264717f2dd33652e212b173104b4a647b7c11ae72e9885f11cd312fb",
        usage=Usage(input_tokens=1_204, cache_read_tokens=158_400, output_tokens=612),
    ),
    events.Delta(trace_id=TRACE, at=AT, round=1, text="It has shipped.", cuts=(3, 15)),
    events.ModelReplied(
        trace_id=TRACE,
        at=AT,
        round=1,
        blocks=({"type": "text", "text": "It has shipped."},),
        stop_reason="end_turn",
        usage=_USAGE,
        model="gpt-5-mini",
        provider="openai",
        prompt_sha256="d9ed06c2fb09eab6d64c92d5f2e8cc4fa5d3a8ba3ab3e9c1e1c5cf9d1d3c1f05",
        tools_sha256="4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
    ),
    events.WarningRaised(
        trace_id=TRACE,
        at=AT,
        code="model_changed",
        subject="gpt-5-mini",
        message="The agent's model is overloaded; fall-back 1 answers instead.",
        fallback=1,
        usage=Usage(input_tokens=431, output_tokens=8),
    ),
    events.ReplyLost(trace_id=TRACE, at=AT, round=2, usage=Usage(input_tokens=431, output_tokens=8)),
    events.ToolCalled(
        trace_id=TRACE, at=AT, round=1, call_id=CALL, name="get_order", input={"order_id": "ORD-1001"}
    ),
    events.ApprovalRequested(
        trace_id=TRACE,
        at=AT,
        approval_id=APPROVAL,
        call_id=CALL,
        round=1,
        input_sha256="6f0a4ab3e5b7e6b5a8f3a1a6c1c5a5d9d8f34f0f2f7b3a0c9f3a9f2c0a8b7c61",
        expires_at="2026-11-28T09:30:00.123456Z",
        agent_id=AGENT,
        server="shop",
        tool="cancel_order",
    ),
    events.ElicitationRequested(
        trace_id=TRACE,
        at=AT,
        approval_id=APPROVAL,
        call_id=CALL,
        round=1,
        input_sha256="6f0a4ab3e5b7e6b5a8f3a1a6c1c5a5d9d8f34f0f2f7b3a0c9f3a9f2c0a8b7c61",
        expires_at="2026-11-28T09:30:00.123456Z",
        agent_id=AGENT,
        server="shop",
        tool="cancel_order",
        asked=InputAsked(
            message="Why is it cancelled?",
            requested_schema={"type": "object", "properties": {"reason": {"type": "string"}}},
            name="cancel_order",
            input={"order_id": "ORD-1001"},
            key="reason",
            request_state="b3JkZXI6MTAwMQ==",
        ),
    ),
    events.ClientToolRequested(
        trace_id=TRACE,
        at=AT,
        approval_id=APPROVAL,
        call_id=CALL,
        round=1,
        input_sha256="6f0a4ab3e5b7e6b5a8f3a1a6c1c5a5d9d8f34f0f2f7b3a0c9f3a9f2c0a8b7c61",
        expires_at="2026-11-28T09:30:00.123456Z",
        agent_id=AGENT,
        server="",
        tool="show_map",
        on_new_message="supersede",
    ),
    events.ApprovalDecided(
        trace_id=TRACE,
        at=AT,
        approval_id=APPROVAL,
        decision="approved",
        by=Decider(kind="account", id=KEY),
        on_behalf_of="support@shop.example",
        input={"order_id": "ORD-1001", "reason": "asked by phone"},
        reason="the customer called",
    ),
    events.ToolReturned(
        trace_id=TRACE, at=AT, round=1, call_id=CALL, output='{"status":"shipped"}', is_error=False, ms=41
    ),
    events.MessageReceived(
        trace_id=TRACE,
        at=AT,
        message=events.MessageSaved(
            trace_id="5af7651916cd43dd8448eb211c80319c",
            at=AT,
            message_id="01931a00-0000-7000-8000-000000000003",
            role="user",
            agent_id=AGENT,
            content="Only the one of today.",
        ),
    ),
    events.RunCompleted(trace_id=TRACE, at=AT, usage=_USAGE, rounds=1),
    events.RunFailed(trace_id=TRACE, at=AT, code="provider_timeout", message="The provider did not answer."),
    events.RunCancelled(trace_id=TRACE, at=AT),
    events.ConversationDescribed(
        trace_id=TRACE, at=AT, title="The parcel of ORD-1001", metadata={"customer": "C-77"}
    ),
    events.FeedbackGiven(
        trace_id=TRACE,
        at=AT,
        message_id=REPLY,
        score=-1.0,
        by=Decider(kind="account", id=KEY),
        on_behalf_of="ada@shop.example",
        label="wrong",
        comment="It has not left the warehouse.",
    ),
    events.FeedbackWithdrawn(
        trace_id=TRACE,
        at=AT,
        message_id=REPLY,
        by=Decider(kind="account", id=KEY),
        on_behalf_of="ada@shop.example",
    ),
    events.ConversationErased(trace_id=TRACE, at=AT, account_id=ACCOUNT),
)

FEED_EXAMPLES: tuple[messages.EventTooLarge | messages.DeadLettered, ...] = (
    messages.EventTooLarge(
        event="model_replied.v1",
        trace_id=TRACE,
        at=AT,
        position=4711,
        conversation_id=CONVERSATION,
        bytes=9_437_184,
    ),
    messages.DeadLettered(
        stream="REQUESTS", subject=f"chat.requests.{ACCOUNT}", reason="not valid JSON", payload="{"
    ),
)
