"""The page of health: processes, queues, readers of the log."""

import asyncio
import re

import pytest

from tests.console.embedded import run_console
from tests.console.pages import Browser, extract_text
from tests.support.proxy import run_proxy


async def test_the_page_shows_figures_and_every_reader_of_the_log(browser: Browser) -> None:
    shown = await browser.open_page("/health")
    assert re.search(r"Open runs \d", shown), "other tests of this database leave runs open"
    assert "Readers of the log" in shown
    assert "No processes listed" in shown


async def test_htmx_gets_the_part_that_changes(browser: Browser) -> None:
    response = await browser.get("/health", **{"hx-request": "true"})
    assert "<html" not in response.text
    assert "Open runs" in extract_text(response.text)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ("agentchat_retention_lag_seconds 7800.0", "Retention overdue 2 h 10 m the oldest conversation"),
        ("agentchat_retention_lag_seconds 0.0", "Retention overdue 0 conversations"),
        ("agentchat_process_memory_bytes 1048576.0", None),
    ],
    ids=["overdue", "in time", "unknown"],
)
async def test_overdue_retention_is_shown_if_a_projector_says(
    environ: dict[str, str], metrics: str, expected: str | None
) -> None:
    body = f"{metrics}\nagentchat_runs_slots 3.0\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as projector:
        port = projector.sockets[0].getsockname()[1]
        targets = {"AGENTCHAT_CONSOLE_SERVICES": f"projector=http://127.0.0.1:{port}/metrics"}
        async with run_console(environ | targets) as process, Browser(process.url) as browser:
            async with asyncio.timeout(30):
                while not re.search("[0-9] of 3", await browser.open_page("/now")):
                    pass
            page = await browser.open_page("/health")
    assert ("Retention overdue" in page) == (expected is not None)
    assert expected is None or expected in page


@pytest.mark.slow
async def test_pages_recover_after_a_database_outage(
    environ: dict[str, str], migrated_database_url: str
) -> None:
    async with run_proxy(migrated_database_url) as (proxy, url):
        own = environ | {"AGENTCHAT_DATABASE_URL": url}
        async with run_console(own) as process, Browser(process.url) as browser:
            await browser.open_page("/now")
            await proxy.set_mode("refuse")
            health = await browser.get("/health")
            assert (health.status_code, "Unavailable postgres" in extract_text(health.text)) == (
                200,
                True,
            )
            now = await browser.get("/now?agent=another")
            assert "The table shows the last known state" in extract_text(now.text)
            assert (now.status_code, "Queue" in now.text) == (200, True), "what is known is shown"
            await proxy.set_mode("pass")
            assert "All processes" not in await browser.open_page("/health")
