"""The form `full`: everything a run has, each once, in events that forms 1 and 2 do not change for."""

import json
from typing import Any

import pytest

from agentchat.contracts import ids, sse_encoder
from agentchat.contracts.examples import CALL, CONVERSATION, FILE, MESSAGE, SOURCE, TRACE
from agentchat.contracts.updates import (
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    Update,
    WarningUpdate,
)
from agentchat.contracts.values import ApprovalNeeded, FinishedCall, PendingClientCall, RunWarning, Usage

USAGE = Usage(input_tokens=5, output_tokens=2, cache_read_tokens=3, cache_creation_tokens=1)
TOKENS = {"input": 5, "cache_read": 3, "cache_write": 1, "output": 2, "total": 11}
TOOL = FinishedCall(name="get_order", input={"id": 1}, output='{"ok":1}', id=CALL, is_error=False)
WARNING = RunWarning(code="tool_server_unavailable", subject="crm", message="It is away.")
BEGUN: list[Update] = [Started(), RetrievedSources((SOURCE,)), WarningUpdate(WARNING), TextUpdate("Wait.")]
CALLED: list[Update] = [ToolStarted(CALL, "get_order", {"id": 1}), ToolEnded(CALL, False, '{"ok":1}')]
FINISHED = Finished(MESSAGE, (TOOL,), USAGE, None, (SOURCE,))


def encode(updates: list[Update], form: sse_encoder.Form = "full") -> list[dict[str, Any]]:
    data = sse_encoder.Encoder(form, CONVERSATION, TRACE).encode(updates).decode()
    return [json.loads(line.removeprefix("data: ")) for line in data.split("\n") if line]


def test_full_has_everything_of_a_run() -> None:
    told = encode([*BEGUN, *CALLED, NextRound(2), TextUpdate("It is sent."), FINISHED])
    reply = ids.derive_reply_id(TRACE)
    assert told[0] == {
        "type": "start",
        "conversation_id": CONVERSATION,
        "trace_id": TRACE,
        "message_id": reply,
    }
    assert [each["type"] for each in told[1:]] == [
        *("sources", "warning", "delta", "tool_call", "tool_result", "delta", "done")
    ]
    assert told[2]["subject"] == "crm"
    assert told[4] == {"type": "tool_call", "id": CALL, "name": "get_order", "input": {"id": 1}}
    assert told[5] == {"type": "tool_result", "id": CALL, "output": '{"ok":1}', "is_error": False}
    done = told[-1]
    assert set(done) == {"type", "message", "usage", "sources", "tool_calls"}
    assert (done["usage"], done["tool_calls"][0]["id"]) == (TOKENS, CALL)
    assert done["sources"][0]["id"] == SOURCE.id


def test_a_tools_images_have_addresses_of_their_bytes() -> None:
    (told,) = encode([ToolEnded(CALL, False, "{}", (FILE,))])
    (file,) = told["files"]
    assert file == {
        "file_id": FILE.file_id,
        "media_type": "image/png",
        "bytes": FILE.bytes,
        "name": "parcel.png",
        "url": f"/v1/files/{FILE.file_id}/content",
    }


def test_only_the_full_form_has_progress() -> None:
    update = ToolProgressed(CALL, 1.0, 3.0, "Looking.")
    (told,) = encode([update])
    assert told == {"type": "tool_progress", "id": CALL, "progress": 1.0, "total": 3.0, "message": "Looking."}
    for form in ("form1", "form2"):
        assert sse_encoder.Encoder(form, CONVERSATION, TRACE).encode([update]) == b""


def test_full_always_has_the_same_fields_at_its_end() -> None:
    *_, done = encode([Started(), Finished(MESSAGE, (), cut="length")])
    assert (done["tool_calls"], done["sources"], done["cut"]) == ([], [], "length")
    (done,) = encode([Finished(MESSAGE, ())], "form2")
    assert done.keys() == {"type", "message"}, "the specification's form has none that are empty"


def test_a_wait_and_a_failure_name_the_conversation() -> None:
    needed = ApprovalNeeded(id="a", tool="cancel_order", input={}, expires_at="later")
    wait = Broken("approval_required", "A person has to.", local=True, approvals=(needed,), usage=USAGE)
    *_, waits = encode([Started(), wait])
    assert (waits["type"], waits["conversation_id"]) == ("approval_required", CONVERSATION)
    assert (waits["approvals"][0]["id"], waits["usage"]) == ("a", TOKENS)
    needs = PendingClientCall(id=CALL, name="show_map", input={})
    client = Broken("client_tools_required", "Run the tools.", local=True, client_calls=(needs,), usage=USAGE)
    *_, asks = encode([Started(), client])
    assert (asks["type"], asks["conversation_id"]) == ("client_tools_required", CONVERSATION)
    assert (asks["client_tool_calls"][0]["id"], asks["usage"]) == (CALL, TOKENS)
    *_, failed = encode([Started(), Broken("provider_error", "It failed.")])
    assert failed == {
        "type": "error",
        "code": "provider_error",
        "message": "It failed.",
        "conversation_id": CONVERSATION,
    }


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("form1", ["meta", "sources", "delta", "done"]),
        ("form2", ["start", "delta", "tool_call", "done"]),
    ],
)
def test_forms_1_and_2_have_their_own_events_only(form: sse_encoder.Form, kinds: list[str]) -> None:
    told = encode([*BEGUN, *CALLED, FINISHED], form)
    assert [each["type"] for each in told] == kinds
    assert set(told[0]) == {"type", "conversation_id"} | ({"trace_id"} if form == "form1" else set())
    assert "usage" not in told[-1]
    assert set(encode([Broken("provider_error", "No.")], form)[0]) == {"type", "code", "message"}
