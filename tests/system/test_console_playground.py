"""The playground: talk with a version of an agent, fork, and stop."""

import asyncio
import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import httpx
import pytest

from tests.console.pages import Browser, extract_text
from tests.gateway.admin import AdminClient
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


async def list_readers(stack: RunningStack, caller: Caller, conversation_id: str) -> list[str]:
    """Who has read its texts in the console, by the audit log."""
    admin = AdminClient(caller.http, stack.environment.gateway_urls[0], stack.environment.admin_token)
    rows = (await admin.get("/audit", kind="conversation", subject=conversation_id))["data"]
    return [row["actor"] for row in rows if row["action"] == "read"]


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


async def test_a_customers_conversation_is_forked_at_a_message(
    stack: RunningStack, browser: Browser, make_agent: MakeAgent
) -> None:
    agent = await make_agent("demo-echo", system_prompt="Be brief.")
    theirs = (await agent.chat("First")).json()["conversation_id"]
    await agent.chat("Second", conversation_id=theirs)
    first, reply, second, _ = await agent.messages(theirs)
    shown = extract_text((await browser.get(f"/playground?conversation={theirs}")).text)
    assert "Choose a message to fork it from" in shown
    assert await list_readers(stack, agent, theirs) == ["console:local"]
    page = (await browser.get(f"/playground?fork={theirs}:{second['id']}")).text
    assert "starts a fork of" in extract_text(page)
    assert page.count("Second") == 1  # in the box for the message alone
    page = (await browser.get(f"/playground?fork={theirs}:{first['id']}")).text
    assert page.count("First") == 1
    assert "Second" not in page
    sent = await browser.post("/playground", read_fields(agent, "Third", fork=f"{theirs}:{reply['id']}"))
    mine = read_address(sent)["conversation"]
    assert mine != theirs
    page = await wait_for_end(browser, sent)
    assert "First" in page
    assert "Second" not in page
    assert [each["content"] for each in await agent.messages(mine)][0::2] == ["First", "Third"]


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


async def test_texts_of_people_and_models_are_never_markup(browser: Browser, make_agent: MakeAgent) -> None:
    hostile = (
        "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \u202e"
        + "long" * 2_000
    )
    agent = await make_agent(
        "demo-echo", system_prompt="</textarea><script>alert(4)</script>", name="<b>Bold</b>"
    )
    conversation = (await agent.chat(hostile)).json()["conversation_id"]
    of = f"agent={agent.headers['X-Agent-Id']}"
    form = {"agent": agent.headers["X-Agent-Id"], "version": "1", "runs": conversation, "model": "demo-echo"}
    form |= {"system_prompt": "<i>", "do": "start"}
    begun = await browser.post("/what-if", form)
    await browser.get(f"{begun.url.path}/stream")
    paths = (
        f"/playground?{of}",
        f"/playground?conversation={conversation}",
        f"/what-if?{of}",
        begun.url.path,
    )
    for path in (*paths, "/what-if", "/playground"):
        page = (await browser.get(path)).text
        inline = re.findall(
            r"<script(?![^>]* src=)|<style|\sstyle=|<img src=x|<b>Bold|<i>|href=\"javascript", page
        )
        assert inline == [], path
        assert "alert" not in page or "&lt;script&gt;alert" in page


async def test_a_run_is_stopped(browser: Browser, make_agent: MakeAgent) -> None:
    agent = await make_agent("demo-load?deltas=500&delay_ms=100", system_prompt="Be brief.")
    given = read_fields(agent, "Go on and on")
    sent = await browser.post("/playground", given)
    assert "/playground/stream" in sent.text
    stopped = await browser.post("/playground/stop", read_address(sent))
    assert "⊘ cancelled" in extract_text(await wait_for_end(browser, stopped))


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
