"""The page of health: processes, queues, readers of the log."""

import tempfile
from pathlib import Path

import pytest

from conversations.event_store.log import Log
from conversations.projections.read_model_jobs import DifferentRow, Progress, ReadModelResult, claim
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import Build
from runtime.postgres import Pool
from tests.console.pages import Browser, text_of
from tests.console.process import console_process
from tests.conversations.read_models import Storage, no_jobs
from tests.support.proxy import proxied

__all__ = ["no_jobs"]


async def test_the_page_shows_figures_and_every_reader_of_the_log(browser: Browser) -> None:
    shown = await browser.page("/health")
    assert "Open runs 0" in shown
    assert "Readers of the log" in shown
    assert "No process is listed" in shown


async def test_htmx_gets_the_part_that_changes(browser: Browser) -> None:
    response = await browser.get("/health", **{"hx-request": "true"})
    assert "<html" not in response.text
    assert "Open runs" in text_of(response.text)


async def test_a_database_that_is_away_is_said_on_each_page_and_the_pages_come_back(
    environ: dict[str, str], migrated_database_url: str
) -> None:
    async with proxied(migrated_database_url) as (proxy, url):
        own = environ | {"AGENTCHAT_DATABASE_URL": url}
        with tempfile.TemporaryDirectory() as folder:
            async with console_process(Path(folder), own) as process, Browser(process.url) as browser:
                await browser.page("/now")
                await proxy.set_mode("refuse")
                health = await browser.get("/health")
                assert (health.status_code, "Away postgres" in text_of(health.text)) == (200, True)
                now = await browser.get("/now?agent=another")
                assert "A part of the service does not answer" in text_of(now.text)
                assert (now.status_code, "Queue" in now.text) == (200, True), "what is known is shown"
                accounts = await browser.get("/accounts")
                assert accounts.status_code == 503
                assert "A part of the service does not answer" in text_of(accounts.text)
                assert "Trace" in text_of(accounts.text)
                await proxy.set_mode("pass")
                assert "All processes" not in await browser.page("/health")


async def test_a_read_model_that_is_built_again_shows_how_far_it_is(
    browser: Browser, storage: Storage, log: Log, pool: Pool
) -> None:
    await storage.many(3)
    await storage.follow()
    build = Build(pool, log, PROJECTIONS[:1], "rebuilding")
    await build.prepare()
    await build.advance(until=2)
    shown = await browser.page("/health")
    assert f"{PROJECTIONS[0].name} ● rebuilding" in shown
    await build.drop()
    assert "rebuilding" not in await browser.page("/health")


@pytest.mark.usefixtures("no_jobs")
async def test_a_verification_is_started_followed_and_shows_the_row_that_differs(
    browser: Browser, pool: Pool
) -> None:
    begun = text_of((await browser.post("/health/verify", {"read_model": "messages"})).text)
    assert "Verification of messages" in begun
    assert "‖ waiting requested by console:local" in begun
    assert "no projector runs; the next one takes it" in begun
    claimed = await claim(pool, "projector-7")
    assert claimed is not None
    progress = Progress(position=1200, target=10_000, events_per_second=400.0)
    assert await claimed.note(progress)
    part = text_of((await browser.get("/health/read-models")).text)
    assert "projector-7 does it Event 1,200 of 10,000, 400 a second, 22.0 s left Stop" in part
    second = await browser.post("/health/rebuild", {})
    assert second.status_code == 409
    assert (
        "Not done: one job at a time: a verify of messages, requested by console:local, is running;"
        " stop it, or wait for its end"
    ) in text_of(second.text)
    different = DifferentRow(key={"message_id": "<b>one</b>"}, column="content")
    wrong = ReadModelResult(
        name="messages", outcome="differs", position=10_000, rows=3, parked=2, difference=different
    )
    await claimed.end("completed", Progress(position=10_000, target=10_000, results=[wrong]))
    ended = await browser.get("/health")
    assert "messages: 3 rows are equal, then message_id <b>one</b> differs in content" in text_of(ended.text)
    assert "<b>one" not in ended.text
    assert "Events that could not be applied: messages 2" in text_of(ended.text)


@pytest.mark.usefixtures("no_jobs")
async def test_a_job_is_stopped_and_one_that_fails_says_why(browser: Browser, pool: Pool) -> None:
    unknown = await browser.post("/health/rebuild", {"read_model": "nothing"})
    assert unknown.status_code == 400
    assert "There is no read model 'nothing': it must be one of approvals, " in text_of(unknown.text)
    await browser.post("/health/rebuild", {"read_model": "usage"})
    waiting = await claim(pool, "projector-7")
    assert waiting is not None
    path = f"/health/jobs/{waiting.job.id}/stop"
    assert "● stopping" in text_of((await browser.post(path, {})).text)
    swapped = ReadModelResult(name="usage", outcome="swapped", position=1)
    await waiting.end("stopped", Progress(results=[swapped]))
    shown = text_of((await browser.get("/health/read-models")).text)
    assert "⊘ stopped by console:local; swapped before: usage" in shown
    again = await browser.post(path, {})
    assert (again.status_code, "the job has ended" in again.text) == (409, True)
    await browser.post("/health/rebuild", {})
    failing = await claim(pool, "projector-7")
    assert failing is not None
    await failing.end("failed", Progress(reason="No space left on device"))
    assert "✕ failed No space left on device" in text_of((await browser.get("/health")).text)
