"""Functions of the client in both APIs, as OpenAI's SDK and pydantic-ai call and answer them."""

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import TalkTo

ASK = "Where is my order ORD-1001? Then show_map of it."
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
FUNCTION = {"name": "show_map", "description": "Show a place on the user's screen", "parameters": SCHEMA}
TOOLS: Any = [{"type": "function", "function": FUNCTION}]


async def complete(talk: Any, stream: bool, messages: list[Any], **body: Any) -> dict[str, Any]:
    """The assistant's message and the reason of its end, of a document or joined from chunks."""
    asked = {"model": talk.model, "messages": messages, "tools": TOOLS, **body}
    if not stream:
        (choice,) = (await talk.client.chat.completions.create(**asked)).choices
        return {**choice.message.model_dump(exclude_none=True), "finish": choice.finish_reason}
    content, calls, finish = "", [], None
    async for chunk in await talk.client.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            content += choice.delta.content or ""
            calls += [call.model_dump(exclude={"index"}) for call in choice.delta.tool_calls or ()]
            finish = choice.finish_reason or finish
    return {"role": "assistant", "content": content, "tool_calls": calls, "finish": finish}


@pytest.mark.parametrize(("stream", "key"), [(False, None), (True, "client-tools")])
async def test_a_function_is_called_answered_and_remembered(
    talk_to: TalkTo, shop: Caller, stream: bool, key: str | None
) -> None:
    talk = talk_to(shop, key and f"{key}-{stream}")
    messages: list[Any] = [{"role": "user", "content": ASK}]
    called = await complete(talk, stream, messages)
    assert called.pop("finish") == "tool_calls"
    (call,) = called["tool_calls"]
    assert call["function"]["name"] == "show_map"
    assert "place" in json.loads(call["function"]["arguments"])
    messages += [called, {"role": "tool", "tool_call_id": call["id"], "content": "It shows Ulm."}]
    reply = await complete(talk, stream, messages)
    assert (reply["finish"], reply.get("tool_calls") or []) == ("stop", [])
    assert "Ulm" in reply["content"]
    again = await complete(talk, stream, messages)
    assert again["content"] == reply["content"], "a repeated request gets the same reply"
    messages[-1]["content"] = "It shows Paris."
    with pytest.raises(openai.ConflictError) as refused:
        await complete(talk, stream, messages)
    assert refused.value.code == "tool_result_conflict"
    messages[-1]["content"] = "It shows Ulm."
    messages += [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": "Thanks!"}]
    assert (await complete(talk, stream, messages))["finish"] == "stop"
    if key is not None:
        page = await shop.get("/v1/conversations", limit=1)
        saved = await shop.messages(page.json()["data"][0]["conversation_id"])
        assert [each["content"] for each in saved[::2]] == [ASK, "Thanks!"], "one conversation"


@pytest.mark.parametrize(("way", "stream"), [("previous", True), ("full", False)])
async def test_a_response_calls_a_function_and_its_output_resumes(
    talk_to: TalkTo, shop: Caller, way: str, stream: bool
) -> None:
    talk = talk_to(shop)
    asked: dict[str, Any] = {"model": talk.model, "tools": [{"type": "function", **FUNCTION}]}

    async def respond(**body: Any) -> Any:
        if not stream:
            return await talk.client.responses.create(**asked, **body)
        async with talk.client.responses.stream(**asked, **body) as events:
            return await events.get_final_response()

    called = await respond(input=ASK)
    (call,) = [item for item in called.output if item.type == "function_call"]
    assert (call.name, list(json.loads(call.arguments))) == ("show_map", ["place"])
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "It shows Ulm."}
    if way == "previous":
        given: dict[str, Any] = {"input": [output], "previous_response_id": called.id}
    else:
        shown = [item.model_dump(exclude_none=True) for item in called.output]
        given = {"input": [{"role": "user", "content": ASK}, *shown, output]}
    reply = await respond(**given)
    assert "Ulm" in reply.output_text
    assert [item.type for item in reply.output] == ["message"]
    again = await talk.client.responses.retrieve(called.id)
    assert (again.id, again.status) == (called.id, "completed")
    assert [item.id for item in again.output] == [item.id for item in called.output]
    assert again.output[-1].to_dict()["arguments"] == call.arguments
    assert again.usage == called.usage
    told = [event.type async for event in await talk.client.responses.retrieve(called.id, stream=True)]
    assert (told[0], told[-1]) == ("response.created", "response.completed")
    assert told.count("response.function_call_arguments.done") == 1
    assert (await talk.client.responses.retrieve(reply.id)).output_text == reply.output_text
    thanked = await respond(input="Thanks!", previous_response_id=reply.id)
    assert thanked.conversation.id == called.conversation.id


async def test_required_forces_a_call_of_one_of_several(talk_to: TalkTo, make_agent: MakeAgent) -> None:
    talk = talk_to(await make_agent("demo-shop-1"))
    other = {"type": "function", "function": FUNCTION | {"name": "close_map"}}
    hello = [{"role": "user", "content": "Hello"}]
    called = await complete(talk, False, hello, tools=[*TOOLS, other], tool_choice="required")
    assert called["finish"] == "tool_calls"


async def test_pydantic_ai_runs_its_function_tools(talk_to: TalkTo, shop: Caller) -> None:
    # Imported at a module's top, Pydantic AI would cost every process of the tests a second.
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class Place(BaseModel):
        place: str

    talk = talk_to(shop)
    provider = OpenAIProvider(openai_client=talk.client)
    model = OpenAIChatModel(talk.model, provider=provider)
    shown: list[str] = []

    def show_map(place: str) -> str:
        shown.append(place)
        return "It shows Ulm."

    result = await Agent(model, tools=[show_map]).run(ASK)
    assert len(shown) == 1
    assert "Ulm" in result.output
    for each in (model, OpenAIResponsesModel(talk.model, provider=provider)):
        structured = await Agent(each, output_type=Place).run("Hello")
        assert isinstance(structured.output, Place), "one forced function stays a structured reply"
