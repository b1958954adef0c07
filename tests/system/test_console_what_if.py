"""The page What if: recorded runs chosen, answered by another model or prompt, and compared."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentchat.evals.cases import read_cases
from tests.console.pages import Browser, extract_text
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent


@pytest.fixture
async def browser(stack: RunningStack) -> AsyncIterator[Browser]:
    async with Browser(stack.environment.console_url) as opened:
        yield opened


@pytest.fixture
async def agent(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-echo", system_prompt="Be brief.")


def read_fields(agent: Caller, **changed: str) -> dict[str, str]:
    """The form as it is shown, but for what is changed."""
    given = {"agent": agent.headers["X-Agent-Id"], "version": "1", "model": "demo-echo", "end": "completed"}
    return given | {"system_prompt": "Be brief.", "sample": "5"} | changed


async def test_what_if_estimates_repeats_and_compares_runs(browser: Browser, agent: Caller) -> None:
    conversation = (await agent.chat("The blue mug")).json()["conversation_id"]
    await agent.chat("The <b>red</b> mug", conversation_id=conversation)
    form = await browser.open_page(f"/what-if?runs={conversation}")
    assert "Be brief." in form
    assert conversation in form
    changed = read_fields(
        agent, runs=conversation, model="demo-echo?say=The blue mug", system_prompt="Be long."
    )
    part = await browser.post("/what-if", changed, **{"hx-request": "true"})
    assert extract_text(part.text).startswith("2 runs ,")
    assert "about <b>USD" in part.text
    part = await browser.post("/what-if", changed | {"model": "unpriced"}, **{"hx-request": "true"})
    assert "cost unknown" in part.text
    begun = await browser.post("/what-if", changed | {"do": "start"})
    assert "0 of 2 runs" in extract_text(begun.text)
    assert begun.url.path.startswith("/what-if/")
    async with asyncio.timeout(30):
        stream = await browser.get(f"{begun.url.path}/stream")
    assert "event: end" in stream.text
    assert "2 of 2 runs" in extract_text(stream.text.replace("data: ", ""))
    done = (await browser.get(begun.url.path)).text
    shown = extract_text(done)
    assert "2 of 2 runs" in shown
    assert "v1 with changed model and system prompt" in shown
    assert "Different 1 of 2" in shown
    assert "The blue mug" in shown  # in the list; the run that differs is side by side
    assert "The <del>&lt;b&gt;red&lt;/b&gt; </del>mug" in done
    assert "The <ins>blue </ins>mug" in done


async def test_page_opened_later_continues_the_what_if(browser: Browser, agent: Caller) -> None:
    conversation = (await agent.chat("Hello")).json()["conversation_id"]
    given = read_fields(agent, runs=conversation, model="demo-load?deltas=100&delay_ms=10", do="start")
    begun = await browser.post("/what-if", given)
    async with asyncio.timeout(30):
        async with browser.http.stream("GET", f"{begun.url.path}/stream") as response:
            await anext(response.aiter_raw())  # the page is closed while the run is answered
        while "event: end" not in (await browser.get(f"{begun.url.path}/stream")).text:
            pass
    assert "1 of 1 run Different" in extract_text((await browser.get(begun.url.path)).text)
    assert (await agent.delete(conversation)).status_code == 204
    assert (await browser.get(begun.url.path)).status_code == 404, "results go with the conversation"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"runs": "0192f0c1-0000-7000-8000-00000000ffff"}, "no such conversation"),
        ({"runs": "f" * 32}, "no such run"),
        ({"since": "soon"}, "since: must be a date or a time"),
        ({"sample": "many"}, "sample: must be a whole number"),
        ({"sample": "0"}, "sample: must be 1 to 25"),
        ({"until": "2020-01-01"}, "has no such run"),
    ],
)
async def test_refused_form_keeps_its_text(
    browser: Browser, agent: Caller, changed: dict[str, str], problem: str
) -> None:
    given = read_fields(agent, **{"do": "start", "system_prompt": "A long new prompt."} | changed)
    refused = await browser.post("/what-if", given)
    assert refused.status_code == 400
    assert problem in extract_text(refused.text)
    assert "A long new prompt." in extract_text(refused.text)


async def test_a_run_is_downloaded_as_a_redacted_case(
    browser: Browser, agent: Caller, tmp_path: Path
) -> None:
    conversation = (await agent.chat("I am ada@example.org")).json()["conversation_id"]
    page = (await browser.get(f"/conversations/{conversation}")).text
    (link,) = re.findall(rf'href="(/conversations/{conversation}/case[^"]+)"', page)
    downloaded = await browser.get(link)
    file = tmp_path / "cases.jsonl"
    file.write_bytes(downloaded.content)
    (case,) = read_cases(file)
    assert (case.message, case.redacted) == ("I am person1@example.com", ("email",))
    assert downloaded.headers["content-disposition"] == f'attachment; filename="{case.id}.jsonl"'
    assert (await agent.delete(conversation)).status_code == 204
    assert (await browser.get(link)).status_code == 410
