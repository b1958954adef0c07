"""Tools that the client runs, in our own protocol: on two gateways, beside the agent's own tools."""

import asyncio
import json
import re
import secrets
import signal
from typing import Any

import httpx
import pytest

from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, events_of
from tests.system.test_approvals import decide, read_events

MAP: dict[str, Any] = {
    "name": "show_map",
    "description": "Show a place on the user's screen",
    "input_schema": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    },
}
TOOLS = {"client_tools": [MAP]}
SECONDS = 90.0
ASK = "Where is my order ORD-1001? Then show_map of it."


async def require_action(caller: Caller, message: str = ASK, **body: Any) -> dict[str, Any]:
    response = await caller.chat(message, **TOOLS | body)
    assert response.status_code == 200, response.text
    required: dict[str, Any] = response.json()
    assert required["status"] == "requires_action", required
    return required


async def give(caller: Caller, required: dict[str, Any], output: Any, **result: Any) -> httpx.Response:
    results = [{"id": each["id"], "output": output, **result} for each in required["client_tool_calls"]]
    path = f"/v1/chat/{required['trace_id']}/tool_results"
    return await caller.send("POST", path, json={"results": results})


async def test_own_tools_run_and_the_client_continues_elsewhere(stack: RunningStack, caller: Caller) -> None:
    """The results come to another gateway; sent again they get the same reply, others are a conflict."""
    required = await require_action(caller)
    (call,) = required["client_tool_calls"]
    assert (call["name"], list(call["input"])) == ("show_map", ["place"])
    other = caller.at(stack.environment.gateway_urls[1])
    reply = await give(other, required, {"shown": "Ulm"})
    assert reply.status_code == 200, reply.text
    ran = {each["name"]: each["output"] for each in reply.json()["tool_calls"]}
    assert ran["show_map"] == '{"shown":"Ulm"}'
    assert len(ran) == 2
    assert "Ulm" in reply.json()["message"]["content"]
    again = await give(caller, required, {"shown": "Ulm"})
    assert again.json()["message"] == reply.json()["message"]
    changed = await give(caller, required, {"shown": "Paris"})
    assert (changed.status_code, changed.json()["code"]) == (409, "tool_result_conflict")
    listed = await caller.get("/v1/approvals", conversation_id=required["conversation_id"])
    assert listed.json()["data"] == []


@pytest.mark.parametrize("form", [1, 2, "full"])
async def test_streams_name_the_calls_and_go_on_after_the_results(caller: Caller, form: int | str) -> None:
    async with caller.open_stream(ASK, form, **TOOLS) as response:
        trace_id = response.headers["X-Trace-Id"]
        events = [event async for event in events_of(response)]
    (call,) = [event for event in events if event["type"] == "client_tool_call"]
    if form == "full":
        assert events[-1]["type"] == "client_tools_required"
        assert events[-1]["client_tool_calls"] == [{name: call[name] for name in ("id", "name", "input")}]
    else:
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "client_tools_required")
    path = f"/v1/chat/{trace_id}/tool_results"
    unknown = await caller.send("POST", path, json={"results": [{"id": "tc_" + "0" * 32, "output": 1}]})
    assert (unknown.status_code, unknown.json()["code"]) == (409, "tool_result_conflict")
    reply = await caller.send("POST", path, json={"results": [{"id": call["id"], "output": "yes"}]})
    assert reply.status_code == 200, reply.text
    stream = await read_events(caller, trace_id, form=form)
    assert stream.count(b'"type":"client_tool_call"') == 1
    assert b'"type":"done"' in stream


async def test_a_forced_client_tool_is_called_once(caller: Caller) -> None:
    required = await require_action(caller, "Hello there", tool_choice="show_map")
    reply = await give(caller, required, "No map here.", is_error=True)
    assert reply.status_code == 200, reply.text
    (ran,) = reply.json()["tool_calls"]
    assert (ran["name"], ran["is_error"]) == ("show_map", True)


async def wait_for_state(caller: Caller, trace_id: str, status: str) -> dict[str, Any]:
    """The run's state, once it is this one."""
    async with asyncio.timeout(SECONDS):
        while (found := (await caller.get(f"/v1/chat/{trace_id}")).json())["status"] != status:  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.1)
    state: dict[str, Any] = found
    return state


async def test_approvals_of_a_round_come_before_its_client_tools(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-shop-1", shop=True, asks=True)
    waits = (await caller.chat(ASK, **TOOLS)).json()
    assert waits["code"] == "approval_required", waits
    state = await wait_for_state(caller, waits["trace_id"], "waiting_for_approval")
    assert not state.get("client_tool_calls"), "the client has its turn after the people"
    for each in waits["approvals"]:
        assert (await decide(caller, each["id"])).status_code == 200
    required = await wait_for_state(caller, waits["trace_id"], "requires_action")
    reply = await give(caller, required, "It shows Ulm.")
    ran = reply.json()["tool_calls"]
    assert {each["name"] for each in ran} > {"show_map"}
    assert not any(each["is_error"] for each in ran)
    assert "Ulm" in reply.json()["message"]["content"]


@pytest.mark.slow
async def test_a_wait_for_a_client_outlives_every_service(stack: RunningStack, caller: Caller) -> None:
    required = await require_action(caller)
    for name in stack.names():
        if name.rpartition("-")[0] in ("tool-runner", "orchestrator", "gateway", "projector"):
            stack.kill(name, signal.SIGKILL)
    await stack.wait_all_ready(SECONDS)
    reply = await give(caller, required, "It shows Ulm.")
    assert reply.status_code == 200, reply.text
    assert "Ulm" in reply.json()["message"]["content"]
    assert [each["name"] for each in reply.json()["tool_calls"]].count("show_map") == 1


async def test_an_agent_may_refuse_client_tools(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-shop-1", client_tools="refused")
    refused = await caller.chat("Hello", **TOOLS)
    assert (refused.status_code, "client_tools" in refused.json()["detail"]) == (400, True), refused.text
    assert (await caller.chat("Hello")).status_code == 200


async def test_a_client_tool_has_no_name_of_a_servers_tool(caller: Caller) -> None:
    ran = (await caller.chat("Where is my order ORD-1001?")).json()["tool_calls"][0]["name"]
    refused = await caller.chat("Hello", client_tools=[MAP | {"name": ran}])
    assert (refused.status_code, ran in refused.text) == (400, True), refused.text


def data_of(stream: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix(b"data: ") for line in stream.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


async def test_frontend_tools_of_ag_ui(caller: Caller) -> None:
    schema = MAP["input_schema"]
    tools = [{"name": "show_map", "description": "Show a place", "parameters": schema}]
    messages: list[Any] = [{"id": "1", "role": "user", "content": ASK}]

    async def run(run_id: str) -> list[dict[str, Any]]:
        body = {"threadId": f"map-{caller.agent_id}", "runId": run_id, "messages": messages, "tools": tools}
        response = await caller.send("POST", f"/ag-ui/v1/agents/{caller.agent_id}", json=body)
        assert response.status_code == 200, response.text
        return data_of(response.content)

    first = await run("run-1")
    assert first[-1]["type"] == "RUN_FINISHED"
    called = next(each for each in first if each.get("toolCallName") == "show_map")
    returned = {each["toolCallId"] for each in first if each["type"] == "TOOL_CALL_RESULT"}
    assert returned
    assert called["toolCallId"] not in returned, "the frontend has to run it"
    messages += [
        {"id": "2", "role": "assistant", "content": "".join(each.get("delta", "") for each in first[:3])},
        {"id": "3", "role": "tool", "toolCallId": called["toolCallId"], "content": "It shows Ulm."},
    ]
    rest = await run("run-2")
    assert rest[-1]["type"] == "RUN_FINISHED"
    assert not [each for each in rest if each["type"].startswith("TOOL_CALL")], "both are known"
    text = "".join(each["delta"] for each in rest if each["type"] == "TEXT_MESSAGE_CONTENT")
    assert "Ulm" in text


async def test_application_tools_of_use_chat(caller: Caller) -> None:
    tools = [{"name": "show_map", "inputSchema": MAP["input_schema"]}]
    question = {"role": "user", "parts": [{"type": "text", "text": ASK}]}

    async def send(*messages: Any) -> list[dict[str, Any]]:
        body = {"id": f"map-{caller.agent_id}", "messages": messages, "clientTools": tools}
        response = await caller.send("POST", f"/ai-sdk/v1/agents/{caller.agent_id}/chat", json=body)
        assert response.status_code == 200, response.text
        return data_of(response.content)

    first = await send(question)
    (call,) = [each for each in first if each.get("toolName") == "show_map"]
    assert (call["type"], "providerExecuted" in call) == ("tool-input-available", False)
    assert first[-1] == {"type": "finish", "finishReason": "tool-calls"}
    done = {"type": "dynamic-tool", "toolCallId": call["toolCallId"], "state": "output-available"}
    rest = await send(question, {"role": "assistant", "parts": [{**done, "output": "It shows Ulm."}]})
    assert rest[0]["messageId"] == first[0]["messageId"], "the message goes on"
    assert rest[-1]["finishReason"] == "stop"
    assert "Ulm" in "".join(each["delta"] for each in rest if each["type"] == "text-delta")


@pytest.mark.parametrize("protocol", ["ai-sdk", "ag-ui", "openai"])
async def test_a_result_before_a_new_message_is_refused_while_it_is_awaited(
    caller: Caller, protocol: str
) -> None:
    """The message would end the run and lose the result. Without it the result resumes the run."""
    name, said = f"late-{protocol}-{secrets.token_hex(4)}", {"role": "user", "content": ASK}

    async def send(*messages: dict[str, Any]) -> httpx.Response:
        tool = {"name": "show_map", "description": "Show a place"}
        match protocol:
            case "ai-sdk":
                body: dict[str, Any] = {
                    "id": name,
                    "clientTools": [tool | {"inputSchema": MAP["input_schema"]}],
                }
                path = f"/ai-sdk/v1/agents/{caller.agent_id}/chat"
            case "ag-ui":
                body = {"threadId": name, "runId": secrets.token_hex(8), "state": {}, "context": []}
                body |= {"tools": [tool | {"parameters": MAP["input_schema"]}], "forwardedProps": {}}
                path = f"/ag-ui/v1/agents/{caller.agent_id}"
            case _:
                function = tool | {"parameters": MAP["input_schema"]}
                body = {"model": caller.agent_id, "tools": [{"type": "function", "function": function}]}
                path = "/openai/v1/chat/completions"
        shown = [_write_message(protocol, index, each) for index, each in enumerate(messages)]
        headers = {"X-Conversation-Id": name, "Authorization": f"Bearer {caller.headers['X-Api-Key']}"}
        return await caller.send("POST", path, json={**body, "messages": shown}, headers=headers)

    asked = await send(said)
    (call_id,) = set(re.findall(r"tc_[0-9a-f]{32}", asked.text))
    result = [
        {"role": "assistant", "call": call_id},
        *([] if protocol == "ai-sdk" else [{"role": "tool", "call": call_id}]),
    ]
    late = await send(said, *result, {"role": "user", "content": "And now?"})
    assert (late.status_code, f"Send only the result of {call_id}" in late.text) == (400, True), late.text
    assert "Ulm" in (await send(said, *result)).text


def _write_message(protocol: str, index: int, given: dict[str, Any]) -> dict[str, Any]:
    """A message of a text, of a call (and in the AI SDK its result), or of a result."""
    role, call_id = given["role"], given.get("call")
    if protocol == "ai-sdk":
        part: dict[str, Any] = {
            "type": "dynamic-tool",
            "toolCallId": call_id,
            "toolName": "show_map",
            "input": {},
        }
        part |= {"state": "output-available", "output": "It shows Ulm."}
        parts = [part] if call_id else [{"type": "text", "text": given["content"]}]
        return {"id": f"m{index}", "role": role, "parts": parts}
    named = {"id": f"m{index}"} if protocol == "ag-ui" else {}
    if call_id is None:
        return named | given
    if role == "assistant":
        function = {"name": "show_map", "arguments": "{}"}
        field = "toolCalls" if protocol == "ag-ui" else "tool_calls"
        return {**named, "role": role, field: [{"id": call_id, "type": "function", "function": function}]}
    field = "toolCallId" if protocol == "ag-ui" else "tool_call_id"
    return {**named, "role": role, field: call_id, "content": "It shows Ulm."}
