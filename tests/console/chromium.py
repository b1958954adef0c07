"""A Chromium on the console, by playwright, which `make browser` has on its path."""

import contextlib
import importlib.util
import os
import shutil
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
SCHEMES = ("light", "dark")
WIDTHS = (390, 1440, 1920)
_HEIGHT = 800
_PATIENCE_MS = 60_000
_SCROLLS_SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def explain_missing_browser() -> str | None:
    """Why no page can be opened here."""
    if CHROMIUM is None:
        return "there is no Chromium: apt-get install --no-install-recommends chromium"
    return None if importlib.util.find_spec("playwright") else "playwright is not on the path: make browser"


@contextlib.asynccontextmanager
async def open_chromium() -> AsyncIterator[Any]:
    """A browser of playwright's, which makes pages, while the block runs."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


class WatchedPage:
    """A page of playwright's, of the console at `origin`, and what is wrong with it.

    `problems` are errors that it logs, requests to other hosts, what axe-core finds, and scrolling sideways.
    """

    def __init__(self, page: Any, origin: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self._origin = origin
        page.set_default_timeout(_PATIENCE_MS)
        page.on("console", lambda said: self._note(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self._note(f"error: {error}"))
        page.on("request", self._check_request)

    async def open(self, path: str) -> None:
        await self.page.goto(f"{self._origin}{path}", wait_until="load")

    async def judge(self) -> None:
        """Look at it in each scheme and width as it is now; it ends as it began."""
        from axe_playwright_python.async_playwright import Axe

        await self.page.wait_for_load_state("load")
        size = self.page.viewport_size
        for scheme in SCHEMES:
            for width in WIDTHS:
                await self.page.emulate_media(color_scheme=scheme)
                await self.page.set_viewport_size({"width": width, "height": _HEIGHT})
                look = f"{urlsplit(self.page.url).path} {scheme} {width}"
                if await self.page.evaluate(_SCROLLS_SIDEWAYS):
                    self.problems.append(f"{look}: scrolls to the side")
                for found in (await Axe().run(self.page)).response["violations"]:
                    for node in found["nodes"]:
                        self.problems.append(f"{look}: {found['id']}: {node['html'][:200]} {node['any'][:1]}")
        await self.page.set_viewport_size(size)

    def _note(self, problem: str) -> None:
        self.problems.append(f"{urlsplit(self.page.url).path}: {problem}")

    def _check_request(self, request: Any) -> None:
        if not request.url.startswith((self._origin, "data:", "blob:")):
            self._note(f"asks for {request.url}")
