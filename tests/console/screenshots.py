"""Take pictures of the console's pages on a stack with the demo's data and example traffic.

Without an argument they are those of docs/; with a folder, every page in each width and scheme.
"""

import asyncio
import sys
from pathlib import Path

import httpx

from agentchat.ops import demo
from agentchat.ops.settings import ProcessCounts
from tests.console.chromium import SCHEMES, WIDTHS, WatchedPage, open_chromium
from tests.console.example_traffic import ExampleTraffic
from tests.harness import running_stack, temporary_folder

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_SETTLES_MS = 2000
_WARM_SECONDS = 90.0
"""The charts of Now have some points by then."""

PAGES = {
    "now": "/now",
    "runs": "/runs",
    "conversations": "/conversations",
    "conversation": "/conversations/{conversation_id}",
    "approvals": "/approvals",
    "what-if": f"/what-if?agent={demo.AGENT_ID}",
    "playground": f"/playground?agent={demo.AGENT_ID}",
    "agents": "/agents",
    "agent": f"/agents/{demo.AGENT_ID}",
    "knowledge": "/knowledge",
    "accounts": "/accounts",
    "account": f"/accounts/{demo.ACCOUNT_ID}",
    "webhooks": "/webhooks",
    "audit": "/audit",
    "health": "/health",
}
_PRICES = """{"currency": "USD", "models": {
    "demo-shop-1?delay_ms=10": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
    "demo-shop-1": {"input": 3, "output": 15}, "demo-load": {"input": 1, "output": 5}}}
"""
_DOCUMENTED = ("now", "runs", "conversation", "approvals", "health")


async def main(folder: Path | None) -> int:
    """Take the pictures; return 1 if a page had errors."""
    with temporary_folder() as name:
        prices = name / "prices.json"
        prices.write_text(_PRICES)
        return await _take_pictures(folder, {"AGENTCHAT_PRICES": str(prices)})


async def _take_pictures(folder: Path | None, environ: dict[str, str]) -> int:
    async with running_stack(ProcessCounts(), environ) as stack, httpx.AsyncClient(timeout=3600) as http:
        traffic = ExampleTraffic(stack.environment, http)
        pages = {
            name: path.format(conversation_id=await traffic.start() if "{" in path else "")
            for name, path in PAGES.items()
        }
        await asyncio.sleep(_WARM_SECONDS)
        problems = []
        async with open_chromium() as browser:
            for name, path in pages.items():
                for scheme, width in _choose_looks(name, folder):
                    target = (folder or _FOLDER) / f"console-{name}"
                    suffix = f"-{width}-{scheme}" if folder else "-dark" if scheme == "dark" else ""
                    context = await browser.new_context(
                        viewport={"width": width, "height": 844 if width < 800 else 900}, color_scheme=scheme
                    )
                    watched = WatchedPage(await context.new_page(), stack.environment.console_url)
                    await watched.open(path)
                    await watched.page.wait_for_timeout(_SETTLES_MS)
                    await watched.page.screenshot(path=f"{target}{suffix}.png")
                    await context.close()
                    problems += watched.problems
        await traffic.stop()
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


def _choose_looks(name: str, folder: Path | None) -> list[tuple[str, int]]:
    if folder is not None:
        return [(scheme, width) for scheme in SCHEMES for width in WIDTHS]
    if name not in _DOCUMENTED:
        return []
    return [(scheme, 1440) for scheme in SCHEMES if scheme == "light" or name == "now"]


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)))
