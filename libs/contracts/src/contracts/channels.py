"""The channels of the bus as data (docs/change/design.md 5): subjects, streams, senders and headers.

The AsyncAPI document is made of this. A test compares the streams with those that are provisioned.
"""

import msgspec

from contracts import authorizations, events, frames, messages, replay_messages, subjects, tool_messages
from contracts.timings import EVENTS_KEPT_DAYS, TRACES_KEPT_SECONDS

_DAY = 24 * 60 * 60


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """Where a channel's messages are kept; `max_age` in seconds, None: until they are settled."""

    name: str
    retention: str = "limits"
    storage: str = "file"
    max_age: int | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """A header of NATS; `pattern` is a regular expression."""

    description: str
    pattern: str
    example: str


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of subject. `sent_by` and `received_by` name services.

    With `replies` it is request and reply, without a stream. `inner` channels may change with any version.
    """

    name: str
    address: str
    summary: str
    sent_by: str
    received_by: str
    carries: tuple[type[msgspec.Struct], ...]
    replies: tuple[type[msgspec.Struct], ...] = ()
    stream: Stream | None = None
    headers: tuple[str, ...] = ("traceparent",)
    inner: bool = True


HEADERS: dict[str, Header] = {
    "traceparent": Header(
        description="W3C Trace Context of the span that published the message, where there was one.",
        pattern="^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
        example="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ),
    "Nats-Msg-Id": Header(
        description="By this the server removes duplicates published within two minutes.",
        pattern="^.+$",
        example="4711",
    ),
    subjects.CONVERSATION_HEADER: Header(
        description="The conversation that the event belongs to.",
        pattern="^[0-9a-f-]{36}$",
        example="0192f0c1-7c4e-7aaa-8bbb-0000000000c1",
    ),
    subjects.POSITION_HEADER: Header(
        description="The event's place in the log, which grows and is never used twice: by it consumers know "
        "what they have had. Positions have gaps.",
        pattern="^[1-9][0-9]*$",
        example="4711",
    ),
}

PARAMETERS: dict[str, str] = {
    "account_id": "The account.",
    "trace_id": "The request and its run: 32 hexadecimal characters.",
    "call_id": "The provider's id of a tool call, or a digest of it where that is no token of a subject.",
    "event_name": "The event's name without its version.",
    "stream": "The stream that the message came from.",
}

_REQUESTS = Stream(name=subjects.REQUESTS, retention="workqueue")
_TOOLS = Stream(name=subjects.TOOLS, retention="workqueue")
_TRACES = Stream(name=subjects.TRACES, storage="memory", max_age=TRACES_KEPT_SECONDS)
_RESULTS = Stream(name=subjects.RESULTS, max_age=TRACES_KEPT_SECONDS)
_CANCELS = Stream(name=subjects.CANCELS, max_age=TRACES_KEPT_SECONDS)
_EVENTS = Stream(name=subjects.EVENTS, max_age=EVENTS_KEPT_DAYS * _DAY)
_DEAD = Stream(name=subjects.DEAD, max_age=30 * _DAY)
_IDENTIFIED = ("Nats-Msg-Id", "traceparent")

CHANNELS: tuple[Channel, ...] = (
    Channel(
        name="events",
        address="chat.events.{account_id}.{event_name}",
        summary="Every stored event, once, in the order of the log: for analytics and other consumers.",
        sent_by="projector",
        received_by="consumers",
        carries=(*events.EVENTS, messages.EventTooLarge),
        stream=_EVENTS,
        headers=(subjects.CONVERSATION_HEADER, subjects.POSITION_HEADER, "Nats-Msg-Id", "traceparent"),
        inner=False,
    ),
    Channel(
        name="dead",
        address="chat.dead.{stream}",
        summary="Messages that failed past their last delivery, with the reason: for operators.",
        sent_by="orchestrator",
        received_by="operators",
        carries=(messages.DeadLettered,),
        stream=_DEAD,
        headers=_IDENTIFIED,
        inner=False,
    ),
    Channel(
        name="traces",
        address="chat.traces.{trace_id}",
        summary="The live frames of a run; published without waiting for the stream's acknowledgement.",
        sent_by="orchestrator",
        received_by="gateway",
        carries=frames.FRAMES,
        stream=_TRACES,
    ),
    Channel(
        name="requests",
        address="chat.requests.{account_id}",
        summary="Messages of callers, to be answered.",
        sent_by="gateway, orchestrator, projector",
        received_by="orchestrator",
        carries=(messages.ChatRequested,),
        stream=_REQUESTS,
        headers=_IDENTIFIED,
    ),
    Channel(
        name="cancellations",
        address="chat.control.cancel.{trace_id}",
        summary="Runs to be cancelled.",
        sent_by="gateway, orchestrator",
        received_by="orchestrator",
        carries=(messages.CancelRequested,),
        stream=_CANCELS,
        headers=_IDENTIFIED,
    ),
    Channel(
        name="toolRequests",
        address="chat.tools.requests.{trace_id}",
        summary="Tools to be run.",
        sent_by="orchestrator",
        received_by="tool-runner",
        carries=(tool_messages.ToolRequested,),
        stream=_TOOLS,
        headers=_IDENTIFIED,
    ),
    Channel(
        name="toolResults",
        address="chat.tools.results.{trace_id}.{call_id}",
        summary="What tools returned.",
        sent_by="tool-runner",
        received_by="orchestrator",
        carries=(tool_messages.ToolFinished,),
        stream=_RESULTS,
        headers=_IDENTIFIED,
    ),
    Channel(
        name="toolProgress",
        address="chat.tools.results.{trace_id}.{call_id}:progress",
        summary="Which tool calls make progress, at most once a second each, of servers that report it.",
        sent_by="tool-runner",
        received_by="orchestrator",
        carries=(tool_messages.ToolProgressed,),
        stream=_RESULTS,
        headers=_IDENTIFIED,
    ),
    Channel(
        name="commands",
        address="chat.commands.{account_id}",
        summary="What else writes to an account's conversations.",
        sent_by="gateway, agentchat",
        received_by="orchestrator",
        carries=(
            messages.EraseConversation,
            messages.DescribeConversation,
            messages.DecideApproval,
            messages.ForkConversation,
            messages.GiveFeedback,
        ),
        replies=(
            messages.EraseAnswered,
            messages.DescribeAnswered,
            messages.ApprovalAnswered,
            messages.ForkAnswered,
            messages.FeedbackAnswered,
        ),
    ),
    Channel(
        name="toolLists",
        address=subjects.TOOLS_LIST,
        summary="The tools of an agent.",
        sent_by="orchestrator, agentchat",
        received_by="tool-runner",
        carries=(tool_messages.ListTools,),
        replies=(tool_messages.ToolsListed,),
    ),
    Channel(
        name="toolChecks",
        address=subjects.TOOLS_CHECK,
        summary="Whether an agent's tool servers work.",
        sent_by="gateway, agentchat",
        received_by="tool-runner",
        carries=(tool_messages.CheckTools,),
        replies=(tool_messages.ToolsChecked,),
    ),
    Channel(
        name="toolCalls",
        address=subjects.TOOLS_CALL,
        summary="Tools that a person calls by hand.",
        sent_by="gateway, console, agentchat",
        received_by="orchestrator",
        carries=(tool_messages.CallTool,),
        replies=(tool_messages.ToolCallAnswered,),
    ),
    Channel(
        name="toolAuthorizations",
        address=subjects.TOOLS_AUTHORIZE,
        summary="Links that authorise an agent at a tool server.",
        sent_by="gateway, agentchat",
        received_by="tool-runner",
        carries=(authorizations.AuthorizeServer,),
        replies=(authorizations.AuthorizationLinked,),
    ),
    Channel(
        name="toolAuthorizationAnswers",
        address=subjects.TOOLS_AUTHORIZED,
        summary="What authorization servers answer to such links.",
        sent_by="gateway",
        received_by="tool-runner",
        carries=(authorizations.FinishAuthorization,),
        replies=(authorizations.AuthorizationFinished,),
    ),
    Channel(
        name="modelChecks",
        address=subjects.MODELS_CHECK,
        summary="Whether an agent's model provider works.",
        sent_by="gateway, agentchat",
        received_by="orchestrator",
        carries=(messages.CheckModel,),
        replies=(messages.ModelChecked,),
    ),
    Channel(
        name="whatIf",
        address=subjects.WHAT_IF,
        summary="Recorded runs, to be run again with another agent version.",
        sent_by="agentchat",
        received_by="orchestrator",
        carries=(replay_messages.WhatIf,),
        replies=(replay_messages.WhatIfAnswered,),
    ),
)
