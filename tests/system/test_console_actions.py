"""Runs are cancelled and conversations deleted in the console, over the whole system."""

from tests.console.pages import Browser, extract_text
from tests.harness import RunningStack
from tests.system.calling import MakeAgent


async def test_a_run_is_cancelled_and_its_conversation_deleted(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    caller = await make_agent("demo-load?deltas=300&delay_ms=100")
    async with (
        Browser(str(stack.environment.console_url)) as browser,
        caller.open_stream("Tell me a lot") as said,
    ):
        trace_id = said.headers["X-Trace-Id"]
        page = await browser.get(f"/traces/{trace_id}")
        path = page.url.path
        assert f'action="{path}/cancel"' in page.text
        assert f'formaction="{path}/cancel"' in (await browser.get("/now")).text
        asked = await browser.post(f"{path}/cancel", {})
        assert "Cancel this run? The reply stops where it is and is kept." in extract_text(asked.text)
        await browser.submit(asked.text)
        await said.aread()
        assert "⊘ cancelled" in await browser.open_page(path)
        again = await browser.submit(asked.text)
        assert (again.status_code, "no run of the conversation is under way" in again.text) == (409, True)
        asked = await browser.post(f"{path}/delete", {})
        assert "This deletes 1 run with all that was said" in extract_text(asked.text)
        assert (await browser.submit(asked.text)).url.path == "/conversations"
        assert (await browser.get(path)).status_code == 410
        audit = await browser.open_page(f"/audit?subject={path.rpartition('/')[2]}")
        assert "console:local cancel conversation" in audit
        assert "console:local delete conversation" in audit
