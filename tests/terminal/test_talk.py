"""`agentchat chat` on a terminal, with a scripted service."""

import stat
from pathlib import Path

from tests.client.given import DONE_1, DONE_2, META, SOURCE, START, THREAD, delta, message, thread
from tests.client.server import RESET, TRACE, as_json, chunks, lines, problem, unfinished
from tests.terminal.conftest import Open
from tests.terminal.terminal import ALT_ENTER, CTRL_C, CTRL_D, UP

_EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_a_long_reply_is_in_the_scroll_back_whole_and_once(terminal: Open) -> None:
    items = [f"- item number {number:03}\n" for number in range(60)]
    words = " ".join(f"word{number:03}" for number in range(300))
    code = "```\n" + "".join(f"row {number:03}\n" for number in range(40)) + "```\n\n"
    reply = "# Begin\n\n" + "".join(items) + "\n" + words + "\n\n" + code + "The end."
    pieces = [lines(delta(reply[place : place + 17])) for place in range(0, len(reply), 17)]
    client, _ = terminal(chunks(lines(START), *pieces, lines(DONE_2)), rows=12)
    client.say("Write a lot.")
    client.see("42 tokens")
    client.see("> ")
    shown = client.text.split()
    for kind, count in (("word", 300),):
        assert [text for text in shown if text.startswith(kind) and text != kind] == [
            f"{kind}{number:03}" for number in range(count)
        ]
    numbers = [text for text in shown if text.isdigit() and len(text) == 3]
    assert numbers == [f"{n:03}" for n in range(60)] + [f"{n:03}" for n in range(40)]
    assert client.text.count("The end.") == 1
    assert client.text.count("Begin") == 1


def test_tools_sources_threads_and_text_of_others_do_not_drive_the_terminal(terminal: Open) -> None:
    call = {"type": "tool_call", "name": f"get{_EVIL}", "input": {"id": _EVIL}}
    tool = {"name": f"get{_EVIL}", "input": {"id": _EVIL}, "output": '"' + "\\u001b[2J\\u009b" + '"'}
    source = {**SOURCE, "title": f"Returns{_EVIL}", "snippet": _EVIL, "url": f"http://{_EVIL}"}
    old = {**thread(1), "title": f"Old thread{_EVIL}"}
    client, server = terminal(
        chunks(lines(START, delta(f"Hi{_EVIL}"), call, delta("there."), {**DONE_2, "tool_calls": [tool]})),
        chunks(lines(META, {"type": "sources", "sources": [source]}, delta("By [1]."), DONE_1)),
        as_json({"data": [old], "next_cursor": None}),
        as_json({"data": [message(1), {**message(2), "content": f"Saved{_EVIL}"}], "next_cursor": None}),
        problem(404, f"x{_EVIL}"),
    )
    client.say("Hello")
    client.see("⚙ get␛")
    client.see("there.")
    client.see("1 tool call, /tools shows more · 42 tokens")
    client.say("/tools")
    client.see("\\u001b[2J")
    client.say("/form 1")
    client.say("And sources?")
    client.see("Sources")
    client.see("[1] Returns␛")
    client.say("/resume")
    client.see("Old thread␛")
    client.say("/resume 1")
    client.see("Saved␛")
    client.say("Fail")
    client.see("✗ 404 x")
    client.type(CTRL_D)
    assert client.end() == 0
    assert client.odd == []
    assert "owned\x07" not in client.raw
    assert [request.headers.get("x-stream-form") for request in server.requests[:2]] == ["2", "1"]
    assert server.requests[1].json["conversation_id"] == THREAD
    assert server.requests[4].json["conversation_id"] == "thread-1"


def test_every_failure_is_a_line_and_the_talk_goes_on(terminal: Open) -> None:
    failure = {"type": "error", "code": "provider_error", "message": "The model provider failed."}
    client, server = terminal(
        problem(401, "invalid_api_key"),
        problem(404, "agent_not_found"),
        problem(409, "conversation_busy"),
        problem(429, "rate_limited", headers={"Retry-After": "7"}),
        problem(503, "overloaded", headers={"Retry-After": "200"}),
        problem(400, "invalid_request", errors=[{"field": "message", "message": "is too long"}]),
        RESET,
        chunks(lines(START, delta("Some"), failure)),
        unfinished(lines(START, delta("Half")), then="close"),
        chunks(lines(START, delta("All."), DONE_2)),
    )
    for expected in (
        "401 invalid_api_key: ",
        "404 agent_not_found: ",
        "409 conversation_busy: ",
        "429 rate_limited: What rate_limited means here. (retry after 7 s",
        "503 overloaded: What overloaded means here. (retry after 200 s",
        "400 invalid_request: message: is too long",
        "the service did not answer: ",
        "provider_error: The model provider failed.",
        "the stream broke off, the run goes on: ",
    ):
        client.say("Hello")
        client.see("✗")
        client.see(expected)
    client.say("Hello")
    client.see("All.")
    client.say("/quit")
    assert client.end() == 0
    assert len(server.requests) == 10, "nothing is retried without the user"


def test_a_plan_without_form_2_is_answered_in_form_1_from_then_on(terminal: Open) -> None:
    client, server = terminal(
        problem(403, "plan_upgrade_required"),
        chunks(lines(META, delta("In form 1."), DONE_1)),
        chunks(lines(META, delta("Again."), DONE_1)),
        problem(403, "plan_upgrade_required"),
    )
    client.say("Hello")
    client.see("continuing with form 1")
    client.see("In form 1.")
    client.say("Hello")
    client.see("Again.")
    client.say("/form 2")
    client.say("Hello")
    client.see("✗ 403 plan_upgrade_required: ")
    assert [request.headers["x-stream-form"] for request in server.requests] == ["2", "1", "1", "2"]


def test_lines_are_edited_kept_and_brought_back(terminal: Open, tmp_path: Path) -> None:
    reply = chunks(lines(START, delta("Yes."), DONE_2))
    client, server = terminal(*[reply] * 3)
    client.see("> ")
    client.type("not this" + CTRL_C)
    client.type("first" + ALT_ENTER + "second\\\rthird\r")
    client.see("Yes.")
    client.see("42 tokens")
    client.see("> ")
    client.type(UP * 3 + "\r")
    client.see("Yes.")
    client.say("//help me")
    client.see("Yes.")
    assert [request.json["message"] for request in server.requests] == [
        "first\nsecond\nthird",
        "first\nsecond\nthird",
        "/help me",
    ]
    client.say("/nonsense")
    client.see("no command /nonsense")
    kept = tmp_path / "agentchat" / "chat_history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "second" in kept.read_text()


def test_ctrl_c_cancels_by_the_trace_of_the_answers_header(terminal: Open) -> None:
    client, server = terminal(
        unfinished(lines(START, delta("Slowly"))),
        problem(404, "not_found"),
        chunks(lines(START, delta("Next."), DONE_2)),
    )
    client.say("Hello")
    client.see("Slowly")
    client.type(CTRL_C)
    client.see("✗ The reply cannot be stopped: 404 not_found: ")
    client.see("Left.")
    client.say("Hello again")
    client.see("Next.")
    first, cancel, second = server.requests
    assert cancel.method == "POST"
    assert cancel.target == f"/v1/chat/{TRACE}/cancel"
    assert second.json["conversation_id"] == THREAD
    assert first.json["message"] == "Hello"


def test_a_single_message_on_a_terminal_is_rendered(terminal: Open) -> None:
    client, _ = terminal(chunks(lines(START, delta("**Bold** words"), DONE_2)), arguments=("-m", "Hello"))
    client.see("Bold words")
    assert client.end() == 0


def test_what_a_tool_asks_for_is_typed_and_the_reply_goes_on(terminal: Open) -> None:
    call = {"type": "tool_call", "name": "book", "input": {"day": "Monday"}}
    schema = {
        "type": "object",
        "properties": {
            "guests": {"type": "integer", "title": "Guests"},
            "place": {"type": "string", "oneOf": [{"const": "in", "title": "inside"}, {"const": "out"}]},
            "pets": {"type": "boolean", "default": False},
            "note": {"type": "string"},
        },
    }
    form = {"id": "a-1", "tool": "book", "elicitation": {"message": "Who?", "requested_schema": schema}}
    link = {
        "id": "a-2",
        "tool": "pay",
        "elicitation": {"message": "Pay first.", "mode": "url", "url": "https://pay.example.com/1"},
    }
    paused = {"type": "error", "code": "approval_required", "message": "A.", "approvals": [form, link]}
    client, server = terminal(
        chunks(lines(START, call, paused)),
        problem(400, "invalid_request", errors=[{"field": "input", "message": "too many guests"}]),
        as_json({}),
        as_json({}),
        chunks(lines(START, call, delta("It is booked."), DONE_2)),
    )
    client.say("Book")
    for guests in ("many", "4"):
        client.see("Answer it?")
        client.type("y\r")
        client.see("Guests:")
        client.type(f"{guests}\r")
        if guests == "many":
            client.see("That is no number.")
            client.type("99\r")
        client.see("place [in (inside), out]:")
        client.type("in\r")
        client.see("pets [y, n]:")
        client.type("\r")
        client.see("note:")
        client.type("\r")
        if guests == "many":
            client.see("too many guests")
    client.see("https://pay.example.com/1")
    client.see("Do you open it?")
    client.type("n\r")
    client.see("It is booked.")
    client.type(CTRL_D)
    assert client.end() == 0
    answered = {"place": "in", "pets": False}
    assert [request.json for request in server.requests[1:4]] == [
        {"decision": "approved", "input": {"guests": 99} | answered},
        {"decision": "approved", "input": {"guests": 4} | answered},
        {"decision": "denied"},
    ]


def test_a_tool_that_needs_a_word_is_asked_about_and_the_reply_goes_on(terminal: Open) -> None:
    call = {"type": "tool_call", "name": "cancel_order", "input": {"order_id": "ORD-1"}}
    waiting = {"id": "a-1", "tool": "cancel_order", "input": {"order_id": "ORD-1"}, "expires_at": "later"}
    paused = {"type": "error", "code": "approval_required", "message": "A person.", "approvals": [waiting]}
    client, server = terminal(
        chunks(lines(START, delta("Let me see."), call, paused)),
        problem(400, "invalid_request", errors=[{"field": "input", "message": "does not fit"}]),
        as_json({}),
        chunks(lines(START, delta("Let me see."), call, delta("It is cancelled."), DONE_2)),
    )
    client.say("Cancel ORD-1")
    client.see("needs your approval.")
    client.see("Run it?")
    client.type("e\r")
    client.see("input: ")
    client.type("\r")
    client.see("does not fit")
    client.see("Run it?")
    client.type("y\r")
    client.see("It is cancelled.")
    client.see("42 tokens")
    client.type(CTRL_D)
    assert client.end() == 0
    assert client.text.count("Let me see.") == 1
    assert client.text.count("⚙ cancel_order") == 1
    assert [request.json for request in server.requests[1:3]] == [
        {"decision": "approved", "input": {"order_id": "ORD-1"}},
        {"decision": "approved"},
    ]
    assert server.requests[3].target.endswith("/events")
