"""The playground: talk with a version of an agent, fork, and stop."""

import asyncio
import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import httpx
import pytest

from tests.console.pages import Browser, extract_text
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent


@pytest.fixture
async def browser(stack: RunningStack) -> AsyncIterator[Browser]:
    async with Browser(stack.environment.console_url) as opened:
        yield opened


def read_fields(agent: Caller, message: str, **changed: str) -> dict[str, str]:
    return {"agent": agent.headers["X-Agent-Id"], "version": "1", "message": message} | changed


def read_address(response: httpx.Response) -> dict[str, str]:
    """What the address of a page holds."""
    return {name: values[0] for name, values in parse_qs(response.url.query.decode()).items()}


async def wait_for_end(browser: Browser, response: httpx.Response) -> str:
    """The page, once no run of it is under way."""
    async with asyncio.timeout(30):
        while "/playground/stream" in response.text:
            trace = response.text.partition("/playground/stream?trace=")[2][:32]
            stream = await browser.get(f"/playground/stream?trace={trace}")
            assert "event: end" in stream.text
            response = await browser.get(f"{response.url.path}?{response.url.query.decode()}")
    return response.text


async def test_a_version_answers_and_is_kept_in_the_address(browser: Browser, make_agent: MakeAgent) -> None:
    agent = await make_agent("demo-echo?say=Once", system_prompt="Be brief.")
    sent = await browser.post("/playground", read_fields(agent, "Hi <i>there</i>"))
    at = read_address(sent)
    assert at["version"] == "1"
    page = await wait_for_end(browser, sent)
    assert "Hi &lt;i&gt;there&lt;/i&gt;" in page
    assert re.search(r"v1 · demo-echo\?say=Once · \d+ tokens fork from here Once ", extract_text(page))
    again = read_fields(agent, "And now?", conversation=at["conversation"])
    page = await wait_for_end(browser, await browser.post("/playground", again))
    assert "And now?" in extract_text(page)


async def test_variables_are_filled_from_the_form(browser: Browser, make_agent: MakeAgent) -> None:
    agent = await make_agent("demo-echo", system_prompt="For {{name}}.", variables=("name",))
    shown = await browser.get(f"/playground?agent={agent.agent_id}")
    assert '"name": ""' in shown.text.replace("&#34;", '"')
    for context, problem in (("[]", "must be a JSON object"), ("{}", "needs values for name")):
        refused = await browser.post("/playground", read_fields(agent, "Hi", context=context))
        assert (refused.status_code, problem in refused.text) == (400, True)
    sent = await browser.post("/playground", read_fields(agent, "Hi", context='{"name": "Ada"}'))
    assert "Ada" in await wait_for_end(browser, sent), "the next message begins with this context"


async def test_tools_and_sources_are_shown(browser: Browser, make_agent: MakeAgent, policies: Caller) -> None:
    shop = await make_agent("demo-shop-1", shop=True, allowed=("track_shipment",))
    given = read_fields(shop, "Track the shipment of order ORD-1006")
    page = extract_text(await wait_for_end(browser, await browser.post("/playground", given)))
    assert "track_shipment ✓ done" in page
    assert "ORD-1006" in page
    conversation = (await policies.chat("How many days do I have to return an order?")).json()[
        "conversation_id"
    ]
    assert "source" in await browser.open_page(f"/playground?conversation={conversation}")


async def test_invalid_requests_are_explained(
    browser: Browser, make_agent: MakeAgent, starter: Caller
) -> None:
    agent = await make_agent("demo-echo", system_prompt="Be brief.")
    theirs = (await starter.chat("Hello")).json()["conversation_id"]
    gone = (await agent.chat("Hello")).json()["conversation_id"]
    assert (await agent.delete(gone)).status_code == 204
    for changed, problem in (
        ({"message": " "}, "message: is blank"),
        ({"conversation": theirs}, "no such conversation"),
    ):
        refused = await browser.post("/playground", read_fields(agent, "Keep this") | changed)
        assert refused.status_code == 400
        assert problem in extract_text(refused.text)
        assert "Be brief." in extract_text(refused.text)
    for path, status, problem in (
        (f"/playground?conversation={gone}", 409, "was deleted"),
        ("/playground?conversation=x", 404, "no such conversation"),
        (f"/playground?fork={theirs}:x", 400, "no such message"),
        ("/playground?agent=x", 404, "no such agent"),
        ("/playground/stream?trace=x", 404, "no such run"),
    ):
        response = await browser.get(path)
        assert response.status_code == status
        assert problem in extract_text(response.text)
