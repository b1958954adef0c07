"""The page of health: processes, queues, readers of the log."""

import pytest

from tests.console.pages import Browser, text_of

pytestmark = pytest.mark.requirement("CONSOLE-HEALTH")


async def test_the_page_shows_figures_and_every_reader_of_the_log(browser: Browser) -> None:
    shown = await browser.page("/health")
    assert "Open runs 0" in shown
    assert "Readers of the log" in shown
    assert "No process is listed" in shown


async def test_htmx_gets_the_part_that_changes(browser: Browser) -> None:
    response = await browser.get("/health", **{"hx-request": "true"})
    assert "<html" not in response.text
    assert "Open runs" in text_of(response.text)
