"""`agentchat chat` on a terminal, with a scripted service."""

from pathlib import Path

from tests.client.driving import AGENT, KEY
from tests.client.given import DONE_1, DONE_2, META, START, THREAD, make_delta
from tests.client.server import (
    TRACE,
    ScriptedServer,
    as_json,
    encode_lines,
    respond_problem,
    split_chunks,
    stop_unfinished,
)
from tests.terminal.terminal import CTRL_C, CTRL_D, Terminal


def _at(server: ScriptedServer) -> dict[str, str]:
    return {"AGENTCHAT_BASE_URL": server.url, "AGENTCHAT_API_KEY": KEY, "AGENTCHAT_AGENT_ID": AGENT}


def test_approval_is_asked_and_the_reply_goes_on(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "call-1", "name": "cancel_order", "input": {"order_id": "ORD-1"}}
    waiting = {"id": "a-1", "tool": "cancel_order", "input": {"order_id": "ORD-1"}, "expires_at": "later"}
    paused = {"type": "error", "code": "approval_required", "message": "A person.", "approvals": [waiting]}
    script = (
        split_chunks(encode_lines(START, make_delta("Let me see."), call, paused)),
        as_json({}),
        split_chunks(
            encode_lines(START, make_delta("Let me see."), call, make_delta("It is cancelled."), DONE_2)
        ),
    )
    with ScriptedServer(*script) as server, Terminal(tmp_path, _at(server)) as terminal:
        terminal.say("Cancel ORD-1")
        terminal.see("needs your approval. Run it?")
        terminal.type("maybe\r")
        terminal.see("Run it?")
        terminal.type("y\r")
        terminal.see("It is cancelled.")
        terminal.see("> ")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert terminal.text.count("Let me see.") == 1
    assert terminal.text.count("⚙ cancel_order") == 1
    assert server.requests[1].json == {"decision": "approved"}


def test_form_of_a_tool_is_filled_in(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"guests": {"type": "integer", "title": "Guests"}, "note": {"type": "string"}},
    }
    form = {"id": "a-1", "tool": "book", "elicitation": {"message": "Who?", "requested_schema": schema}}
    paused = {"type": "error", "code": "approval_required", "message": "A.", "approvals": [form]}
    script = (
        split_chunks(encode_lines(START, paused)),
        respond_problem(400, "invalid_request", errors=[{"field": "input", "message": "too many guests"}]),
        as_json({}),
        split_chunks(encode_lines(START, make_delta("It is booked."), DONE_2)),
    )
    with ScriptedServer(*script) as server, Terminal(tmp_path, _at(server)) as terminal:
        terminal.say("Book")
        for guests in ("99", "4"):
            terminal.see("Answer it? y or n: ")
            terminal.type("y\r")
            terminal.see("Guests: ")
            terminal.type(f"{guests}\r")
            terminal.see("note: ")
            terminal.type("\r")
        terminal.see("It is booked.")
    assert [request.json["input"] for request in server.requests[1:3]] == [{"guests": 99}, {"guests": 4}]


def test_ctrl_c_stops_the_reply_and_the_chat_goes_on(tmp_path: Path) -> None:
    script = (
        stop_unfinished(encode_lines(START, make_delta("Slowly\x1b[2J"))),
        as_json({}),
        split_chunks(encode_lines(START, make_delta("Next."), DONE_2)),
    )
    with ScriptedServer(*script) as server, Terminal(tmp_path, _at(server)) as terminal:
        terminal.say("Hello")
        terminal.see("Slowly␛[2J")
        terminal.type(CTRL_C)
        terminal.say("Hello again")
        terminal.see("Next.")
    first, cancel, second = server.requests
    assert first.json["message"] == "Hello"
    assert cancel.target == f"/v1/chat/{TRACE}/cancel"
    assert second.json["conversation_id"] == THREAD


def test_plan_without_form_2_is_answered_in_form_1(tmp_path: Path) -> None:
    script = (
        respond_problem(403, "plan_upgrade_required"),
        split_chunks(encode_lines(META, make_delta("In form 1."), DONE_1)),
    )
    with ScriptedServer(*script) as server, Terminal(tmp_path, _at(server)) as terminal:
        terminal.say("Hello")
        terminal.see("continuing with form 1")
        terminal.see("In form 1.")
    assert [request.headers["x-stream-form"] for request in server.requests] == ["2", "1"]
