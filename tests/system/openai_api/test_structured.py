"""Structured output, as the openai package asks for it: by a pydantic model, a schema, or as any object."""

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import ORDER, Talk, TalkTo

OWN = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}


class Where(BaseModel):
    """What is asked for."""

    answer: str
    items: list[str]
    is_late: bool


OBJECT: dict[str, Any] = {"type": "json_object"}


@pytest.fixture(params=["anthropic", "openai"])
async def shop(make_agent: MakeAgent, request: pytest.FixtureRequest) -> Caller:
    return await make_agent("demo-shop-1", shop=True, provider=request.param)


def by_schema(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, **more}}


async def complete(talk: Talk, response_format: Any, **more: Any) -> Any:
    asked: Any = {"model": talk.model, "messages": [{"role": "user", "content": ORDER}], **more}
    return await talk.client.chat.completions.create(**asked, response_format=response_format)


async def test_a_completion_is_parsed(talk_to: TalkTo, shop: Caller) -> None:
    talk = talk_to(shop)
    raw = await talk.client.chat.completions.with_raw_response.parse(
        model=talk.model, messages=[{"role": "user", "content": ORDER}], response_format=Where
    )
    message = raw.parse().choices[0].message
    assert message.parsed is not None
    assert "ORD-1001" in message.parsed.answer
    *_, saved = await talk.read_saved_texts(raw.headers["x-conversation-id"])
    assert Where.model_validate_json(saved) == message.parsed


async def test_a_response_is_parsed_and_goes_on_in_text(talk_to: TalkTo, shop: Caller) -> None:
    talk = talk_to(shop)
    first = await talk.client.responses.parse(model=talk.model, input=ORDER, text_format=Where)
    assert first.output_parsed is not None
    assert "ORD-1001" in first.output_parsed.answer
    second = await talk.client.responses.create(
        model=talk.model, input="Thanks!", previous_response_id=first.id
    )
    with pytest.raises(json.JSONDecodeError):
        json.loads(second.output_text)
    third: Any = {"model": talk.model, "input": ORDER, "text": {"format": OBJECT}}
    assert isinstance(json.loads((await talk.client.responses.create(**third)).output_text), dict)


async def test_an_agents_own_schema_needs_no_leave(talk_to: TalkTo, make_agent: MakeAgent) -> None:
    caller = await make_agent(
        "demo-shop-1", output_type="json", output_schema=OWN, allow_request_schema=False
    )
    talk = talk_to(caller)
    for wanted in (by_schema(OWN), OBJECT):
        done = await complete(talk, wanted)
        assert json.loads(done.choices[0].message.content).keys() == {"note"}
    with pytest.raises(openai.BadRequestError) as refused:
        await complete(talk, by_schema({"type": "object"}))
    assert refused.value.param == "response_format.json_schema.schema"
    assert "allow_request_schema" in refused.value.message


async def test_a_reply_that_does_not_fit_is_no_reply(talk_to: TalkTo, make_agent: MakeAgent) -> None:
    talk = talk_to(await make_agent('demo-echo?say={"a":"b"}'))
    wanted = by_schema({"type": "object", "properties": {"a": {"type": "integer"}}}, strict=False)
    with pytest.raises(openai.InternalServerError) as broken:
        await complete(talk, wanted)
    assert broken.value.code == "output_invalid"
    assert broken.value.response.headers["x-should-retry"] == "false"
    done = await complete(
        talk, by_schema({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})
    )
    assert done.choices[0].message.content == '{"a":"b"}'
