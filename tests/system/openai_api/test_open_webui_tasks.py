"""Open WebUI's tasks about a chat (title, tags, follow-ups): they run no tool and ask nobody."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.system.calling import Caller

TITLE = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Chat History:
<chat_history>
USER: Cancel ORD-1032
ASSISTANT: I am asking for approval.
</chat_history>"""
COMPLETIONS, RESPONSES = "/openai/v1/chat/completions", "/openai/v1/responses"


async def _ask(caller: Caller, path: str, text: str, **headers: str) -> httpx.Response:
    body: dict[str, Any] = {"model": caller.headers["X-Agent-Id"]}
    body |= {"input": text} if path == RESPONSES else {"messages": [{"role": "user", "content": text}]}
    key = {"Authorization": f"Bearer {caller.headers['X-Api-Key']}", "X-OpenWebUI-Chat-Id": "a-chat"}
    key |= {name.replace("_", "-"): value for name, value in headers.items()}
    return await caller.http.post(f"{caller.base_url}{path}", json=body, headers=key)


@pytest.mark.parametrize("path", [COMPLETIONS, RESPONSES])
@pytest.mark.parametrize(
    ("text", "headers"),
    [
        (TITLE, {}),
        ("Cancel ORD-1032: what may the user ask next?", {"X_OpenWebUI_Task": "follow_up_generation"}),
    ],
    ids=["by its prompt", "by its header"],
)
async def test_a_task_runs_no_tool_and_is_not_listed(
    caller: Caller, path: str, text: str, headers: dict[str, str]
) -> None:
    answers = await asyncio.gather(*(_ask(caller, path, text, **headers) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [200] * 3
    for answer in answers:
        conversation_id = answer.headers["x-conversation-id"]
        assert (await caller.get("/v1/approvals", conversation_id=conversation_id)).json()["data"] == []
        events = await caller.get(f"/v1/chat/{answer.headers['x-trace-id']}/events")
        assert "tool_call" not in events.text
        assert events.text.rstrip().endswith("}")
        assert conversation_id[14] == "8", "its id is one of those that no list has"


@pytest.mark.parametrize("text", ["Cancel ORD-1032", f"Please explain this to me: {TITLE}"])
async def test_what_a_person_says_in_a_chat_runs_tools(caller: Caller, text: str) -> None:
    answer = await _ask(caller, COMPLETIONS, text, X_OpenWebUI_Task="")
    assert answer.json()["error"]["code"] == "approval_required"
    assert answer.headers["x-conversation-id"][14] == "7"
