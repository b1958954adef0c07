"""The client stands alone, so its models are written twice: here they are held against the contracts."""

import msgspec
import pytest

from agentchat.client import errors, models, stream_events
from agentchat.client.responses import build_error
from agentchat.contracts import approval_bodies, http, run_results, values, webhooks
from agentchat.conversations.queries.conversation_filters import ConversationRow

SAME: list[tuple[type[msgspec.Struct], type[msgspec.Struct]]] = [
    (models.Source, values.Source),
    (models.Message, values.Message),
    (models.ToolRun, values.FinishedCall),
    (models.TokenCounts, run_results.RunTokens),
    (models.Approval, values.ApprovalNeeded),
    (models.Elicitation, values.Elicitation),
    (models.Conversation, ConversationRow),
    (models.ApprovalRequest, approval_bodies.ApprovalRecord),
    (models.ApprovalTool, approval_bodies.CalledTool),
    (models.Decision, approval_bodies.DecisionMade),
    (models.WebhookDelivery, webhooks.Delivery),
    (models.WebhookAttempt, webhooks.Attempt),
    (errors.FieldError, http.FieldError),
    (stream_events.Meta, http.MetaEvent),
    (stream_events.Sources, http.SourcesEvent),
    (stream_events.Reasoning, http.ReasoningEvent),
    (stream_events.Delta, http.DeltaEvent),
    (stream_events.Done, http.DoneEvent),
    (stream_events.Start, http.StartEvent),
    (stream_events.ToolCall, http.ToolCallEvent),
    (stream_events.MessageDone, http.MessageDoneEvent),
    (stream_events.Failure, http.ErrorEvent),
    (stream_events.ToolProgress, http.ToolProgressEvent),
    (stream_events.ToolResult, http.ToolResultEvent),
    (stream_events.ClientToolCall, http.ClientToolCallEvent),
    (stream_events.Warned, http.WarningEvent),
    (stream_events.ApprovalRequired, http.ApprovalRequiredEvent),
    (stream_events.ClientToolsRequired, http.ClientToolsRequiredEvent),
]
MESSAGE = values.Message(id="m", conversation_id="c", content="Grüße", token_count=3, created_at="now")
USAGE = run_results.RunTokens(input=1, cache_read=0, cache_write=2, output=3, total=6)
TOOL = values.FinishedCall(name="get_order", input={"order_id": "ORD-1"}, output="{}", id="c", is_error=False)
ASKED = values.Elicitation(message="Why?", requested_schema={"type": "object"})
NEEDED = values.ApprovalNeeded(
    id="a", tool="cancel", input={"order_id": "ORD-1"}, expires_at="later", elicitation=ASKED
)
SOURCE = values.Source(index=1, id="s", title="t", url="u", source_type="web", score=0.5, snippet="w")


def list_needed(kind: type[msgspec.Struct]) -> list[tuple[str, bool]]:
    """List the fields in order, and whether they may be left out."""
    return [(field.encode_name, field.required) for field in msgspec.structs.fields(kind)]


@pytest.mark.parametrize(("ours", "theirs"), SAME, ids=[ours.__name__ for ours, _ in SAME])
def test_a_model_has_the_fields_of_its_contract(
    ours: type[msgspec.Struct], theirs: type[msgspec.Struct]
) -> None:
    assert list_needed(ours) == list_needed(theirs)
    assert ours.__struct_config__.tag == theirs.__struct_config__.tag
    assert ours.__struct_config__.tag_field == theirs.__struct_config__.tag_field


def test_a_reply_has_the_contracts_fields_and_the_trace_of_its_header() -> None:
    assert list_needed(models.Reply) == [*list_needed(run_results.ChatReply), ("trace_id", False)]


def test_every_stream_event_of_the_contracts_has_its_model() -> None:
    assert {theirs for _, theirs in SAME} >= set(http.SseEvent.__subclasses__())


@pytest.mark.parametrize(
    "event",
    [
        http.MetaEvent(conversation_id="c", trace_id="t"),
        http.SourcesEvent(sources=(SOURCE,)),
        http.DeltaEvent(content="Grüße\u2028"),
        http.DoneEvent(conversation_id="c", trace_id="t"),
        http.StartEvent(conversation_id="c"),
        http.ToolCallEvent(name="get_order", input={"order_id": "ORD-1"}, id="c"),
        http.MessageDoneEvent(message=MESSAGE, tool_calls=(TOOL,), sources=(SOURCE,)),
        http.MessageDoneEvent(
            message=MESSAGE, tool_calls=(TOOL,), sources=(SOURCE,), usage=USAGE, cut="length"
        ),
        http.ToolResultEvent(id="c", output="{}", is_error=True),
        http.ClientToolCallEvent(id="c", name="show_map", input={}),
        http.WarningEvent(code="tool_server_unavailable", subject="crm", message="It is away."),
        http.ApprovalRequiredEvent(
            conversation_id="c", message="A person has to.", approvals=(NEEDED,), usage=USAGE
        ),
        http.ErrorEvent(code="approval_required", message="A person has to.", approvals=(NEEDED,)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_contract_events_read_as_models_without_loss(event: http.SseEvent) -> None:
    sent = msgspec.json.encode(event)
    read = stream_events.decode(sent)
    ours = next(ours for ours, theirs in SAME if theirs is type(event))
    assert type(read) is ours
    assert msgspec.json.decode(msgspec.json.encode(read)) == msgspec.json.decode(sent)


def test_a_problem_of_the_contracts_reads_whole() -> None:
    sent = http.Problem(
        type="about:blank",
        title="Invalid request",
        status=400,
        detail="Correct it.",
        code="invalid_request",
        trace_id="t",
        errors=(http.FieldError(field="message", message="is needed"),),
    )
    error = build_error(400, {}, msgspec.json.encode(sent))
    assert error.code == "invalid_request"
    assert error.detail == "Correct it."
    assert error.trace_id == "t"
    assert error.errors == (errors.FieldError(field="message", message="is needed"),)
