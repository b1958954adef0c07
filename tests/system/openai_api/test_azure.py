"""Azure's addresses, as the openai package's `AzureOpenAI` calls them: an agent is a deployment."""

import openai
import pytest
from openai import AsyncAzureOpenAI

from tests.system.calling import Caller

pytestmark = pytest.mark.requirement("OPENAI-API")


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
