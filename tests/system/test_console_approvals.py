"""Approvals in the console, over the whole system: allowed, denied, changed, and decided by two at once."""

import re

import pytest

from tests.console.pages import Browser, extract_text
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent
from tests.system.test_approvals import chat_to_pause, reply_of, until_listed


@pytest.fixture
async def shop(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-shop-1?delay_ms=1", shop=True, asks=True)


async def request_approval(shop: Caller, order: int) -> tuple[str, str]:
    """The trace and the approval of a run that waits, once the list has it."""
    problem = await chat_to_pause(shop, order)
    trace_id = str(problem["trace_id"])
    (row,) = await until_listed(
        lambda: shop.send("GET", "/v1/approvals", params={"status": "pending"}), trace_id
    )
    return trace_id, str(row["id"])


async def test_approval_is_shown_with_its_conversation(stack: RunningStack, shop: Caller) -> None:
    trace_id, approval_id = await request_approval(shop, 1005)
    async with Browser(str(stack.environment.console_url)) as browser:
        assert f"/approvals/{approval_id}" in (await browser.get("/approvals")).text
        page = await browser.get(f"/approvals/{approval_id}")
        assert "The customer wrote Cancel ORD-1005" in extract_text(page.text)
        assert "Its server says: changes something, destructive, safe to repeat" in extract_text(page.text)
        assert 'name="input.order_id"' in page.text, "the tool's schema made a form"
        asked = await browser.post(f"/approvals/{approval_id}/decision", {"decision": "approved"})
        assert "with the model's input. It cannot be taken back." in extract_text(asked.text)
        done = await browser.submit(asked.text)
        assert "approved by operator console:local" in extract_text(done.text)
        late = await browser.post(f"/approvals/{approval_id}/decision", {"decision": "denied"})
        assert "Already decided by someone else" in extract_text(late.text)
    assert b"cancelled" in await reply_of(shop, trace_id)


async def test_input_is_edited_in_the_form(stack: RunningStack, shop: Caller) -> None:
    _, approval_id = await request_approval(shop, 1005)
    async with Browser(str(stack.environment.console_url)) as browser:
        page = (await browser.get(f"/approvals/{approval_id}")).text
        names = dict.fromkeys(re.findall(r'name="(input\.[^"]+)"', page), "")
        fields = {**names, "has_input": "1", "decision": "approved", "input.order_id": "ORD-1007"}
        asked = await browser.post(f"/approvals/{approval_id}/decision", fields)
        assert "with your changed input" in extract_text(asked.text)
        done = await browser.submit(asked.text)
        assert '"ORD-1007"' in extract_text(done.text)


async def test_model_gets_the_reason_of_a_denial(stack: RunningStack, shop: Caller) -> None:
    trace_id, approval_id = await request_approval(shop, 1005)
    async with Browser(str(stack.environment.console_url)) as browser:
        wrong = await browser.post(
            f"/approvals/{approval_id}/decision", {"decision": "perhaps", "reason": "why"}
        )
        assert "Not saved" in extract_text(wrong.text)
        part = await browser.post(
            f"/approvals/{approval_id}/decision",
            {"decision": "denied", "reason": "not today", "confirmed": "1"},
            **{"hx-request": "true"},
        )
        assert "<html" not in part.text
        assert "not today" in extract_text(part.text)
    assert await reply_of(shop, trace_id)
