"""Both clients against the complete system."""

import json
from typing import Any

import httpx
import msgspec
import pytest

from agentchat.client import (
    Conversation,
    Delta,
    Feedback,
    FeedbackSummary,
    HistoryMessage,
    MessageDone,
    Start,
    ToolCall,
)
from tests.client.conftest import Connect
from tests.client.driving import Driver
from tests.harness import RunningStack

ORDER = "Where is my order ORD-1001?"


@pytest.fixture
def client(stack: RunningStack, connect: Connect) -> Driver:
    """The Pro account with the demo agent."""
    found = stack.environment
    return connect(api_key=found.api_key, base_url=found.base_url, agent_id=found.agent_id)


def test_a_whole_reply_comes_with_the_tools_that_ran(client: Driver) -> None:
    reply = client.chat(ORDER)
    assert "ORD-1001" in reply.text
    assert reply.message.conversation_id == reply.conversation_id
    assert reply.message.token_count > 0
    assert reply.trace_id is not None
    assert reply.tool_calls
    assert all(json.loads(call.output) is not None for call in reply.tool_calls)


def test_form_2_streams_the_saved_reply_and_its_tools(client: Driver) -> None:
    result = client.read(ORDER, form=2)
    assert result.failure is None
    first, *middle, last = result.events
    assert isinstance(first, Start)
    assert isinstance(last, MessageDone)
    assert {type(event) for event in middle} == {Delta, ToolCall}
    assert last.message.content == result.stream.text
    called = [(event.name, event.input) for event in middle if isinstance(event, ToolCall)]
    assert [(call.name, call.input) for call in result.stream.tool_calls] == called
    assert result.stream.trace_id is not None


def test_the_models_of_lists_have_the_fields_that_the_service_sends(
    client: Driver, stack: RunningStack
) -> None:
    reply = client.chat("Hello")
    thread = reply.conversation_id
    client.give_feedback(reply.message.id, -1, comment="Too short.")
    headers = {"X-Api-Key": stack.environment.api_key}
    with httpx.Client(base_url=stack.environment.base_url, headers=headers) as http:
        conversation: dict[str, Any] = http.get(f"/v1/conversations/{thread}").json()
        user, assistant = http.get(f"/v1/conversations/{thread}/messages").json()["data"]
    assert set(conversation) == list_fields(Conversation)
    optional = {"interrupted", "sources", "tool_calls"}  # where a run failed, searched, or called tools
    assert set(assistant) == list_fields(HistoryMessage) - optional - {"attachments"}
    assert set(user) == list_fields(HistoryMessage) - optional - {"token_count", "feedback", "attachments"}
    assert set(assistant["feedback"]) == list_fields(FeedbackSummary)
    assert set(assistant["feedback"]["newest"]) == list_fields(Feedback)
    assert client.feedback(reply.message.id)[0].comment == "Too short."


def list_fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}
