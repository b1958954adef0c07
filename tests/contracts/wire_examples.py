"""One example of every internal message and frame; `contracts.examples` has those of the public feed."""

from agentchat.contracts import authorizations, frames, messages, replay_messages, tool_messages
from agentchat.contracts.examples import (
    ACCOUNT,
    AGENT,
    APPROVAL,
    AT,
    CALL,
    CONVERSATION,
    FEED_EXAMPLES,
    FILE,
    KEY,
    MESSAGE,
    REPLY,
    SOURCE,
    TRACE,
    USER_MESSAGE,
)
from agentchat.contracts.message_base import BusMessage
from agentchat.contracts.values import ClientToolResult, Decider, RunWarning, ToolSpec, Usage

WARNING = RunWarning(
    code="tool_server_unavailable", subject="crm", message="The tool server crm cannot be reached."
)
_USAGE = Usage(input_tokens=412, output_tokens=57)

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
        attachments=(FILE,),
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
    ),
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
    authorizations.AuthorizeServer(account_id=ACCOUNT, agent_id=AGENT, server="shop"),
    authorizations.AuthorizationLinked(url="https://auth.example/authorize?state=s"),
    authorizations.FinishAuthorization(
        state="s",
        code="c",
        issuer="https://auth.example",
        callback=authorizations.derive_callback("https://auth.example"),
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
    messages.ReturnToolResults(
        trace_id=TRACE,
        account_id=ACCOUNT,
        conversation_id=CONVERSATION,
        results=(ClientToolResult(id=CALL, output='{"clicked":true}'),),
        by=Decider(kind="account", id=KEY),
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
    ),
    replay_messages.WhatIfAnswered(
        outcome="diverged",
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
        usage=_USAGE,
        ms=812,
    ),
    *FEED_EXAMPLES,
)

FRAME_EXAMPLES: tuple[frames.Frame, ...] = (
    frames.Queued(seq=0, attempt=0),
    frames.Accepted(seq=1, attempt=1, conversation_id=CONVERSATION),
    frames.Refused(seq=0, attempt=0, code="conversation_busy", message="Another message is being answered."),
    frames.Steered(seq=0, attempt=1, running_trace_id=TRACE),
    frames.Resumed(
        seq=1,
        attempt=2,
        conversation_id=CONVERSATION,
        offset=3,
        sha256="8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
    ),
    frames.SourcesFound(seq=2, attempt=1, sources=(SOURCE,)),
    frames.WarningFrame(seq=3, attempt=1, warning=WARNING),
    frames.DeltaFrame(seq=3, attempt=1, round=1, text="It ", offset=0),
    frames.ReasoningFrame(seq=3, attempt=1, round=1, text="The user asks ", offset=0),
    frames.ToolCalledFrame(
        seq=4, attempt=1, call_id=CALL, name="get_order", input={"order_id": "ORD-1001"}, round=1
    ),
    frames.ToolProgressFrame(seq=0, attempt=0, call_id=CALL, progress=1.0, total=3.0, message="Looking."),
    frames.ToolReturnedFrame(seq=5, attempt=1, call_id=CALL, is_error=False),
    frames.Paused(seq=6, attempt=1),
    frames.Alive(seq=6, attempt=1),
    frames.Completed(seq=7, attempt=1, message=MESSAGE, tool_calls=1, usage=_USAGE),
    frames.Failed(seq=7, attempt=1, code="provider_timeout", message="The provider did not answer."),
)
