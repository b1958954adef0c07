"""The page of one conversation: thread, timeline, the log's past, what was sent and what came."""

import asyncio
import hashlib
import re

import pytest

from agentchat.bus.bus import Bus
from agentchat.contracts import frames
from agentchat.contracts.ids import make_id
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.files.file_store import FileStore
from tests.console.pages import Browser, extract_text
from tests.conversations import recorded
from tests.conversations.given import (
    build_answer,
    build_delta,
    build_feedback,
    build_model_replied,
    build_run_started,
    build_tool_called,
    build_tool_returned,
    build_user_message,
    trace,
    turn,
    use,
)
from tests.conversations.read_models import Storage
from tests.files.images import make_png
from tests.support.file_folder import OBJECTS


@pytest.fixture(scope="module")
async def approvals(migrated_database_url: str) -> str:
    """The id of a recorded conversation with two runs: a call that was allowed, and one that was denied."""
    async with open_store(migrated_database_url) as store:
        return (await recorded.ensure_stored(store, "approvals")).conversation_id


async def test_page_shows_thread_and_timeline(browser: Browser, approvals: str) -> None:
    shown = await browser.open_page(f"/conversations/{approvals}")
    assert "run 2 of 2 " in shown
    assert "Cancel ORD-1030" in shown
    for step in ("model 1 requests tools", "cancel_order ✕ failed denied by", "resumed", "model 2"):
        assert step in shown
    html = (await browser.get(f"/conversations/{approvals}")).text
    assert html.count('<rect class="bar') == 5
    assert re.search(r'data-copy="agentchat eval add SUITE [0-9a-f]{32}"', html)
    (previous,) = re.findall(r'rel="prev" href="([^"]+)"', html)
    assert "run 1 of 2 " in await browser.open_page(previous)


async def test_images_are_thumbnails_and_other_files_names(browser: Browser, storage: Storage) -> None:
    files, account = FileStore(storage.pool, OBJECTS), "account-1"
    image = await files.put(account, None, "parcel.png", make_png())
    page = await files.put(account, None, "<i>page.html", b"<script>")
    message = build_user_message("files", attachments=(image, page))
    thread = (await storage.add(message, build_run_started("files"))).conversation_id
    html = (await browser.get(f"/conversations/{thread}")).text
    (source,) = re.findall(r'<img src="(/conversations/[^"]+)"', html)
    assert "&lt;i&gt;page.html" in html
    sent = await browser.get(source)
    assert (sent.content, sent.headers["content-type"]) == (make_png(), "image/png")
    assert (await browser.get(source.replace(image.file_id, page.file_id))).status_code == 404


async def test_a_call_that_waits_for_the_client_says_so(browser: Browser, migrated_database_url: str) -> None:
    async with open_store(migrated_database_url) as store:
        recording = (await recorded.ensure_stored(store, "client_tool")).conversation_id
    path = f"/conversations/{recording}"
    waits = await browser.open_page(f"{path}?at=7")
    assert "show_map ‖ waits for the client" in waits
    assert "waiting for approval" not in waits
    assert "decide on" not in waits
    assert "show_map" in await browser.open_page(path)


async def test_slider_shows_an_earlier_state(browser: Browser, approvals: str) -> None:
    past = await browser.open_page(f"/conversations/{approvals}?at=7")
    assert "event 7 of 27 · ApprovalRequested" in past or "event 7 of" in past
    assert "cancel_order ‖ waiting for approval" in past
    assert "run 1 of 1" in past
    assert "completed" not in past
    assert "eval add" not in past, "a run that has not ended is no case"
    part = await browser.get(f"/conversations/{approvals}?at=2", **{"hx-request": "true"})
    assert "<html" not in part.text
    assert "No run had started" in extract_text((await browser.get(f"/conversations/{approvals}?at=1")).text)
    assert "event 1 of" in await browser.open_page(f"/conversations/{approvals}?at=0")


async def test_bar_shows_what_was_sent_and_received(browser: Browser, storage: Storage) -> None:
    call, said = use("one", order="ORD-1"), [{"type": "text", "text": "At sea."}]
    stored = await storage.add(
        build_user_message("a", "Where is ORD-1?"),
        build_run_started("a"),
        *build_tool_called([call]),
        build_tool_returned("one", '{"at":"sea"}'),
        build_delta("At sea.", number=2)[0],
        build_model_replied([{"type": "thinking", "thinking": "It left."}, *said], "a", 2, "end_turn"),
    )
    here = f"/conversations/{stored.conversation_id}?run={trace('a')}"
    html = (await browser.get(here)).text
    bars = re.findall(r"bar=([a-z]+-[0-9]+)#detail", html)
    assert list(dict.fromkeys(bars)) == ["model-4", "tool-6", "model-8"], "by its name and its bar"
    tool = await browser.open_page(f"{here}&bar=tool-6")
    assert 'Sent Input written by the model { "order": "ORD-1" }' in tool
    assert 'Received Output 4 ms {"at":"sea"}' in tool
    assert hashlib.sha256(b'{"at":"sea"}').hexdigest()[-8:] in tool
    model = await browser.open_page(f"{here}&bar=model-8")
    assert '"tool_result"' in model
    assert "Received Reply" in model
    folded = (await browser.get(f"{here}&bar=model-8")).text
    assert re.search(r'<details class="piece">\s*<summary><b>Received</b> Reasoning', folded)
    assert '"text": "At sea."' in model
    assert "is no bar" not in await browser.open_page(f"{here}&bar=model-99")


async def test_events_are_shown_byte_for_byte(browser: Browser, storage: Storage) -> None:
    stored = await storage.add(*turn("a", "Hello", "Hi"))
    path = f"/conversations/{stored.conversation_id}/events"
    assert (await browser.open_page(path)).count("as stored") == 7
    policy = (await browser.get(f"{path}/2")).headers["content-security-policy"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in policy, "browsers style the JSON that they show"
    (entry,) = await storage.log.read_rows(stored.conversation_id, 1, 2)
    response = await browser.get(f"{path}/2")
    assert response.content == entry.state
    assert response.headers["content-type"] == "application/json"
    assert (await browser.get(f"{path}/99")).status_code == 404


async def test_unknown_conversations_and_traces_are_explained(browser: Browser, storage: Storage) -> None:
    stored = await storage.add(*turn("e", "Hello", "Hi"))
    await storage.erase(stored)
    for path, status, words in [
        (f"/conversations/{stored.conversation_id}", 410, "Erased This conversation was erased at 2026-"),
        (f"/conversations/{make_id()}", 404, "There is no conversation"),
        ("/conversations/nonsense", 404, "Search for words"),
        (f"/traces/{'9' * 32}", 404, "No run has the trace id"),
        ("/traces/x", 404, "No run has the trace id"),
    ]:
        response = await browser.get(path)
        assert (response.status_code, words in extract_text(response.text)) == (status, True), path


async def test_feedback_is_shown_with_its_reply_and_found(browser: Browser, storage: Storage) -> None:
    given = build_feedback(-1, "ada", "f", label="wrong", comment="<b>No</b>")
    stored = await storage.add(*turn("f", "Where is it?", "At sea."), given)
    await storage.follow()
    here = f"/conversations/{stored.conversation_id}"
    shown = await browser.open_page(here)
    assert "-1 wrong <b>No</b> by ada" in shown
    assert "by ada" not in await browser.open_page(f"{here}?at={stored.version - 1}")
    assert stored.conversation_id in (await browser.get("/conversations?rating=bad")).text
    assert stored.conversation_id not in (await browser.get("/conversations?rating=good")).text
    assert (await browser.get("/conversations?rating=awful")).status_code == 400


async def test_a_long_conversation_is_shown_in_parts(browser: Browser, storage: Storage) -> None:
    turns = [event for number in range(400) for event in turn(f"{number:03}", f"Question {number}", "Yes")]
    stored = await storage.add(*turns)
    here = f"/conversations/{stored.conversation_id}"
    newest = await browser.open_page(here)
    assert "Question 399" in newest
    assert "Question 100 " not in newest
    assert "are not on this page" in newest
    assert "Question 5 " in await browser.open_page(f"{here}?at=40")
    assert "Question 150 " in await browser.open_page(f"{here}?run={trace('150')}")


async def test_open_run_streams_into_the_page(
    browser: Browser, storage: Storage, fresh_nats_url: str
) -> None:
    thread = await storage.add(build_user_message("l"), build_run_started("l"))
    here = f"/conversations/{thread.conversation_id}"
    html = (await browser.get(here)).text
    assert "running" in extract_text(html)
    (stream,) = re.findall(r'hx-sse:connect="([^"]+)"', html)
    assert "hx-sse:connect" not in (await browser.get(f"{here}?at=2")).text, "the past stays as it is"
    seen, ended = "", False
    async with (
        asyncio.timeout(30),
        Bus.connect(fresh_nats_url, name="test") as bus,
        browser.http.stream("GET", stream) as response,
    ):
        for offset, text in ((0, "On its "), (7, "<b>way")):
            await bus.traces.publish_frame(
                trace("l"), frames.DeltaFrame(seq=offset + 1, attempt=1, round=1, text=text, offset=offset)
            )
        async for piece in response.aiter_text():
            seen += piece
            if not ended and "On its &lt;b&gt;way" in seen:
                ended, seen = True, ""
                await storage.store.append(
                    thread, [*build_delta("On its <b>way", "l"), *build_answer("On its <b>way", "l")]
                )
    assert seen.endswith("event: end\ndata: end\n\n")
    assert "completed" in extract_text(seen)
    assert "hx-sse:connect" not in seen
