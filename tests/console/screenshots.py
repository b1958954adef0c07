"""Pictures of the console's pages for docs/, of a stack of its own with the demo's data.

While they are taken, chats run. The page of a conversation is that of the first of them.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

import httpx

from agentchat.ops.settings import Counts
from tests.console.chromium import WatchedPage, open_chromium
from tests.harness import RunningStack, running_stack

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_WIDTH, _HEIGHT = 1280, 800
_SETTLES_MS = 3000
_WARM_SECONDS = 75.0
"""The charts of Now have some points by then."""

PATHS = {
    "now": "/now",
    "conversation": "/conversations/{conversation_id}",
    "approvals": "/approvals",
    "playground": "/playground",
    "what-if": "/what-if",
    "agents": "/agents",
    "accounts": "/accounts",
    "health": "/health",
}
_MESSAGES = (
    "Where is order ORD-1006, and what else would suit customer CUST-001?",
    "How many of PRD-124 are in stock?",
    "What is your return policy?",
    "Where is my order ORD-1027? It is late.",
)


async def main() -> int:
    """Takes the pictures; returns 1 where a page had errors."""
    async with running_stack(Counts()) as stack, httpx.AsyncClient(timeout=60) as http:
        conversation_id = await _chat(stack, http, _MESSAGES[3])
        await _chat(stack, http, "Cancel ORD-1030", waits=False)
        chatting = [asyncio.create_task(_start_chats(stack, http, number)) for number in range(6)]
        await asyncio.sleep(_WARM_SECONDS)
        pages = [
            (f"console-{name}", path.format(conversation_id=conversation_id), "light")
            for name, path in PATHS.items()
        ]
        problems = await _take_screenshot(
            stack.environment.console_url, [*pages, ("console-now-dark", "/now", "dark")]
        )
        for each in chatting:
            each.cancel()
        await asyncio.gather(*chatting, return_exceptions=True)
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


async def _take_screenshot(url: str, pages: list[tuple[str, str, str]]) -> list[str]:
    """A picture of each page, as its name, its path and a scheme; returns what was wrong with them."""
    problems: list[str] = []
    async with open_chromium() as browser:
        for name, path, scheme in pages:
            page = await browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme=scheme)
            watched = WatchedPage(page, url)
            await watched.open(path)
            await page.wait_for_timeout(_SETTLES_MS)
            await page.screenshot(path=_FOLDER / f"{name}.png")
            await page.close()
            problems += watched.problems
    return problems


async def _start_chats(stack: RunningStack, http: httpx.AsyncClient, number: int) -> None:
    while True:
        for message in (*_MESSAGES[number % 4 :], *_MESSAGES[: number % 4]):
            with contextlib.suppress(httpx.HTTPError):
                await _chat(stack, http, message, retrieval=number % 3 == 0)
            await asyncio.sleep(0.3 * number)


async def _chat(
    stack: RunningStack, http: httpx.AsyncClient, message: str, *, waits: bool = True, retrieval: bool = False
) -> str:
    """Returns the conversation's id, where it `waits` for the reply."""
    found = stack.environment
    agent = found.retrieval_agent_id if retrieval else found.agent_id
    headers = {"X-Api-Key": found.api_key, "X-Agent-Id": agent}
    sending = http.post(
        f"{found.base_url}/v1/chat/stream" if retrieval else f"{found.base_url}/v1/chat",
        headers=headers,
        json={"message": message},
        timeout=60 if waits else 3,
    )
    try:
        response = await sending
    except httpx.TimeoutException:
        return ""
    return "" if retrieval or not waits else str(response.json().get("conversation_id", ""))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
