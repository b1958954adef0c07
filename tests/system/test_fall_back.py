"""An agent whose model fails answers with another one, as its administrator and its callers see it."""

import asyncio
from itertools import groupby

import httpx
import pytest

from tests.gateway.admin import AdminClient
from tests.system.calling import Caller, MakeAgent, text_of

# The provider is overloaded in mid-sentence, and again when the reply is continued.
BREAKS = "demo-echo?fail=529&fail_after=2&delay_ms=50&deltas=4&say=abcdefgh"
WORKS = "demo-echo?deltas=4&say=abcdefgh"
KEY = "canary-key-of-the-fall-back"


@pytest.fixture
async def failing_agent(admin_api: AdminClient, make_agent: MakeAgent) -> Caller:
    """An agent that an administrator has given a fall-back of another provider."""
    caller = await make_agent(BREAKS)
    fallback = {"provider": "openai", "model": WORKS, "provider_key": KEY}
    changed = await admin_api.patch(f"/agents/{caller.agent_id}", {"fallbacks": [fallback]})
    (shown,) = changed["fallbacks"]
    assert (shown["model"], shown["provider_key"]) == (WORKS, {"set": True, "last4": "back"})
    checked = await admin_api.post(f"/agents/{caller.agent_id}/check", status=200)
    assert [each["code"] for each in checked["fallbacks"]] == ["ok"]
    itself = {"fallbacks": [{"provider": "anthropic", "model": BREAKS}]}
    path, code = f"/agents/{caller.agent_id}", "invalid_request"
    assert await admin_api.refused("PATCH", path, itself, status=400, code=code) == ["fallbacks[0]"]
    return caller


async def test_a_reply_is_completed_by_the_fall_back_and_says_so(
    admin_api: AdminClient, failing_agent: Caller, http: httpx.AsyncClient
) -> None:
    answer = (await failing_agent.chat("Hello")).json()
    assert (answer["message"]["content"], answer["model"]) == ("abcdefgh", WORKS)
    streamed = await failing_agent.stream("Hello", form="full")
    kinds = [kind for kind, _ in groupby(each["type"] for each in streamed)]
    assert kinds == ["start", "delta", "warning", "delta", "done"]
    assert text_of(streamed) == "abcdefgh"
    (warning,), done = [each for each in streamed if each["type"] == "warning"], streamed[-1]
    assert (warning["code"], warning["subject"], done["model"]) == ("model_changed", WORKS, WORKS)
    assert KEY not in str(streamed)
    headers = {"Authorization": f"Bearer {failing_agent.headers['X-Api-Key']}"}
    body = {"model": failing_agent.agent_id, "messages": [{"role": "user", "content": "Hello"}]}
    completion = (
        await http.post(f"{failing_agent.base_url}/openai/v1/chat/completions", json=body, headers=headers)
    ).json()
    assert completion["choices"][0]["message"]["content"] == "abcdefgh"
    assert completion["model"] == failing_agent.agent_id, "clients know the agent by this name"

    account = (await admin_api.get(f"/agents/{failing_agent.agent_id}"))["account_id"]
    models: list[str] = []
    async with asyncio.timeout(40):
        while not models:  # the sums follow the runs
            lines = (await admin_api.get(f"/accounts/{account}/usage"))["lines"]
            models = [line["model"] for line in lines if line["agent_id"] == failing_agent.agent_id]
            await asyncio.sleep(0.2)
    assert models == [WORKS]
