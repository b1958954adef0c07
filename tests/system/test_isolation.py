"""No end user and no account sees anything of another, at any route of the gateway."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentchat.contracts import ids
from agentchat.gateway.routes import ROUTES
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, pro

Body = dict[str, Any] | None
CANCEL = "Cancel ORD-1042 because it is a double"
APPROVE = {"approval_request_id": "{approval_id}", "type": "mcp_approval_response", "approve": True}
PART = {
    "type": "tool-x",
    "state": "approval-responded",
    "approval": {"id": "{approval_id}", "approved": True},
}
RESUME = {"interruptId": "{approval_id}", "status": "resolved", "payload": {"approved": True}}

RESPONSES: list[Body] = [
    {"model": "{agent}", "input": "hi", "conversation": "conv_{conversation_hex}"},
    {"model": "{agent}", "input": "hi", "previous_response_id": "{response_id}"},
    {"model": "{agent}", "input": [{"type": "item_reference", "id": "msg_{trace_id}_1"}, "{user_item}"]},
    {"model": "{agent}", "input": [{"type": "item_reference", "id": "{approval_id}"}, "{user_item}"]},
    {"model": "{agent}", "input": [APPROVE]},
]
"""Requests for a response that name something by its id."""

ROUTE_BODIES: dict[tuple[str, str], list[Body] | Literal["account", "open", "names"]] = {
    ("POST", "/v1/chat"): [{"message": "hi", "conversation_id": "{conversation_id}"}],
    ("POST", "/v1/chat/stream"): [{"message": "hi", "conversation_id": "{conversation_id}"}],
    ("GET", "/v1/chat/{trace_id:str}"): [None],
    ("GET", "/v1/chat/{trace_id:str}/events"): [None],
    ("POST", "/v1/chat/{trace_id:str}/cancel"): [None],
    ("POST", "/v1/chat/{trace_id:str}/tool_results"): [{"results": [{"id": "tc_0", "output": 1}]}],
    ("GET", "/v1/conversations"): "names",
    ("GET", "/v1/conversations/{conversation_id:str}"): [None],
    ("PATCH", "/v1/conversations/{conversation_id:str}"): [{"title": "Mine"}],
    ("DELETE", "/v1/conversations/{conversation_id:str}"): [None],
    ("GET", "/v1/conversations/{conversation_id:str}/messages"): [None],
    ("POST", "/v1/conversations/{conversation_id:str}/fork"): [{}],
    ("GET", "/v1/messages/{message_id:str}/feedback"): [None],
    ("POST", "/v1/messages/{message_id:str}/feedback"): [{"score": 1}],
    ("DELETE", "/v1/messages/{message_id:str}/feedback"): [None],
    ("POST", "/v1/files"): "names",
    ("GET", "/v1/files"): "names",
    ("GET", "/v1/files/{file_id:str}"): [None],
    ("GET", "/v1/files/{file_id:str}/content"): [None],
    ("DELETE", "/v1/files/{file_id:str}"): [None],
    ("POST", "/openai/v1/files"): "names",
    ("GET", "/openai/v1/files"): "names",
    ("GET", "/openai/v1/files/{file_id:str}"): [None],
    ("GET", "/openai/v1/files/{file_id:str}/content"): [None],
    ("DELETE", "/openai/v1/files/{file_id:str}"): [None],
    ("GET", "/v1/approvals"): "names",
    ("GET", "/v1/approvals/{approval_id:str}"): [None],
    ("POST", "/v1/approvals/{approval_id:str}/decision"): [{"decision": "denied"}],
    ("GET", "/v1/usage"): "account",
    ("GET", "/v1/agents"): "account",
    ("GET", "/v1/users"): "account",
    ("GET", "/v1/users/{user_id:str}"): "account",
    ("GET", "/v1/users/{user_id:str}/export"): "account",
    ("DELETE", "/v1/users/{user_id:str}"): "account",
    ("POST", "/v1/webhook_endpoints"): "account",
    ("GET", "/v1/webhook_endpoints"): "account",
    ("GET", "/v1/webhook_endpoints/{endpoint_id:str}"): "account",
    ("PATCH", "/v1/webhook_endpoints/{endpoint_id:str}"): "account",
    ("DELETE", "/v1/webhook_endpoints/{endpoint_id:str}"): "account",
    ("POST", "/v1/webhook_endpoints/{endpoint_id:str}/rotate_secret"): "account",
    ("GET", "/v1/webhook_endpoints/{endpoint_id:str}/deliveries"): "account",
    ("GET", "/v1/webhook_endpoints/{endpoint_id:str}/deliveries/{delivery_id:str}"): "account",
    ("POST", "/v1/webhook_endpoints/{endpoint_id:str}/deliveries/{delivery_id:str}/resend"): "account",
    ("POST", "/v1/webhook_endpoints/{endpoint_id:str}/test"): "account",
    ("POST", "/mcp/v1"): "names",
    ("POST", "/mcp/v1/agents/{agent:str}"): "names",
    ("GET", "/v1/oauth/callback/{issuer:str}"): "open",
    ("GET", "/healthz"): "open",
    ("GET", "/readyz"): "open",
    ("GET", "/openapi.json"): "open",
    ("GET", "/"): "open",
    ("GET", "/openai/v1/models"): "open",
    ("GET", "/openai/v1/models/{model:str}"): "open",
    ("GET", "/openai/models"): "open",
    ("GET", "/openai/models/{model:str}"): "open",
    ("POST", "/openai/v1/chat/completions"): "names",
    ("POST", "/openai/chat/completions"): "names",
    ("POST", "/openai/deployments/{deployment:str}/chat/completions"): "names",
    ("POST", "/openai/v1/responses"): RESPONSES,
    ("POST", "/openai/responses"): RESPONSES,
    ("GET", "/openai/v1/responses/{response_id:str}"): [None],
    ("GET", "/openai/responses/{response_id:str}"): [None],
    ("POST", "/openai/v1/responses/{response_id:str}/cancel"): [None],
    ("POST", "/openai/responses/{response_id:str}/cancel"): [None],
    ("POST", "/ai-sdk/v1/agents/{agent:str}/chat"): [{"messages": [{"role": "assistant", "parts": [PART]}]}],
    ("GET", "/ai-sdk/v1/agents/{agent:str}/chat/{chat_id:str}/stream"): "names",
    ("POST", "/ag-ui/v1/agents/{agent:str}"): [
        {"threadId": "t", "runId": "r", "messages": [], "resume": [RESUME]}
    ],
}
"""By each route: the bodies that name something of a user; or "names" for the client's own names and lists,
"account" for what no user may use, "open" for what is nobody's.
"""


class Asker:
    """A key, perhaps with a user."""

    def __init__(self, caller: Caller, user: str | None) -> None:
        self.caller, self.user = caller, user

    async def send(self, method: str, path: str, body: Body = None, **headers: str) -> httpx.Response:
        named = {} if self.user is None else {"X-User-Id": self.user}
        key = {"Authorization": f"Bearer {self.caller.headers['X-Api-Key']}"}
        return await self.caller.http.request(
            method,
            f"{self.caller.base_url}{path}",
            headers={**self.caller.headers, **key, **named, **headers},
            json=body,
        )


def _list_routes() -> set[tuple[str, str]]:
    return {
        (method, route.path)
        for router in ROUTES
        for route in router.routes
        for method in getattr(route, "methods", ())
        if method not in ("OPTIONS", "HEAD")
    }


def test_every_route_says_what_it_has_of_users() -> None:
    assert _list_routes() == set(ROUTE_BODIES)


@pytest.fixture
async def askers(stack: RunningStack, caller: Caller, make_agent: MakeAgent) -> Mapping[str, Asker]:
    own, other = pro(stack, caller.http), await make_agent("demo-shop-1")  # of an account without limits
    return {
        "ada": Asker(own, "ada"),
        "bob": Asker(own, "bob"),
        "account": Asker(own, None),
        "another account": Asker(other, None),
        "another ada": Asker(other, "ada"),
    }


async def _chat(asker: Asker, message: str, **body: Any) -> dict[str, Any]:
    response = await asker.send("POST", "/v1/chat", {"message": message, **body})
    assert response.status_code == 200, response.text
    return {"trace_id": response.headers["x-trace-id"], **response.json()}


async def _make_ids(asker: Asker, mark: str = "") -> dict[str, str]:
    """A user's conversation, and one that waits for an approval; `mark` is in the first one's texts."""
    title = f"A parcel {mark}"
    said = await _chat(asker, f"Where is my order ORD-1001? {mark}", external_id="ticket-1", title=title)
    paused = await asker.send("POST", "/v1/chat", {"message": CANCEL})
    assert paused.status_code == 409, paused.text
    return {
        "conversation_id": said["conversation_id"],
        "message_id": said["message"]["id"],
        "trace_id": said["trace_id"],
        "approval_id": paused.json()["approvals"][0]["id"],
        "file_id": await _upload(asker),
    }


async def _upload(asker: Asker) -> str:
    response = await asker.caller.http.post(
        f"{asker.caller.base_url}/v1/files",
        headers={"X-Api-Key": asker.caller.headers["X-Api-Key"], "X-User-Id": asker.user or ""},
        files={"file": ("note.txt", b"a private note")},
    )
    assert response.status_code == 201, response.text
    return str(response.json()["file_id"])


def _derive(known: Mapping[str, str], asker: Asker) -> dict[str, str]:
    return {
        **known,
        "response_id": f"resp_{known['trace_id']}",
        "conversation_hex": known["conversation_id"].replace("-", ""),
        "agent": asker.caller.agent_id,
    }


def _fill(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{name}:str}}", value).replace(f"{{{name}}}", value)
    return template.replace('"{user_item}"', '{"role": "user", "content": "hi"}')


async def _answer(
    asker: Asker, method: str, path: str, body: Body, known: Mapping[str, str]
) -> tuple[int, str]:
    """The answer, without what is new in each."""
    values = _derive(known, asker)
    sent = None if body is None else json.loads(_fill(json.dumps(body), values))
    response = await asker.send(method, _fill(path, values), sent)
    text = response.text.replace(response.headers["x-trace-id"], "TRACE")
    for name, value in values.items():
        text = text.replace(value, name)
    return response.status_code, text


async def _read_messages(asker: Asker, conversation_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        await asker.send("GET", f"/v1/conversations/{conversation_id}/messages")
    ).json()["data"]
    return rows


async def test_nobody_else_sees_or_changes_anything(askers: Mapping[str, Asker]) -> None:
    """Whoever may not use a thing gets the answer for an unknown id; its user and its account do not."""
    mine = await _make_ids(askers["ada"])
    unknown = {name: ids.make_id().replace("-", "") if name == "trace_id" else ids.make_id() for name in mine}
    by_id = [
        (method, path, body)
        for (method, path), bodies in ROUTE_BODIES.items()
        if isinstance(bodies, list)
        for body in bodies
    ]
    for method, path, body in by_id:
        for name in ("bob", "another account", "another ada"):
            answer = await _answer(askers[name], method, path, body, mine)
            assert answer == await _answer(askers[name], method, path, body, unknown), (name, method, path)
            assert answer[0] in (400, 404), (name, method, path, answer)
        if method == "GET":
            for name in ("ada", "account"):
                status, _ = await _answer(askers[name], method, path, body, mine)
                assert status == 200, (name, path)
    messages = await _read_messages(askers["ada"], mine["conversation_id"])
    assert len(messages) == 2, "nothing was added, taken away or said of it"
    assert "feedback" not in messages[1]
    denied = f"/v1/approvals/{mine['approval_id']}/decision"
    assert (await askers["ada"].send("POST", denied, {"decision": "denied"})).status_code == 200
    gone = await askers["account"].send("DELETE", f"/v1/conversations/{mine['conversation_id']}")
    assert gone.status_code == 204


async def test_lists_have_the_users_own_alone(askers: Mapping[str, Asker]) -> None:
    mine = await _make_ids(askers["ada"])
    theirs = await _make_ids(askers["bob"])

    async def list_ids(name: str, path: str, field: str) -> set[str]:
        rows = (await askers[name].send("GET", path)).json()["data"]
        return {row[field] for row in rows} & {*mine.values(), *theirs.values()}

    async def wait_for_both(path: str, field: str) -> None:
        async with asyncio.timeout(60):
            while len(await list_ids("account", path, field)) < 2:  # noqa: ASYNC110 - lists lag
                await asyncio.sleep(0.1)

    found = "/v1/conversations?external_id=ticket-1&limit=100"
    expected = {"ada": {mine["conversation_id"]}, "bob": {theirs["conversation_id"]}}
    expected |= {"account": expected["ada"] | expected["bob"], "another account": set(), "another ada": set()}
    await wait_for_both(found, "conversation_id")
    for name, own in expected.items():
        assert await list_ids(name, found, "conversation_id") == own
    assert await list_ids("account", f"{found}&user_id=bob", "conversation_id") == expected["bob"]
    assert await list_ids("ada", f"{found}&user_id=bob", "conversation_id") == expected["ada"]
    first = (await askers["ada"].send("GET", "/v1/conversations?limit=1")).json()["next_cursor"]
    assert await list_ids("bob", f"{found}&cursor={first}", "conversation_id") <= expected["bob"]
    approvals = {"ada": {mine["approval_id"]}, "bob": {theirs["approval_id"]}, "another ada": set()}
    approvals["account"] = approvals["ada"] | approvals["bob"]
    await wait_for_both("/v1/approvals?limit=100", "id")
    for name, own in approvals.items():
        assert await list_ids(name, "/v1/approvals?limit=100", "id") == own


_CALL = {"name": "{agent}", "arguments": {"message": "hi", "conversation_id": "{conversation_id}"}}
_BODIES: list[Body] = [
    *(body for bodies in ROUTE_BODIES.values() if isinstance(bodies, list) for body in bodies),
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL},
    {"id": "{conversation_id}", "threadId": "{conversation_id}", "runId": "{trace_id}", "messages": []},
    {},
]
_IDS = (
    "conversation_id",
    "message_id",
    "trace_id",
    "approval_id",
    "file_id",
    "response_id",
    "user",
    "unknown",
)
_QUERIES = (
    "",
    "?user_id=ada&limit=100",
    "?external_id=ticket-1",
    "?title=parcel",
    "?cursor={conversation_id}",
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    requests=st.lists(
        st.tuples(
            st.sampled_from(sorted(ROUTE_BODIES)),
            st.sampled_from(("bob", "another account", "another ada")),
            st.permutations(_IDS),
            st.sampled_from(_BODIES),
            st.sampled_from(_QUERIES),
        ),
        min_size=3,
        max_size=3,
    )
)
async def test_random_requests_show_nothing_of_another_user(
    askers: Mapping[str, Asker], private_data: dict[str, str], requests: list[tuple[Any, ...]]
) -> None:
    """Any route with any ids of Ada's, in any place: no text of hers, and no id that was not sent."""
    for (method, path), name, order, body, query in requests:
        values = _derive(private_data, askers[name])
        mixed = {**values, **dict(zip(_IDS, (values[each] for each in order), strict=True))}
        address = _fill(path, {"agent": mixed["agent"]})
        for each in order:
            address = re.sub(r"{\w+:str}", values[each], address, count=1)
        address += _fill(query, values)
        sent = None if method in ("GET", "DELETE") else json.loads(_fill(json.dumps(body), mixed))
        response = await askers[name].send(
            method, address, sent, Accept="application/json, text/event-stream"
        )
        assert response.status_code < 500, (method, address, sent, response.text)
        known = f"{address} {json.dumps(sent)} ada {private_data['unknown']}"
        shown = [value for value in private_data.values() if value in response.text and value not in known]
        assert not shown, (name, method, address, sent)


@pytest.fixture
async def private_data(askers: Mapping[str, Asker]) -> AsyncIterator[dict[str, str]]:
    """Ada's ids and texts, which are as they were in the end."""
    made = await _make_ids(askers["ada"], mark := ids.make_id()[-12:])
    yield {**made, "text": mark, "note": "a private note", "user": "ada", "unknown": ids.make_id()}
    assert len(await _read_messages(askers["ada"], made["conversation_id"])) == 2
    approval = (await askers["ada"].send("GET", f"/v1/approvals/{made['approval_id']}")).json()
    assert approval["status"] == "pending"
    file = await askers["ada"].send("GET", f"/v1/files/{made['file_id']}/content")
    assert file.text == "a private note"


NAMED: dict[str, Body] = {
    "/openai/v1/chat/completions": {"model": "{agent}", "messages": "{said}"},
    "/openai/v1/responses": {"model": "{agent}", "input": "{said}"},
    "/ai-sdk/v1/agents/{agent}/chat": {"id": "my-chat", "messages": "{parts}"},
    "/ag-ui/v1/agents/{agent}": {"threadId": "my-chat", "runId": "{run}", "messages": "{said}"},
}


@pytest.mark.parametrize("path", NAMED)
async def test_names_that_two_users_chose_are_two_conversations(
    askers: Mapping[str, Asker], path: str
) -> None:
    """The same names, texts and Idempotency-Keys: each user has a conversation and a run of their own."""

    async def say(name: str, *texts: str, run: str = "r1") -> tuple[str, str]:
        said = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
        parts = [
            {"role": each["role"], "parts": [{"type": "text", "text": each["content"]}]} for each in said
        ]
        body = (
            json.dumps(NAMED[path])
            .replace('"{said}"', json.dumps(said))
            .replace('"{parts}"', json.dumps(parts))
        )
        body = body.replace("{run}", run).replace("{agent}", askers[name].caller.agent_id)
        headers = {"X-Conversation-Id": "my-chat", "Idempotency-Key": f"{path}-{run}"}
        address = path.replace("{agent}", askers[name].caller.agent_id)
        response = await askers[name].send("POST", address, json.loads(body), **headers)
        assert response.status_code == 200, response.text
        return response.headers["x-conversation-id"], response.headers["x-trace-id"]

    first = {name: await say(name, "Hello") for name in ("ada", "bob", "account")}
    assert len({*first.values()}) == 3
    assert await say("ada", "Hello") == first["ada"], "the key repeats its own user's request"
    rows = await _read_messages(askers["ada"], first["ada"][0])
    texts = ("Hello", rows[-1]["content"], "And now?")
    assert (await say("ada", *texts, run="r2"))[0] == first["ada"][0]
    assert (await say("bob", *texts, run="r3"))[0] == first["bob"][0]
    row = (await askers["ada"].send("GET", f"/v1/conversations/{first['ada'][0]}")).json()
    assert (row["user_id"], row["external_id"]) == ("ada", "my-chat")


async def test_account_routes_take_no_user(askers: Mapping[str, Asker]) -> None:
    for (method, path), kind in ROUTE_BODIES.items():
        if kind == "account":
            refused = await askers["ada"].send(method, path.replace("{", "").replace(":str}", ""), {})
            assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed"), path
