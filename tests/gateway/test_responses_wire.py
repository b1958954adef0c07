"""What the Responses API writes: events whose numbers are places, whatever pieces the text came in."""

import re
from datetime import datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from openai.types.responses import ResponseError

from agentchat.contracts.approval_bodies import DecisionBody
from agentchat.contracts.examples import SOURCE
from agentchat.contracts.ids import make_id
from agentchat.contracts.updates import (
    CANCELLED,
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolStarted,
    Update,
)
from agentchat.contracts.values import Message, Usage
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.protocols.openai.responses import response_types
from agentchat.gateway.protocols.openai.responses.input_items import (
    InputItem,
    Reference,
    read_verdicts,
    split_at_reference,
)
from agentchat.gateway.protocols.openai.responses.previous_response import build_response_id
from agentchat.gateway.protocols.openai.responses.response_output import ResponseOutput, build_response
from agentchat.gateway.runs.after_pause import AfterPause, PausePoint
from agentchat.runtime.postgres import Pool
from tests.gateway.client import Client
from tests.gateway.conftest import Accounts
from tests.gateway.live_frames import make_events
from tests.gateway.stored import AT, request, write
from tests.gateway.test_behind import FORM, WAIT, make_denied, make_request

BEGUN = response_types.Response(
    id="resp_1",
    created_at=0,
    status="in_progress",
    model="m",
    conversation=response_types.ConversationRef(id="conv_1"),
)
REPLY = Message(id="r", conversation_id="c", content="Grüße🙂 Ada.", token_count=9, created_at="")
FINISHED = Finished(REPLY, (), Usage(input_tokens=5, output_tokens=2, cache_read_tokens=2))


def read_told(*pieces: str, second: tuple[str, ...] = (" Ada.",)) -> list[Update]:
    """A run of two rounds, whose texts come in these pieces."""
    return [
        Started(),
        RetrievedSources((SOURCE,)),
        *map(TextUpdate, pieces),
        ToolStarted("a", "find", {"q": 1}),
        ToolStarted("b", "find", {}),
        ToolEnded("a", False, "[1]"),
        ToolEnded("b", True, '"It is away."'),
        NextRound(2),
        *map(TextUpdate, second),
        FINISHED,
    ]


def read_events(updates: list[Update], after: int = -1, behind: AfterPause | None = None) -> list[Any]:
    data = ResponseOutput(BEGUN, after, behind).encode(updates)
    read = make_events(data)
    assert re.findall(r"^event: (.+)$", data.decode(), re.MULTILINE) == [event["type"] for event in read]
    return read


def join_text(read: list[Any]) -> str:
    return "".join(event["delta"] for event in read if event["type"] == "response.output_text.delta")


def list_others(read: list[Any]) -> list[Any]:
    return [event for event in read if event["type"] != "response.output_text.delta"]


def test_events_are_in_openai_order_and_end_with_response() -> None:
    read = read_events(read_told("Grüße", "🙂"))
    message = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    called = [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.done",
    ]
    assert [event["type"] for event in read] == [
        *("response.created", "response.in_progress"),
        *message[:2],
        *message[2:3] * 2,
        "response.output_text.annotation.added",
        *message[3:],
        *called * 2,
        *("response.mcp_call.completed", "response.output_item.done"),
        *("response.mcp_call.failed", "response.output_item.done"),
        *message,
        "response.completed",
    ]
    response = read[-1]["response"]
    assert response == msgspec.json.decode(msgspec.json.encode(build_response(BEGUN, read_told("Grüße🙂"))))
    first, a, b, last = response["output"]
    assert (first["content"][0]["text"], last["content"][0]["text"]) == ("Grüße🙂", " Ada.")
    assert [note["url"] for note in first["content"][0]["annotations"]] == [SOURCE.url]
    assert last["content"][0]["annotations"] == []
    assert (a["status"], a["arguments"], a["output"], a["error"]) == ("completed", '{"q":1}', "[1]", None)
    assert (b["status"], b["output"], b["error"]["content"][0]["text"]) == ("failed", None, "It is away.")
    assert response["usage"]["input_tokens"] == 7
    assert response["usage"]["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 0}


@pytest.mark.parametrize("pieces", [("Grüße🙂",), ("Grü", "ße🙂"), (*"Grüße🙂",)])
def test_rest_after_a_number_ignores_how_text_was_split(pieces: tuple[str, ...]) -> None:
    whole = read_events(read_told("Grüße🙂"))
    every = read_events(read_told(*"Grüße🙂", second=tuple(" Ada.")))
    read = read_events(read_told(*pieces))
    assert list_others(read) == list_others(whole)
    numbers = [event["sequence_number"] for event in read]
    assert numbers == sorted(set(numbers))
    for after in range(numbers[-1] + 2):
        rest = read_events(read_told(*pieces), after)
        assert list_others(rest) == [
            event for event in list_others(whole) if event["sequence_number"] > after
        ]
        assert rest == [] or rest[0]["sequence_number"] > after
        known = [event for event in every if event["sequence_number"] <= after]
        assert join_text(known) + join_text(rest) == REPLY.content


def test_what_failed_or_was_cancelled_is_not_whole() -> None:
    begun: list[Update] = [Started(), ToolStarted("a", "find", {}), NextRound(2), TextUpdate("It")]
    for last, status in ((Broken("provider_timeout", ""), "failed"), (CANCELLED, "cancelled")):
        *_, ended = read_events([*begun, last])
        response = ended["response"]
        assert (ended["type"], response["status"]) == ("response.failed", status)
        assert ResponseError.model_validate(response["error"]).code == "server_error", "one of OpenAI's"
        assert response["error"]["service_code"] == last.code
        assert [item["status"] for item in response["output"]] == ["incomplete", "incomplete"]
    *_, ended = read_events([Started(), Finished(REPLY, (), Usage(), "length")])
    assert ended["type"] == "response.incomplete"
    assert ended["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_interrupted_stream_resumes_after_its_last_event() -> None:
    local = Broken("server_shutdown", "It stops.", local=True)
    read = read_events([Started(), RetrievedSources((SOURCE,)), TextUpdate("Grüße"), local])
    assert (read[-1]["type"], read[-1]["code"]) == ("error", "server_shutdown")
    assert read[-1]["error"]["message"] == "It stops.", "for SDKs, which raise what has it"
    rest = read_events(read_told("Grüße🙂"), read[-1]["sequence_number"])
    assert join_text(rest) == "🙂 Ada."
    assert read_events([local], 7)[-1]["sequence_number"] == 7


def test_pause_completes_response_without_a_number() -> None:
    before: list[Update] = [
        Started(),
        TextUpdate("a"),
        ToolStarted("3", "find", {"q": 1}, needs_approval=True),
    ]
    used = Usage(input_tokens=5, output_tokens=4, cache_read_tokens=3)
    *run, last = read_events([*before, replace(WAIT, usage=used)])
    *_, asked = last["response"]["output"]
    assert (last["type"], last["response"]["status"]) == ("response.completed", "completed")
    assert [item["type"] for item in last["response"]["output"]] == ["message", "mcp_approval_request"], (
        "a call that waits is no result"
    )
    assert last["response"]["usage"]["total_tokens"] == 12
    assert asked == {
        "type": "mcp_approval_request",
        "id": "approval-1",
        "name": "find",
        "server_label": "agent",
        "arguments": "{}",
    }
    place = read_events(before)[-1]["sequence_number"]
    numbers = [each["sequence_number"] for each in (*run, last)]
    assert numbers == sorted(set(numbers)), "strictly increasing"
    assert [each["type"] for each in read_events([*before, WAIT], place)] == [
        *("response.output_item.added", "response.output_item.done", "response.completed")
    ]
    assert "mcp_call" not in str(run), "nor in the stream: clients show an item that is done as a result"
    *_, ended = read_events([*before, ToolEnded("3", False, "[1]"), FINISHED])
    assert [item["type"] for item in ended["response"]["output"]] == ["message", "mcp_call"]


def test_a_citation_has_the_place_of_its_mark() -> None:
    other = replace(SOURCE, index=SOURCE.index + 1, url="https://other.example/")
    mark = f"[{SOURCE.index}]"
    pieces = ["Grüße🙂 ", mark[:1], f"{mark[1:]}, ", "[99] ", mark]
    *_, last = read_events([Started(), RetrievedSources((SOURCE, other)), *map(TextUpdate, pieces), FINISHED])
    (part,) = last["response"]["output"][0]["content"]
    places = [(note["url"], note["start_index"], note["end_index"]) for note in part["annotations"]]
    assert places[-1] == (other.url, 0, 0), "not cited"
    assert [part["text"][start:end] for _, start, end in places[:-1]] == [mark, mark]
    assert {url for url, *_ in places[:-1]} == {SOURCE.url}


def test_elicitation_is_in_request_and_answered_in_response() -> None:
    *_, last = read_events([Started(), ToolStarted("3", "find", {"q": 1}), *make_request(FORM)])
    asked = last["response"]["output"][-1]
    assert asked["elicitation"] == {"message": "Who?", "requested_schema": FORM.requested_schema}
    item = {
        "type": "mcp_approval_response",
        "approval_request_id": asked["id"],
        "approve": True,
        "input": {"name": "Ada"},
    }
    (said,) = read_verdicts(tuple(msgspec.convert([item], list[InputItem])))
    assert said.body == DecisionBody(decision="approved", input={"name": "Ada"})
    with pytest.raises(Refusal, match="invalid_request"):
        read_verdicts((msgspec.convert(item | {"input": "Ada"}, InputItem),))


def test_what_is_behind_a_wait_is_a_response_of_its_own() -> None:
    goes_on: list[Update] = [Started(), ToolEnded("3", False, "[1]"), NextRound(3), TextUpdate("b"), FINISHED]
    read_told = read_events(goes_on, behind=AfterPause(make_denied(), PausePoint(2)))
    call, said = read_told[-1]["response"]["output"]
    assert (call["id"], call["approval_request_id"], call["output"]) == ("mcp_3", "approval-1", "[1]")
    assert said["content"][0]["text"] == "b"
    assert [each["output_index"] for each in read_told if "item_id" in each] == [0, 0, 0, 1, 1, 1, 1]
    numbers = [each["sequence_number"] for each in read_told]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(("model", "named"), [("Sales/Waits", "Sales/Waits"), (None, "")])
async def test_a_response_in_line_has_its_model_and_the_time_of_its_request(
    client: Client, accounts: Accounts, store: ConversationStore, pool: Pool, model: str | None, named: str
) -> None:
    first = request(accounts.free)
    await write(store, first)
    trace_id = make_id().replace("-", "")
    await WaitingLine(pool, "w").join(first.conversation_id, trace_id, AT, first.account_id, model)
    found = await client.http.get(
        f"{client.url}/openai/v1/responses/{build_response_id(trace_id)}",
        headers={"Authorization": f"Bearer {client.headers['X-Api-Key']}"},
    )
    assert found.status_code == 200
    body = found.json()
    expected = int(datetime.fromisoformat(AT).timestamp())
    assert (body["status"], body["model"], body["created_at"]) == ("queued", named, expected)


APPROVAL, REPLY_ITEM = "0192f0c1-0000-7000-8000-0000000000b1", f"msg_{'a' * 32}_1"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ([REPLY_ITEM], Reference(f"resp_{'a' * 32}", "input[0].id")),
        ([f"fc_{'a' * 32}_2"], Reference(f"resp_{'a' * 32}", "input[0].id")),
        ([APPROVAL], Reference("", "input[0].id", APPROVAL)),
        ([APPROVAL.upper(), "mcp_7"], Reference("", "input[0].id", APPROVAL.upper())),
        ([REPLY_ITEM, APPROVAL], Reference(f"resp_{'a' * 32}", "input[0].id")),
        ([APPROVAL, "mcp_7", REPLY_ITEM], Reference(f"resp_{'a' * 32}", "input[2].id")),
        (["mcp_7"], None),
        (["resp_7"], None),
        ([""], None),
    ],
)
def test_last_named_item_tells_where_the_response_continues(
    named: list[str], expected: Reference | None
) -> None:
    items = [InputItem(type="item_reference", id=each) for each in named]
    given = (*items, InputItem(role="user", content="hi"))
    if expected is None:
        with pytest.raises(Refusal, match="invalid_request"):
            split_at_reference(given)
        return
    reference, first, new = split_at_reference(given)
    assert (reference, first, len(new)) == (expected, len(named), 1)


@pytest.mark.parametrize("before", [[], [REPLY_ITEM], ["mcp_7"], [APPROVAL]])
async def test_approval_is_answered_after_a_reference_to_its_request(
    client: Client, before: list[str]
) -> None:
    items = [{"type": "item_reference", "id": each} for each in (*before, APPROVAL)]
    answer = {"type": "mcp_approval_response", "approval_request_id": APPROVAL, "approve": True}
    body = {"model": client.headers["X-Agent-Id"], "input": [*items, answer]}
    headers = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    response = await client.http.post(f"{client.url}/openai/v1/responses", json=body, headers=headers)
    assert (response.status_code, response.json()["error"]["message"]) == (404, "There is no such approval.")
