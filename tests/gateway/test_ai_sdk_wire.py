"""What the AI SDK's protocol reads and writes, byte by byte."""

from typing import Any

import msgspec
from msgspec.structs import replace

from agentchat.contracts import ids
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
from agentchat.gateway.protocols.ai_sdk.ai_sdk_chat import UiChat, read_chat_name, read_history, read_verdicts
from agentchat.gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from agentchat.gateway.runs.after_pause import AfterPause, PausePoint
from tests.gateway.live_frames import make_events, make_finished
from tests.gateway.test_behind import FORM, LINK, WAIT, make_denied, make_request


def make_message(role: str, *texts: str, **more: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": [{"type": "text", "text": text} for text in texts], **more}


HI = make_message("user", "hi")
FILE = replace(SOURCE, id="f", url="", document="docs/terms.pdf")


def parse(*messages: dict[str, Any], **fields: Any) -> UiChat:
    data = msgspec.json.encode({"id": "c", "messages": messages, **fields})
    return msgspec.json.decode(data, type=UiChat)


def read_events(updates: list[Update], behind: AfterPause | None = None) -> list[Any]:
    return make_events(AiSdkChunks(TRACE, CONVERSATION, behind).encode(updates))


def test_a_chat_is_its_texts_and_what_our_tools_did_is_passed_over() -> None:
    ran = {"type": "dynamic-tool", "toolCallId": "1", "toolName": "find", "state": "output-available"}
    reply = make_message("assistant", "Wait.", "Found.")
    reply["parts"] = [
        {"type": "step-start"},
        reply["parts"][0],
        ran | {"input": {}, "output": [1]},
        {"type": "source-url", "sourceId": "s", "url": "u"},
        {"type": "reasoning", "text": "Hm."},
        reply["parts"][1],
    ]
    body = parse(
        make_message("system", "Be brief."), HI, reply, make_message("user", "a", "b"), custom={"x": 1}
    )
    assert read_chat_name(body) == "c"
    shown = read_history(body)
    assert shown.instructions == "Be brief."
    assert shown.messages == (
        ShownMessage("user", "hi"),
        ShownMessage("assistant", "Wait.Found."),
        ShownMessage("user", "a\nb"),
    )


def test_rounds_are_steps_and_each_text_is_a_part() -> None:
    told = read_events(
        [
            Started(),
            RetrievedSources((SOURCE, FILE)),
            TextUpdate("a"),
            TextUpdate("b\u2028"),
            ToolStarted("1", "find", {"q": 1}),
            ToolStarted("2", "find", {}),
            ToolEnded("1", False, '{\n "a": [1]\n}'),
            ToolEnded("2", True, '"It is away."'),
            NextRound(2),
            TextUpdate("c"),
            make_finished("ab\u2028c"),
        ]
    )
    mark = {"providerExecuted": True, "dynamic": True}
    assert told == [
        {
            "type": "start",
            "messageId": ids.derive_reply_id(TRACE),
            "messageMetadata": {"conversationId": CONVERSATION, "traceId": TRACE},
        },
        {"type": "start-step"},
        {"type": "source-url", "sourceId": SOURCE.id, "url": SOURCE.url, "title": SOURCE.title},
        {
            "type": "source-document",
            "sourceId": "f",
            "mediaType": "text/plain",
            "title": SOURCE.title,
            "filename": "docs/terms.pdf",
        },
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "a"},
        {"type": "text-delta", "id": "1", "delta": "b\u2028"},
        {"type": "text-end", "id": "1"},
        {"type": "tool-input-available", "toolCallId": "1", "toolName": "find", "input": {"q": 1}, **mark},
        {"type": "tool-input-available", "toolCallId": "2", "toolName": "find", "input": {}, **mark},
        {"type": "tool-output-available", "toolCallId": "1", "output": {"a": [1]}, **mark},
        {"type": "tool-output-error", "toolCallId": "2", "errorText": "It is away.", **mark},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "2"},
        {"type": "text-delta", "id": "2", "delta": "c"},
        {"type": "text-end", "id": "2"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {"usage": {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}},
        },
        "[DONE]",
    ]


def test_pause_ends_stream_and_rest_continues_same_message() -> None:
    asked = read_events([Started(), TextUpdate("a"), ToolStarted("3", "find", {}), WAIT])
    assert [each if isinstance(each, str) else each["type"] for each in asked] == [
        *("start", "start-step", "text-start", "text-delta", "text-end"),
        *("tool-input-available", "tool-approval-request", "finish-step", "finish", "[DONE]"),
    ]
    assert asked[6] == {"type": "tool-approval-request", "approvalId": "approval-1", "toolCallId": "3"}
    assert asked[-2] == {"type": "finish", "finishReason": "tool-calls"}
    goes_on: list[Update] = [Started(), ToolEnded("3", True, '"No."'), NextRound(3), TextUpdate("b"), WAIT]
    told = read_events(goes_on, AfterPause(make_denied(), PausePoint(2)))
    assert [each if isinstance(each, str) else each["type"] for each in told] == [
        *("start", "tool-output-denied", "start-step", "text-start", "text-delta", "text-end"),
        *("tool-approval-request", "finish-step", "finish", "[DONE]"),
    ]
    assert told[0]["messageId"] == asked[0]["messageId"]


def test_elicitation_is_data_and_answered_by_approval_inputs() -> None:
    told = read_events([Started(), ToolStarted("3", "find", {}), *make_request(FORM)])
    data, request = told[3:5]
    assert data["data"] == {
        "approvalId": "approval-1",
        "toolCallId": "3",
        "message": "Who?",
        "requestedSchema": FORM.requested_schema,
    }
    assert (data["type"], request["type"]) == ("data-elicitation", "tool-approval-request")
    assert read_events([Started(), *make_request(LINK)])[2]["data"]["url"] == "https://pay.example/"
    reply = make_message("assistant", "Wait.")
    given = {"id": "1", "approved": True}
    reply["parts"] += [{"type": "tool-find", "state": "approval-responded", "approval": given}]
    (said,) = read_verdicts(parse(HI, reply, approvalInputs={"1": {"name": "Ada"}}))
    assert said.body.input == {"name": "Ada"}


def test_what_is_said_of_calls_counts_in_the_last_message_alone() -> None:
    def part(approval_id: str, **more: Any) -> dict[str, Any]:
        return {"type": "tool-find", "state": "approval-responded", "approval": {"id": approval_id, **more}}

    reply = make_message("assistant", "Wait.")
    reply["parts"] += [
        part("1", approved=True),
        part("2", approved=False, reason="No."),
        part("3"),
        part("4", approved=True) | {"state": "output-available"},
    ]
    verdicts = read_verdicts(parse(HI, reply))
    assert [(each.approval_id, each.body.decision, each.body.reason) for each in verdicts] == [
        ("1", "approved", None),
        ("2", "denied", "No."),
    ]
    assert read_verdicts(parse(HI, reply, make_message("user", "and?"))) == ()


def test_cut_reply_says_so_and_broken_reply_never_finishes() -> None:
    *_, cut, _ = read_events([Started(), make_finished("", "length")])
    assert cut["finishReason"] == "length"
    told = read_events([Started(), TextUpdate("a"), Broken("provider_timeout", "")])
    assert told[-1] == {
        "type": "error",
        "errorText": "provider_timeout: The model provider did not answer in time",
    }
    assert "finish" not in {each["type"] for each in told}
    assert read_events([Broken("unheard-of", "x")]) == [{"type": "error", "errorText": "internal_error: x"}]
