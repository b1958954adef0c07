"""What AG-UI reads and writes, byte by byte."""

from typing import Any

import msgspec
import pytest

from agentchat.contracts import ids, updates
from agentchat.contracts.approval_bodies import DecisionBody
from agentchat.contracts.examples import CONVERSATION, SOURCE, TRACE
from agentchat.contracts.updates import (
    Broken,
    NextRound,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolStarted,
    Update,
)
from agentchat.contracts.values import ShownMessage
from agentchat.gateway.protocols.ag_ui.ag_ui_events import AgUiEvents
from agentchat.gateway.protocols.ag_ui.run_agent import RunAgentInput, read_history, read_verdicts
from agentchat.gateway.protocols.client_history import ClientHistory
from agentchat.gateway.runs.run_request import Verdict
from tests.gateway.live_frames import make_events, make_finished
from tests.gateway.test_behind import FORM, LINK, WAIT, make_request

HI = {"id": "1", "role": "user", "content": "hi"}
RUN = {"threadId": "t", "runId": "r"}
REPLY = ids.derive_reply_id(TRACE)


CANCELLED = {"interruptId": "1", "status": "cancelled"}
RESOLVED = {"interruptId": "2", "status": "resolved"}


def parse(*messages: dict[str, Any], **fields: Any) -> tuple[ClientHistory | None, tuple[Verdict, ...]]:
    data = msgspec.json.encode({**RUN, "messages": messages, **fields})
    body = msgspec.json.decode(data, type=RunAgentInput)
    return None if body.resume else read_history(body), read_verdicts(body)


def read_events(updates: list[Update], *, is_1_0: bool = True) -> list[Any]:
    data = AgUiEvents("t", "r", TRACE, CONVERSATION, is_1_0=is_1_0).encode(updates)
    assert b"null" not in data, "which 0.0.59 takes for no optional field"
    return make_events(data)


def test_a_thread_is_its_texts_and_what_our_tools_did_is_passed_over() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    shown, _ = parse(
        {"id": "0", "role": "system", "content": "Be brief."},
        HI,
        {"id": "2", "role": "assistant", "content": "Wait.", "toolCalls": [call]},
        {"id": "3", "role": "tool", "content": "[]", "toolCallId": "c"},
        {"id": "4", "role": "reasoning", "content": "Hm."},
        {"id": "5", "role": "activity", "activityType": "x", "content": {"a": 1}},
        {"id": "6", "role": "assistant", "content": "Found."},
        {
            "id": "7",
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        context=[{"description": "The page", "value": "Orders"}],
        tools=[{"name": "own", "description": "", "parameters": {}}],
        state={"x": 1},
    )
    assert shown is not None
    assert shown.instructions == "Be brief.\n\nThe page: Orders"
    assert shown.messages == (
        ShownMessage("user", "hi"),
        ShownMessage("assistant", "Wait.Found."),
        ShownMessage("user", "a\nb"),
    )


def test_each_round_is_a_message_and_its_tools_follow_it() -> None:
    told = read_events(
        [
            Started(),
            RetrievedSources((SOURCE,)),
            TextUpdate("a"),
            TextUpdate("b\u2028"),
            ToolStarted("1", "find", {"q": 1}),
            ToolEnded("1", False, "[1]"),
            NextRound(2),
            ToolStarted("2", "find", {}),
            ToolEnded("2", True, '"It is away."'),
            NextRound(3),
            TextUpdate("c"),
            make_finished("ab\u2028c"),
        ]
    )
    assert [each["type"] for each in told] == [
        *("RUN_STARTED", "CUSTOM", "CUSTOM"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT") * 2,
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        "RUN_FINISHED",
    ]
    assert told[0] == {"type": "RUN_STARTED", **RUN}
    assert told[1]["value"] == {"traceId": TRACE, "conversationId": CONVERSATION}
    assert (told[2]["name"], told[2]["value"][0]["url"]) == ("sources", SOURCE.url)
    starts = [each for each in told if each["type"] == "TOOL_CALL_START"]
    texts = [each["messageId"] for each in told if each["type"] == "TEXT_MESSAGE_START"]
    assert [each["parentMessageId"] for each in starts] == [REPLY, f"{REPLY}-2"]
    assert texts == [REPLY, f"{REPLY}-3"]
    results = [each for each in told if each["type"] == "TOOL_CALL_RESULT"]
    assert [(each["toolCallId"], each["content"]) for each in results] == [
        ("1", "[1]"),
        ("2", '"It is away."'),
    ]
    assert told[-1]["usage"] == [{"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}]
    assert "result" not in told[-1]


@pytest.mark.parametrize(("is_1_0", "expiry"), [(True, {"expiresAt": "later"}), (False, {})])
def test_pause_is_an_interrupt_and_the_rest_another_run(is_1_0: bool, expiry: Any) -> None:
    *_, last = read_events([Started(), TextUpdate("a"), ToolStarted("3", "find", {}), WAIT], is_1_0=is_1_0)
    interrupt = last["outcome"]["interrupts"][0]
    assert (last["type"], last["outcome"]["type"]) == ("RUN_FINISHED", "interrupt")
    assert interrupt.pop("responseSchema")["required"] == ["approved"]
    assert interrupt == {
        "id": "approval-1",
        "reason": "tool_call",
        "toolCallId": "3",
        "message": "The agent asks to run find.",
        **expiry,
    }
    told = read_events(
        [Started(), ToolEnded("3", False, "{}"), NextRound(3), TextUpdate("b"), make_finished("ab")]
    )
    assert [each["type"] for each in told] == [
        *("RUN_STARTED", "CUSTOM", "TOOL_CALL_RESULT"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"),
    ]
    assert told[3]["messageId"] == f"{REPLY}-3"


def test_elicitation_is_an_interrupt_with_schema_or_link() -> None:
    *_, last = read_events([Started(), ToolStarted("3", "find", {}), *make_request(FORM)])
    (interrupt,) = last["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("input_required", "Who?")
    assert interrupt["responseSchema"]["properties"]["input"] == FORM.requested_schema
    assert "metadata" not in interrupt
    *_, last = read_events([Started(), ToolStarted("3", "find", {}), *make_request(LINK)])
    (interrupt,) = last["outcome"]["interrupts"]
    assert interrupt["metadata"] == {"url": "https://pay.example/"}
    assert "input" not in interrupt["responseSchema"]["properties"]
    before = {"id": "2", "role": "assistant", "content": "Wait."}
    payload = {"approved": True, "input": {"name": "Ada"}}
    _, verdicts = parse(HI, before, resume=[RESOLVED | {"payload": payload}])
    assert [each.body for each in verdicts] == [DecisionBody(decision="approved", input={"name": "Ada"})]


def test_interrupts_are_answered_or_dismissed() -> None:
    edited = {"approved": True, "editedArgs": {"q": 2}}
    refused = {"approved": False, "editedArgs": {"q": 2}, "reason": "No."}
    shown, verdicts = parse(
        HI,
        {"id": "2", "role": "assistant", "toolCalls": []},
        resume=[CANCELLED, RESOLVED | {"payload": edited}, RESOLVED | {"payload": refused}],
    )
    assert shown is None
    said = [(each.approval_id, each.is_dismissal, each.body) for each in verdicts]
    assert said == [
        ("1", True, DecisionBody(decision="denied")),
        ("2", False, DecisionBody(decision="approved", input={"q": 2})),
        ("2", False, DecisionBody(decision="denied", reason="No.")),
    ]
    assert parse(HI, resume=[])[0] is not None


def test_a_reply_that_was_cut_or_cancelled_or_broke_says_so() -> None:
    assert read_events([Started(), make_finished("", "length")])[-1]["result"] == {"cut": "length"}
    said: list[Update] = [Started(), TextUpdate("a")]
    *_, ended, last = read_events([*said, updates.CANCELLED])
    assert (ended["type"], last["type"], last["outcome"]) == (
        *("TEXT_MESSAGE_END", "RUN_FINISHED"),
        {"type": "cancelled"},
    )
    last = read_events([*said, updates.CANCELLED], is_1_0=False)[-1]
    assert (last["type"], last["code"]) == ("RUN_ERROR", "cancelled")
    last = read_events([*said, Broken("provider_timeout", "")])[-1]
    assert last == {
        "type": "RUN_ERROR",
        "code": "provider_timeout",
        "message": "The model provider did not answer in time",
    }
    assert read_events([Broken("unheard-of", "x")])[-1]["code"] == "internal_error"
