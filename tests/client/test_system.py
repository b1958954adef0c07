"""Both clients against the complete system."""

import json
from typing import Any

import httpx
import msgspec
import pytest

from agentchat.administration.admin_versions import create_agent
from agentchat.client import (
    ChatError,
    Conflict,
    Conversation,
    Delta,
    Done,
    Feedback,
    FeedbackSummary,
    HistoryMessage,
    MessageDone,
    Meta,
    NotFound,
    Start,
    ToolCall,
)
from agentchat.directory.agent_draft import AgentDraft
from agentchat.directory.secrets import Sealer
from agentchat.ops import demo, folder_secrets
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.client.conftest import Connect
from tests.client.driving import Driver
from tests.harness import RunningStack

ORDER = "Where is my order ORD-1001?"


@pytest.fixture
def client(stack: RunningStack, connect: Connect) -> Driver:
    """The Pro account with the demo agent."""
    found = stack.environment
    return connect(api_key=found.api_key, base_url=found.base_url, agent_id=found.agent_id)


@pytest.fixture
async def slow_agent(stack: RunningStack) -> str:
    """An agent of the account without limits whose replies take ten seconds."""
    sealer = Sealer.from_setting(folder_secrets.load_or_create_secrets(stack.folder.secrets).secret_key)
    draft = AgentDraft(name="slow", model="demo-load?delay_ms=50", provider_key="offline")
    async with (
        open_pool(stack.environment.database_url, role=None) as pool,
        acquire_connection(pool, seconds=10) as conn,
    ):
        return await create_agent(conn, sealer, demo.LOAD_ACCOUNT_ID, draft, actor="tests")


def test_a_whole_reply_comes_with_the_tools_that_ran(client: Driver) -> None:
    reply = client.chat(ORDER)
    assert "ORD-1001" in reply.text
    assert reply.message.conversation_id == reply.conversation_id
    assert reply.message.token_count > 0
    assert reply.trace_id is not None
    assert reply.tool_calls
    assert all(json.loads(call.output) is not None for call in reply.tool_calls)


def test_form_1_streams_the_saved_reply(client: Driver) -> None:
    result = client.read(ORDER, form=1)
    assert result.failure is None
    first, *middle, last = result.events
    assert isinstance(first, Meta)
    assert isinstance(last, Done)
    assert {type(event) for event in middle} == {Delta}
    thread = result.stream.conversation_id
    assert thread == first.conversation_id == last.conversation_id
    assert result.stream.trace_id == first.trace_id == last.trace_id
    saved = client.messages(first.conversation_id)[-1]
    assert saved.content == result.stream.text
    assert saved.trace_id == first.trace_id


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


def test_a_thread_goes_on_and_is_read_back(client: Driver) -> None:
    first = client.chat("Hello, my name is Ada.")
    result = client.read("What is my name?", conversation_id=first.conversation_id, form=2)
    assert "Ada" in result.stream.text
    assert result.stream.conversation_id == first.conversation_id
    messages = client.messages(first.conversation_id)
    assert [message.role for message in messages] == ["user", "assistant"] * 2
    assert messages[1].content == first.text
    assert messages[1].token_count == first.message.token_count
    assert messages[0].token_count is None
    thread = client.conversation(first.conversation_id)
    assert thread.conversation_id == first.conversation_id
    assert thread.message_count == 4


def test_a_stream_is_cancelled_and_ends(stack: RunningStack, slow_agent: str, connect: Connect) -> None:
    found = stack.environment
    client = connect(api_key=found.load_api_key, base_url=found.base_url, agent_id=slow_agent)
    result = client.read("Count.", cancel=True)
    assert isinstance(result.failure, ChatError)
    assert result.failure.code == "cancelled"
    assert result.stream.trace_id is not None
    with pytest.raises(Conflict, match="run_ended"):
        client.cancel(result.stream.trace_id)
    with pytest.raises(NotFound):
        client.cancel("0" * 31 + "1")


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
    assert set(assistant) == list_fields(HistoryMessage)
    assert set(user) == list_fields(HistoryMessage) - {"token_count", "feedback"}
    assert set(assistant["feedback"]) == list_fields(FeedbackSummary)
    assert set(assistant["feedback"]["newest"]) == list_fields(Feedback)
    assert client.feedback(reply.message.id)[0].comment == "Too short."


def list_fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}
