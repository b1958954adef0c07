"""What the API lists, and what it finds by a name."""

import openai
import pytest
from openai import AsyncAzureOpenAI

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import TalkTo


async def test_models_are_the_accounts_agents_by_name_or_id(
    talk_to: TalkTo, caller: Caller, echo: Caller
) -> None:
    shop = talk_to(caller)
    listed = [model async for model in shop.client.models.list()]
    agent_id = caller.headers["X-Agent-Id"]
    found = await shop.client.models.retrieve(agent_id)
    assert found.id in {model.id for model in listed}
    assert (await shop.client.models.retrieve(found.id)).created == found.created
    with pytest.raises(openai.NotFoundError) as missing:
        await shop.client.models.retrieve(echo.headers["X-Agent-Id"])
    assert missing.value.code == "model_not_found"
    named = await shop.client.chat.completions.create(
        model=found.id, messages=[{"role": "user", "content": "hello"}]
    )
    assert named.model == found.id


async def test_an_agent_is_listed_by_what_finds_it(talk_to: TalkTo, make_agent: MakeAgent) -> None:
    first, _of_the_same_name = [await make_agent("demo-echo") for _ in range(2)]
    names = ("Sales/EMEA", "..", first.headers["X-Agent-Id"], "Café 100% #1?")
    made = [await make_agent("demo-echo", name=name) for name in names]
    talk = talk_to(first)
    listed = {model.id for model in (await talk.client.models.list()).data}
    *by_id, by_name = (each.headers["X-Agent-Id"] for each in made)
    assert listed >= {*by_id, "Café 100% #1?", first.headers["X-Agent-Id"]}
    assert not listed & {"Sales/EMEA", ".."}
    for model in sorted(listed):
        assert (await talk.client.models.retrieve(model)).id == model
        assert model != by_name
    said = await talk.client.chat.completions.create(
        model="Sales/EMEA", messages=[{"role": "user", "content": "hi"}]
    )
    assert said.model == "Sales/EMEA"


@pytest.mark.parametrize("has_deployment", [False, True])
async def test_azures_client_talks_to_an_agent(echo: Caller, has_deployment: bool) -> None:
    agent = echo.headers["X-Agent-Id"]
    async with AsyncAzureOpenAI(
        azure_endpoint=echo.base_url,
        azure_deployment=agent if has_deployment else None,
        api_version="2025-04-01-preview",
        api_key=echo.headers["X-Api-Key"],
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False, timeout=50),
    ) as client:
        done = await client.chat.completions.create(
            model="gpt-5" if has_deployment else agent,  # the deployment counts
            messages=[{"role": "user", "content": "moin"}],
        )
        assert "moin" in (done.choices[0].message.content or "")
        assert done.model == agent
        response = await client.responses.create(model=agent, input="servus")
        assert "servus" in response.output_text
        assert (await client.responses.retrieve(response.id)).output == response.output
        assert [model async for model in client.models.list()]
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.models.retrieve("none")
        assert unknown.value.code == "model_not_found"
