"""AG-UI's protocol (docs/integrate/ag-ui.md): by its own clients of two versions, and on the wire."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import installed
from tests.system.calling import Caller, MakeAgent

QUESTION = "Where is my order ORD-1001?"
SLOW = "demo-load?deltas=200&delay_ms=50"
_CLIENTS = Path(__file__).parent / "ag_ui_clients"


def url(caller: Caller, agent: str | None = None) -> str:
    return f"{caller.base_url}/ag-ui/v1/agents/{agent or caller.headers['X-Agent-Id']}"


def bearer(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {caller.headers['X-Api-Key']}"}


def build_input(thread: str, run: str, *texts: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"id": str(i), "role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"threadId": thread, "runId": run, "messages": messages, **fields}


async def ask(caller: Caller, body: dict[str, Any]) -> httpx.Response:
    return await caller.http.post(url(caller), json=body, headers=bearer(caller))


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    *told, left = response.text.split("\n\n")
    assert left == ""
    return [json.loads(event[6:]) for event in told if not event.startswith(":")]


def text_of(told: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in told if event["type"] == "TEXT_MESSAGE_CONTENT")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("package", "cancelled"),
    [("@ag-ui/client", ("cancelled", None)), ("ag-ui-before", (None, "cancelled"))],
)
async def test_its_clients_go_on_are_cancelled_and_refused(
    make_agent: MakeAgent, package: str, cancelled: tuple[str | None, str | None]
) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    slow, failing = await make_agent(SLOW), await make_agent("demo-echo?fail=400")
    thinking = await make_agent("demo-shop-1?think=1", reasoning="summary")
    folder = await installed.node_packages(_CLIENTS)
    told = await installed.run_json(
        folder,
        *("node", "agent.mjs", package),
        **caller.environ,
        SLOW_AGENT=slow.headers["X-Agent-Id"],
        FAILING_AGENT=failing.headers["X-Agent-Id"],
        THINKING_AGENT=thinking.agent_id,
        QUESTION=QUESTION,
    )
    assert told["first"]["outcome"] == told["second"]["outcome"] == "success"
    assert told["first"]["ids"]["conversationId"] == told["second"]["ids"]["conversationId"]
    roles = [message["role"] for message in told["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [message["calls"] for message in told["messages"]] == [0, 1, 0, 0, 0, 0]
    saved = await caller.messages(told["first"]["ids"]["conversationId"])
    texts = [message.get("content") or "" for message in told["messages"]]
    assert [each["content"] for each in saved] == [texts[0], texts[1] + texts[3], texts[4], texts[5]]
    assert (told["cancelled"]["outcome"], told["cancelled"]["error"]) == cancelled
    assert (told["failing"]["outcome"], told["failing"]["error"]) == (None, "provider_error")
    assert told["thinking"]["thought"] == ["The user asks: Hello"]
    assert told["thinking"]["types"][:2] == ["REASONING_START", "REASONING_MESSAGE_START"]
    assert told["thinking"]["again"] is None, "the client sends its reasoning messages back"
    assert told["refused"]["outcome"] is None
    assert "invalid_api_key" in told["refused"]["error"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("package", ["@ag-ui/client", "ag-ui-before"])
async def test_its_clients_run_a_broken_stream_again(make_agent: MakeAgent, package: str) -> None:
    caller = await make_agent("demo-load?deltas=40&delay_ms=25")
    folder = await installed.node_packages(_CLIENTS)
    told = await installed.run_json(folder, "node", "broken.mjs", package, **caller.environ)
    cut, ended = told["cut"], told["ended"]
    assert cut["first"]["error"] == "TypeError: terminated"
    assert cut["first"]["called"] == ["onRunFailed", "onRunFinalized"]
    assert cut["unhandled"] == ["TypeError: terminated"]
    assert (ended["first"]["error"], ended["unhandled"]) == (None, [])
    assert ended["first"]["called"] == ["onRunFinalized"]
    for broken in (cut, ended):
        part, whole = broken["first"]["last"], broken["again"]["last"]
        assert part["role"] == whole["role"] == "assistant"
        assert whole["content"].startswith(part["content"])
        assert len(part["content"]) < len(whole["content"]) == 40 * 7
        assert "400" in broken["uncleaned"]["error"]
        assert (broken["again"]["error"], broken["again"]["trace"]) == (None, broken["first"]["trace"])


async def test_a_run_is_known_by_its_id(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-load?deltas=20&delay_ms=50")
    body = build_input("known", "run-1", "hi")
    first, again = await asyncio.gather(ask(caller, body), ask(caller, body))
    later = await ask(caller, body)
    traces = {each.headers["x-trace-id"] for each in (first, again, later)}
    assert len(traces) == 1, "one run, whenever it is asked for"
    assert len({text_of(events(each)) for each in (first, again, later)}) == 1
    other = await ask(caller, build_input("known", "run-1", "ho"))
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
