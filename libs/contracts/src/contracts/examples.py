"""One example of every event, message and frame: for golden tests, for the docs, and for consumers' tests."""

from contracts import authorizations, events, frames, messages, replay_messages, tool_messages
from contracts.bus_message import BusMessage
from contracts.values import Decider, Message, RunSpent, ShownMessage, Source, ToolCall, ToolSpec, Usage

ACCOUNT = "0192f0c1-0000-7000-8000-0000000000a1"
AGENT = "0192f0c1-0000-7000-8000-0000000000b1"
CONVERSATION = "0192f0c1-7c4e-7aaa-8bbb-0000000000c1"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
USER_MESSAGE = "0192f0c1-7c4e-7aaa-8bbb-0000000000d1"
REPLY = "0192f0c1-7d11-7aaa-8bbb-0000000000d2"
AT = "2026-11-21T09:30:00.123456Z"
ENDPOINT = "0192f0c1-0000-7000-8000-0000000000f9"
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
_SPENT = RunSpent(
    trace_id=TRACE,
    agent_id=AGENT,
    model="demo-shop-1",
    state="completed",
    ended_at=AT,
    rounds=1,
    usage=_USAGE,
)
MESSAGE = Message(
    id=REPLY, conversation_id=CONVERSATION, content="It has shipped.", token_count=469, created_at=AT
)
TOOL_CALL = ToolCall(name="get_order", input={"order_id": "ORD-1001"}, output='{"status":"shipped"}')

EVENT_EXAMPLES: tuple[events.Event, ...] = (
    events.ConversationStarted(trace_id=TRACE, at=AT, account_id=ACCOUNT),
    events.ConversationForked(
        trace_id=TRACE, at=AT, source_id="0192f0c1-7c4e-7aaa-8bbb-0000000000c0", source_version=6
    ),
    events.ConversationSeeded(
        trace_id=TRACE,
        at=AT,
        messages=(ShownMessage("user", "Hello"), ShownMessage("assistant", "Hello! How can I help?")),
    ),
    events.MessageSaved(
        trace_id=TRACE, at=AT, message_id=USER_MESSAGE, role="user", agent_id=AGENT, content="Where is it?"
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
        prompt_sha256="d9ed06c2fb09eab6d64c92d5f2e8cc4fa5d3a8ba3ab3e9c1e1c5cf9d1d3c1f05",
        tools_sha256="4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
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
        asked=events.InputAsked(
            message="Why is it cancelled?",
            requested_schema={"type": "object", "properties": {"reason": {"type": "string"}}},
            name="cancel_order",
            input={"order_id": "ORD-1001"},
            key="reason",
            request_state="b3JkZXI6MTAwMQ==",
        ),
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
    events.ConversationErased(trace_id=TRACE, at=AT, account_id=ACCOUNT, spent=(_SPENT,)),
)

MESSAGE_EXAMPLES: tuple[BusMessage, ...] = (
    messages.ChatRequested(
        trace_id=TRACE,
        attempt=1,
        account_id=ACCOUNT,
        agent_id=AGENT,
        conversation_id=CONVERSATION,
        new_conversation=True,
        message_id=USER_MESSAGE,
        message="Where is it?",
        form="form1",
        requested_at=AT,
        deadline="2026-11-21T09:30:15.123456Z",
    ),
    tool_messages.ToolRequested(
        trace_id=TRACE,
        call_id=CALL,
        account_id=ACCOUNT,
        agent_id=AGENT,
        agent_version=3,
        server="shop",
        tool="get_order",
        input={"order_id": "ORD-1001"},
        deadline="2026-11-21T09:30:36.123456Z",
        ends_by="2026-11-21T09:35:01.123456Z",
    ),
    tool_messages.ToolProgressed(trace_id=TRACE, call_id=CALL, deadline="2026-11-21T09:30:47.123456Z"),
    tool_messages.ToolFinished(
        trace_id=TRACE, call_id=CALL, output='{"status":"shipped"}', is_error=False, ms=41
    ),
    tool_messages.ListTools(account_id=ACCOUNT, agent_id=AGENT, agent_version=3),
    tool_messages.ToolsListed(
        tools=(
            ToolSpec(
                name="get_order",
                server="shop",
                tool="get_order",
                description="Find an order by its id.",
                input_schema={"type": "object", "properties": {"order_id": {"type": "string"}}},
                read_only=True,
                idempotent=True,
            ),
        ),
        unavailable=(tool_messages.UnavailableServer(server="crm", reason="connection refused"),),
    ),
    tool_messages.CheckTools(account_id=ACCOUNT, agent_id=AGENT, agent_version=3),
    tool_messages.ToolsChecked(
        servers=(
            tool_messages.ServerCheck(
                name="shop",
                ok=False,
                tools=21,
                allowed=1,
                missing=("get_ordr",),
                detail="Named in allowed_tools or require_approval, and no tool here: get_ordr.",
                ms=48,
            ),
        )
    ),
    tool_messages.CallTool(
        trace_id=TRACE,
        account_id=ACCOUNT,
        agent_id=AGENT,
        agent_version=3,
        server="shop",
        tool="get_order",
        input={"order_id": "ORD-1001"},
    ),
    tool_messages.ToolCallAnswered(outcome="called", output='{"status":"shipped"}', ms=41),
    authorizations.AuthorizeServer(account_id=ACCOUNT, agent_id=AGENT, server="shop"),
    authorizations.AuthorizationLinked(url="https://auth.example/authorize?state=s"),
    authorizations.FinishAuthorization(
        state="s",
        code="c",
        issuer="https://auth.example",
        callback=authorizations.callback_of("https://auth.example"),
    ),
    authorizations.AuthorizationFinished(ok=True),
    messages.CheckModel(account_id=ACCOUNT, agent_id=AGENT, agent_version=3),
    messages.ModelChecked(provider=messages.ProviderCheck(ok=True, code="ok", ms=412)),
    messages.CancelRequested(trace_id=TRACE, account_id=ACCOUNT),
    messages.EraseConversation(trace_id=TRACE, account_id=ACCOUNT, conversation_id=CONVERSATION),
    messages.EraseAnswered(outcome="erased"),
    messages.DescribeConversation(
        trace_id=TRACE,
        account_id=ACCOUNT,
        conversation_id=CONVERSATION,
        title="The parcel of ORD-1001",
        metadata={"customer": "C-77", "draft": None},
    ),
    messages.DescribeAnswered(outcome="described", version=12),
    messages.DecideApproval(
        trace_id=TRACE,
        account_id=ACCOUNT,
        conversation_id=CONVERSATION,
        approval_id=APPROVAL,
        decision="denied",
        by=Decider(kind="account", id=KEY),
        reason="It has left the warehouse.",
    ),
    messages.ApprovalAnswered(code="approval_decided"),
    messages.GiveFeedback(
        trace_id=TRACE,
        account_id=ACCOUNT,
        conversation_id=CONVERSATION,
        message_id=REPLY,
        by=Decider(kind="account", id=KEY),
        on_behalf_of="ada@shop.example",
        score=-1.0,
        label="wrong",
        comment="It has not left the warehouse.",
    ),
    messages.FeedbackAnswered(outcome="recorded", version=13),
    messages.ForkConversation(
        trace_id=TRACE,
        account_id=ACCOUNT,
        conversation_id=CONVERSATION,
        source_id="0192f0c1-7c4e-7aaa-8bbb-0000000000c0",
        at=REPLY,
    ),
    messages.ForkAnswered(outcome="forked", version=8),
    replay_messages.WhatIf(
        account_id=ACCOUNT,
        agent_id=AGENT,
        agent_version=4,
        conversation_id=CONVERSATION,
        trace_id=TRACE,
        model="demo-shop-1",
        system_prompt="You are the shop's assistant. Be brief.",
        record=(),
        passages={"0192f0c1-7c4e-7aaa-8bbb-0000000000e1": "Parcels take two days."},
        offered=(),
        agent={"name": "Shop", "model": "demo-shop-1"},
        unrecorded="live",
        harmless=("get_order",),
    ),
    replay_messages.WhatIfAnswered(
        outcome="completed",
        model="demo-shop-1",
        content="It has shipped.",
        rounds=2,
        calls=(
            replay_messages.AskedTool(round=1, name="get_order", input={"order_id": "ORD-1001"}),
            replay_messages.AskedTool(round=1, name="track", input={"order_id": "ORD-1001"}, missed=True),
        ),
        diverged=replay_messages.Divergence(
            call=replay_messages.AskedTool(
                round=1, name="track", input={"order_id": "ORD-1001"}, missed=True
            ),
            nearest=replay_messages.AskedTool(round=2, name="track", input={"order_id": "ORD-1002"}),
        ),
        unrecorded="live",
        usage=_USAGE,
        ms=812,
    ),
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

FRAME_EXAMPLES: tuple[frames.Frame, ...] = (
    frames.Queued(seq=0, attempt=0),
    frames.Accepted(seq=1, attempt=1, conversation_id=CONVERSATION),
    frames.Refused(seq=0, attempt=0, code="conversation_busy", message="Another message is being answered."),
    frames.Resumed(
        seq=1,
        attempt=2,
        conversation_id=CONVERSATION,
        offset=3,
        sha256="8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
    ),
    frames.SourcesFound(seq=2, attempt=1, sources=(SOURCE,)),
    frames.Delta(seq=3, attempt=1, round=1, text="It ", offset=0),
    frames.ToolCalled(
        seq=4, attempt=1, call_id=CALL, name="get_order", input={"order_id": "ORD-1001"}, round=1
    ),
    frames.ToolReturned(seq=5, attempt=1, call_id=CALL, is_error=False),
    frames.Paused(seq=6, attempt=1),
    frames.Alive(seq=6, attempt=1),
    frames.Completed(seq=7, attempt=1, message=MESSAGE, tool_calls=1, usage=_USAGE),
    frames.Failed(seq=7, attempt=1, code="provider_timeout", message="The provider did not answer."),
)
