"""What people do on each page, in a Chromium on the whole system: `make browser`.

Each page is looked at in both colour schemes, at the width of a telephone and of a large screen, by axe-core.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agentchat.ops import demo
from agentchat.ops.settings import ProcessCounts
from tests.console.chromium import WatchedPage, explain_missing_browser, open_chromium
from tests.harness import RunningStack, running_stack
from tests.system.calling import Caller, MakeAgent, pro
from tests.system.test_approvals import chat_to_pause, until_listed

pytestmark = [
    pytest.mark.skipif(explain_missing_browser() is not None, reason=str(explain_missing_browser())),
    pytest.mark.timeout(300),
]

_ORDER = "Where is my order ORD-1027? It is late."
_HOSTILE = (
    '<script>document.title = "taken"</script><img src=x onerror="document.title=\'taken\'"> '
    "[press](javascript:document.title='taken') ![](http://elsewhere.example/pixel.png) \u202etxt.exe\u2066 "
)


@pytest.fixture(scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningStack]:
    """One of its own: its accounts, agents and plans are changed."""
    prices = tmp_path_factory.mktemp("prices") / "prices.json"
    prices.write_text('{"currency": "$", "models": {"demo-echo": {"input": 1000000, "output": 1000000}}}')
    environ = {"AGENTCHAT_WEBHOOK_ALLOW": "127.0.0.1:*", "AGENTCHAT_PRICES": str(prices)}
    async with running_stack(ProcessCounts(), environ) as running:
        yield running


@pytest.fixture(scope="module")
async def conversation(stack: RunningStack, http: httpx.AsyncClient) -> str:
    """The id of one with two runs that called tools."""
    caller = pro(stack, http)
    made = (await caller.chat(_ORDER)).json()["conversation_id"]
    await caller.chat("And ORD-1006?", conversation_id=made)
    return str(made)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Any]:
    async with open_chromium() as browser:
        yield browser


@pytest.fixture
async def tab(browser: Any, stack: RunningStack) -> AsyncIterator[WatchedPage]:
    """A page that must have done nothing wrong by the end of the test."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    seen = WatchedPage(await context.new_page(), stack.environment.console_url)
    yield seen
    await context.close()
    assert seen.problems == []


async def test_now_shows_runs_as_they_stream(tab: WatchedPage, make_agent: MakeAgent) -> None:
    slow = await make_agent("demo-load?deltas=300&delay_ms=100")
    page = tab.page
    await tab.open("/now")
    await page.locator("[data-live]", has_text="live").wait_for()
    await tab.judge()
    async with slow.open_stream("What is your return policy?") as running:
        row = page.locator("tr.run").first
        await row.wait_for()
        assert not await page.locator(".new-rows button").is_visible(), "the run is in sight"
        await tab.judge()
        await page.keyboard.press(" ")
        await page.locator("[data-live]", has_text="paused").wait_for()
        await page.keyboard.press(" ")
        await page.locator("[data-live]", has_text="live").wait_for()
        await row.locator("a").click()
        await page.locator("#tail").wait_for()
        await tab.judge()
        await slow.cancel(running.headers["x-trace-id"])
    await page.locator(".turn").get_by_text("cancelled").wait_for()


async def test_now_counts_runs_out_of_sight_and_their_cost(tab: WatchedPage, make_agent: MakeAgent) -> None:
    slow, priced = await make_agent("demo-load?deltas=300&delay_ms=100"), await make_agent("demo-echo")
    page = tab.page
    await tab.open("/now")
    await page.locator("[data-live]", has_text="live").wait_for()
    await page.set_viewport_size({"width": 360, "height": 160})
    async with slow.open_stream("One") as one:
        await page.locator("tr.run").first.wait_for()
        await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        async with slow.open_stream("Two") as two:
            button = page.get_by_role("button", name="1 new")
            await button.click()
            await button.wait_for(state="hidden")
            await slow.cancel(two.headers["x-trace-id"])
        await slow.cancel(one.headers["x-trace-id"])
    await priced.chat("Hello")
    await page.get_by_text("Cost today").wait_for()


async def test_badge_is_live_however_late_the_scripts_load(tab: WatchedPage) -> None:
    async def load_late(route: Any) -> None:
        await asyncio.sleep(1.0)  # longer than the stream takes to open
        await route.continue_()

    await tab.page.route("**/static/**/live.js", load_late)
    await tab.open("/now")
    await tab.page.locator("[data-live]", has_text="live").wait_for()


async def test_conversation_is_found_by_its_words(tab: WatchedPage, conversation: str) -> None:
    page = tab.page
    await tab.open("/conversations")
    await page.keyboard.press("/")
    await page.keyboard.type("order late", delay=20)
    found = page.locator(f"#found a.title[href*='{conversation}']")
    await page.locator("mark").first.wait_for()
    await page.wait_for_url(re.compile("q=order"))
    await tab.judge()
    await found.click()
    await page.get_by_role("heading", name=_ORDER).first.wait_for()


async def test_conversation_is_shown_at_an_earlier_event(tab: WatchedPage, conversation: str) -> None:
    page = tab.page
    await tab.open(f"/conversations/{conversation}")
    await tab.judge()
    await page.keyboard.press("ArrowLeft")
    await page.get_by_role("heading", name="run 1 of 2").wait_for()
    await page.locator("table.timeline .step a", has_text="model 1").click()
    await page.locator("#detail").get_by_text("System prompt").wait_for()
    await tab.judge()
    await page.get_by_role("slider").focus()
    await page.keyboard.press("Home")
    await page.get_by_text("event 1 of").wait_for()
    await page.wait_for_url(re.compile("at=1"))
    await tab.open(f"/conversations/{conversation}")
    await page.get_by_role("link", name="raw events").click()
    await page.get_by_text("as stored").first.wait_for()
    await tab.judge()


async def test_past_runs_are_repeated_with_another_prompt(tab: WatchedPage, conversation: str) -> None:
    page = tab.page
    await tab.open("/what-if")
    await tab.judge()
    await page.get_by_label("Agent").select_option(demo.AGENT_ID)
    await page.get_by_label("Ids of conversations").fill(conversation)
    await page.get_by_label("System prompt").fill("You are brief.")
    await page.locator("#estimate").get_by_text("2 runs").wait_for()
    await tab.judge()
    await page.get_by_role("button", name="Start").click()
    await page.get_by_text("2 of 2 runs").wait_for()
    await page.locator("#runs a", has_text="late").click()
    await page.get_by_role("heading", name="Reply").wait_for()
    await tab.judge()


async def test_an_agent_is_tried_in_the_playground(tab: WatchedPage) -> None:
    page = tab.page
    await tab.open("/playground")
    await tab.judge()
    await page.get_by_label("Agent").select_option(demo.AGENT_ID)
    await page.get_by_label("Message", exact=True).fill(_ORDER)
    await page.reload()
    assert await page.get_by_label("Message", exact=True).input_value() == _ORDER
    await page.get_by_label("Message", exact=True).press("Enter")
    await page.get_by_role("link", name="fork from here").wait_for()
    await page.locator("details.tool summary").first.click()
    await tab.judge()
    await page.get_by_role("link", name="ask again").click()
    await page.get_by_text("Your next message starts a fork").wait_for()


@pytest.mark.parametrize("decision", ["Approve", "Deny"])
async def test_an_approval_is_decided_where_it_is_listed(
    tab: WatchedPage, make_agent: MakeAgent, decision: str
) -> None:
    shop = await make_agent("demo-shop-1?delay_ms=1", shop=True, asks=True)
    await chat_to_pause(shop, 1005)
    await until_listed(lambda: shop.send("GET", "/v1/approvals", params={"status": "pending"}))
    page = tab.page
    await tab.open("/approvals")
    async with asyncio.timeout(30):  # it is looked up every two seconds
        while not await page.locator("#approvals-count[data-count='1']").count():
            await page.reload()
    assert (await page.title()).startswith("(1) ")
    card = page.locator("article.approval")
    await tab.judge()
    await card.get_by_text("Show context, edit").click()
    await card.locator("input[name=reason]").fill("As the customer wrote.")
    await tab.judge()
    await card.get_by_role("button", name=decision).click()
    await tab.judge()
    await card.get_by_role("button", name="Back").click()
    await card.get_by_text("Its server says").wait_for()
    assert await card.locator("input[name=reason]").input_value() == "As the customer wrote."
    await card.get_by_role("button", name=decision).click()
    await card.get_by_role("button", name=f"{decision} the call").click()
    await card.get_by_text("console:local").wait_for()
    await tab.judge()


async def test_an_agent_is_changed_and_compared(tab: WatchedPage) -> None:
    page = tab.page
    await tab.open("/agents")
    await tab.judge()
    await page.locator(f"a[href='/agents/{demo.AGENT_ID}']").click()
    await tab.judge()
    await page.get_by_label("max tool rounds").fill("many")
    await page.get_by_role("button", name=re.compile("Save as version")).click()
    await page.locator(".problem-text", has_text="must be a number").wait_for()
    await tab.judge()
    await page.get_by_label("max tool rounds").fill("7")
    await page.get_by_role("button", name=re.compile("Save as version")).click()
    await page.get_by_role("link", name="changes").first.click()
    await page.locator("ins", has_text="7").wait_for()
    await tab.judge()
    await page.get_by_role("link", name="Back to the agent").click()
    await page.get_by_role("button", name="Check provider and tools").click()
    await page.locator("#check").get_by_text("get_order", exact=True).wait_for()
    await tab.judge()
    await page.locator(f"a[href$='/servers/{demo.SHOP_SERVER}']").click()
    await tab.judge()
    await tab.open("/agents/new")
    await tab.judge()


async def test_a_document_is_found_by_a_question(tab: WatchedPage) -> None:
    page = tab.page
    await tab.open("/knowledge")
    await tab.judge()
    await page.locator("tbody a").first.click()
    file = {
        "name": "umbrellas.md",
        "mimeType": "text/markdown",
        "buffer": b"# Umbrellas\n\nWe mend umbrellas.",
    }
    await page.get_by_label("Add a file").set_input_files(file)
    await page.get_by_role("button", name="Upload").click()
    await page.get_by_role("cell", name="umbrellas.md").wait_for()
    await page.get_by_label("Search", exact=True).fill("Do you mend an umbrella?")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_text("We mend umbrellas.").wait_for()
    await tab.judge()


async def test_account_gets_a_key_and_is_deleted(tab: WatchedPage) -> None:
    page = tab.page
    await tab.open("/accounts")
    await tab.judge()
    await page.get_by_text("New account").click()
    await page.get_by_label("name").fill("Umbrellas")
    await page.get_by_role("button", name="Create account").click()
    await page.get_by_role("heading", name="Umbrellas").wait_for()
    await page.get_by_label("New key for").fill("in a test")
    await page.get_by_role("button", name="Create key").click()
    await page.get_by_text("shown only once").wait_for()
    await tab.judge()
    await page.get_by_role("button", name="Revoke").click()
    await page.get_by_role("dialog").get_by_text("It fails at the next request").wait_for()
    await page.get_by_role("link", name="Back").click()
    await page.route("**/delete", lambda route: route.abort())
    await page.get_by_role("button", name="Delete this account").click()
    await page.get_by_text("The console does not answer. Nothing was changed.").wait_for()
    await page.unroute("**/delete")
    await page.route("**/delete", lambda route: route.fulfill(status=409, body="<p>Changed meanwhile</p>"))
    await page.get_by_role("button", name="Delete this account").click()
    await page.get_by_text("Changed meanwhile").wait_for()
    assert await page.get_by_role("dialog").count() == 0, "a telephone has no key that closes it"
    await page.unroute("**/delete")
    assert len(tab.problems) == 2, "the browser logs both"
    tab.problems.clear()
    await page.get_by_role("button", name="Delete this account").click()
    await page.get_by_label("Type Umbrellas").fill("umbrella")
    await tab.judge()
    await page.get_by_role("button", name="Delete the account").click()
    await page.get_by_text("This is not Umbrellas").first.wait_for()
    await tab.judge()
    await page.get_by_label("Type Umbrellas").fill("Umbrellas")
    await page.get_by_role("button", name="Delete the account").click()
    await page.wait_for_url(re.compile("/accounts$"))
    assert await page.get_by_text("Umbrellas").count() == 0
    await tab.open("/plans/new")
    await tab.judge()


async def test_a_delivery_of_a_webhook_is_sent_again(
    tab: WatchedPage, caller: Caller, stack: RunningStack
) -> None:
    url = f"{stack.environment.mcp_base_url}/hook"
    made = await caller.send("POST", "/v1/webhook_endpoints", json={"url": url, "events": ["run.completed"]})
    assert made.status_code == 201, made.text
    await caller.chat("What is your return policy?")
    page = tab.page
    await tab.open("/webhooks")
    await tab.judge()
    await page.locator(f"a[href='/webhooks/{made.json()['id']}']").click()
    again = page.get_by_role("button", name="Resend")
    async with asyncio.timeout(30):
        while not await again.count():
            await page.reload()
    await tab.judge()
    await again.first.click()
    await page.locator("#changes").get_by_role("cell", name="resend").wait_for()
    await tab.judge()


async def test_health_names_every_process(tab: WatchedPage, stack: RunningStack) -> None:
    stack.kill("tool-runner-1")
    await stack.wait_ready("tool-runner-1")
    await tab.open("/health")
    await tab.page.get_by_role("cell", name="was killed by SIGKILL").wait_for()
    for name in ("gateway-1", "orchestrator-1", "console-1", "postgres"):
        await tab.page.get_by_role("cell", name=name, exact=True).first.wait_for()
    await tab.judge()


async def test_the_audit_log_is_read(tab: WatchedPage) -> None:
    await tab.open("/audit")
    await tab.page.get_by_role("columnheader", name="Actor").wait_for()
    await tab.judge()


async def test_keys_move_and_are_listed(tab: WatchedPage, conversation: str) -> None:
    page = tab.page
    await tab.open("/conversations")
    await page.keyboard.press("?")
    await page.get_by_role("dialog").get_by_text("next and previous row").wait_for()
    await tab.judge()
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    assert await page.locator("#found tbody tr.chosen").count() == 1
    await page.keyboard.press("k")
    assert await page.locator("#found tbody tr:first-child.chosen").count() == 1
    await page.keyboard.press("Enter")
    await page.locator(".thread").wait_for()


async def test_texts_of_people_are_never_markup(tab: WatchedPage, caller: Caller) -> None:
    """A long text with all that browsers run or load, were it let."""
    said = (await caller.chat(_HOSTILE + "word " * 4000)).json()
    page = tab.page
    for path in ("/now", "/conversations?q=word", f"/conversations/{said['conversation_id']}"):
        await tab.open(path)
        await page.wait_for_timeout(500)
        assert not (await page.title()).startswith("taken")
        assert await page.locator("main script, main img:not([src^='/static/']), main [onerror]").count() == 0
        assert await page.locator("a[href^='javascript:']").count() == 0
        await tab.judge()
