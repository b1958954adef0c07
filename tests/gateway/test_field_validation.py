"""Validation: headers, fields and parameters with invalid values (interface specification, section 4)."""

import base64
import json
from typing import Any

import pytest

from agentchat.contracts import errors, ids
from agentchat.runtime.postgres import Pool
from tests.administrator import plan_with, put_plan
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts, make_account
from tests.gateway.sockets import ask
from tests.support.embedded_service import EmbeddedService

KIB = 1024
NO_THREAD = '"conversation_id":"not-an-id"'  # so that a body that is let in ends as 404, and starts no run


def encode_body(place: Any) -> str:
    data = place if isinstance(place, bytes) else json.dumps(place).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("content", "field"),
    [
        *((content, "body") for content in (b"", b"{", b"[]", b'"hi"', b"null", b"[" * 100_000)),
        (b'{"message":"hi"}}', "body"),
        (b'{"message":"\xff"}', "body"),
        (b'\xef\xbb\xbf{"message":"a"}', "body"),
        ('{"message":"a"}'.encode("utf-16"), "body"),
        (b'{"message":NaN}', "body"),
        (b'{"message":"a",}', "body"),
        (b'{"message":"a"}{"message":"a"}', "body"),
        (b'{"message":"\\ud83d"}', "body"),
        (b'{"message":"a","x":' + b"[" * 32 + b"]" * 32 + b"}", "x"),
        (b"{}", "message"),
        (b'{"message":null}', "message"),
        (b'{"message":""}', "message"),
        (b'{"message":" \\n\\t\\u2003"}', "message"),
        (b'{"message":1}', "message"),
        (b'{"message":true}', "message"),
        (b'{"message":["hi"]}', "message"),
        (b'{"message":"hi","conversation_id":7}', "conversation_id"),
        (b'{"message":"hi","prompt":{}}', "prompt"),
        (b'{"message":"hi","conversationId":"x"}', "conversationId"),
        (b'{"message":"hi","model":"x"}', "model"),
        (b'{"Message":"hi"}', "Message"),
        (b'{"message":"a","' + b"n" * 5000 + b'":1}', "n" * 100),
        (b'{"message":"a","account_id":"x"}', "account_id"),
    ],
)
async def test_wrong_body_is_refused_by_field(client: Client, content: bytes, field: str) -> None:
    problem = check_problem(await client.post(content=content), 400, "invalid_request")
    assert [error["field"] for error in problem.get("errors", [])] == [field]


@pytest.mark.parametrize(
    ("fits", "fragment"), [(256 * KIB, '"message":"%s"'), (64 * KIB, '"message":"a","prompt":"%s"')]
)
@pytest.mark.parametrize(("letter", "size"), [("a", 1), ("é", 2), ("😀", 4), ("\\u00e9", 2), ("\\u0000", 3)])
async def test_text_is_bounded_to_the_byte(
    client: Client, fits: int, fragment: str, letter: str, size: int
) -> None:
    """As it is stored: U+FFFD takes the place of NUL."""
    within = letter * (fits // size) + "a" * (fits % size)
    for text, status, code in (
        (within, 404, "conversation_not_found"),
        (within + "a", 413, "message_too_large"),
    ):
        response = await client.post(content=f"{{{NO_THREAD},{fragment % text}}}".encode())
        problem = check_problem(response, status, code)
    assert problem["errors"]


async def test_a_body_is_bounded_to_the_byte(client: Client) -> None:
    content = f'{{"message":"a",{NO_THREAD}}}'.encode()
    whole = content + b" " * (1024 * KIB - len(content))
    check_problem(await client.post(content=whole), 404, "conversation_not_found")
    check_problem(await client.post(content=whole + b" "), 413, "message_too_large")


async def test_a_plan_bounds_the_message_to_the_byte(pool: Pool, client: Client) -> None:
    await put_plan(pool, plan_with("Short", max_message_bytes=100))
    account = await make_account(pool, "Short")
    short = Client(client.http, client.url, account.key, account.agent)
    for text, status in (("a" * 100, 404), ("a" * 101, 413), ("é" * 50, 404), ("é" * 50 + "a", 413)):
        response = await short.post(content=f'{{"message":"{text}",{NO_THREAD}}}'.encode())
        assert response.status_code == status


HEADERS: list[tuple[str, list[str], int]] = [
    *(("X-Stream-Form", [value], 400) for value in ("", "0", "3", "01", "1, 2", "form1", "1;", "\xb9")),
    ("X-Agent-Id", [], 400),
    ("X-Agent-Id", [""], 400),
    *(("X-Agent-Id", [value], 404) for value in ("agent-1", "{AGENT}", "urn:uuid:AGENT", "AGENT,")),
    *(("X-Agent-Id", [value], 404) for value in ("0" * 32, "AGENT0")),
    ("X-Agent-Id", ["UPPER"], 404),
    ("Content-Type", [], 415),
    *(("Content-Type", [value], 415) for value in ("", "json", "text/plain", "application/jsonx")),
    ("Content-Type", ["application/json; charset=latin-1"], 415),
    ("Content-Type", ["multipart/form-data; boundary=x"], 415),
    ("Content-Type", ["application/x-www-form-urlencoded"], 415),
    ("Content-Type", ['Application/JSON; Charset="UTF-8"'], 404),
    ("Content-Type", ["application/json;charset=utf-8"], 404),
    ("Content-Encoding", ["gzip"], 415),
    ("X-Api-Key", ["KEY", "sk-ac-x"], 401),
    ("X-Api-Key", ["KEY,KEY"], 401),
    ("Accept", ["text/html"], 404),
    ("X-Http-Method-Override", ["DELETE"], 404),
]


@pytest.mark.parametrize(("name", "values", "status"), HEADERS, ids=str)
async def test_headers_say_one_thing(
    client: Client, gateway: EmbeddedService, name: str, values: list[str], status: int
) -> None:
    """With 404 where the header is let in: there is no such conversation."""
    key, agent = client.headers["X-Api-Key"], client.headers["X-Agent-Id"]
    usual = {"X-Api-Key": ["KEY"], "X-Agent-Id": ["AGENT"], "Content-Type": ["application/json"]}
    lines = [f"{each}: {value}" for each, found in (usual | {name: values}).items() for value in found]
    head = ["POST /v1/chat/stream HTTP/1.1", "Host: x", "Connection: close", *lines]
    content = f'{{"message":"a",{NO_THREAD}}}'.encode()
    text = "\r\n".join([*head, f"Content-Length: {len(content)}", "", ""])
    for word, value in (("KEY", key), ("AGENT", agent), ("UPPER", agent.upper())):
        text = text.replace(word, value)
    (answer,) = await ask(gateway.port, text.encode("latin-1") + content)
    assert answer.status == status
    problem = answer.check_refusal()
    assert status != 400 or [error["field"] for error in problem["errors"]] == [name]


async def test_wrong_and_unknown_conversation_ids_get_one_message(client: Client) -> None:
    """One in a chat, which can start a conversation, and one everywhere else."""
    unknown = ids.make_id()
    details = set()
    for value in (
        "",
        "x",
        "{" + unknown + "}",
        unknown[:-1],
        unknown + "0",
        "\\u0000",
        "x" * 5000,
        "' OR 1=1--",
    ):
        response = await client.post(content=f'{{"message":"a","conversation_id":"{value}"}}'.encode())
        details.add(check_problem(response, 404, "conversation_not_found")["detail"])
    assert details == {errors.get_error_code("conversation_not_found").advice}
    details = set()
    for value in (unknown, unknown.upper(), "x", "%00", "%27", "..%5c", "%F0%9F%98%80", "x" * 5000):
        for path in (f"/v1/conversations/{value}", f"/v1/conversations/{value}/messages"):
            details.add(check_problem(await client.get(path), 404, "conversation_not_found")["detail"])
    assert details == {"Check its id: there is no such conversation."}


async def test_pages_are_asked_for_in_one_form(client: Client) -> None:
    wrong = {
        "limit": ["0", "101", "-1", "1.5", "0x5", "5;x", "x", "99999999999", "\x00"],
        "cursor": ["!!!", "é", "a", "====", "\x00", "x" * 5000]
        + [
            encode_body(place)
            for place in (5, "x", ["x"], ["x", "y", "z"], [1, 2], None, b"\xff", b"[" * 3000)
        ],
    }
    for name, values in wrong.items():
        for value in values:
            problem = check_problem(
                await client.get("/v1/conversations", **{name: value}), 400, "invalid_request"
            )
            assert [error["field"] for error in problem["errors"]] == [name], value
    for place in (
        ["\x00", "\x00"],
        ["x", "y"],
        ["infinity", ids.make_id()],
    ):  # a cursor of one's own finds what it finds
        response = await client.get("/v1/conversations", cursor=encode_body(place))
        assert response.status_code in (200, 400)
    for query in ("limit=1&cursor=", "&&"):
        response = await client.send("GET", f"/v1/conversations?{query}")
        assert response.json() == {"data": [], "next_cursor": None}


@pytest.mark.parametrize("traceparent", ["00-zz-zz-01", f"00-{'f' * 32}-00f067aa0ba902b7-01"])
async def test_what_a_caller_says_of_itself_changes_nothing(
    client: Client, accounts: Accounts, traceparent: str
) -> None:
    spoofed = {
        "x_trace_id": "f" * 32,
        "x_request_id": "a\tb",
        "traceparent": traceparent,
        "tracestate": "=" * 600,
        "x_account_id": accounts.other.account_id,
        "x_forwarded_for": "203.0.113.9",
        "forwarded": "for=203.0.113.9",
    }
    made = set()
    for _ in range(2):
        response = await client.post(content=b"{}", **spoofed)
        check_problem(response, 400, "invalid_request")
        made.add(response.headers["x-trace-id"])
    assert len(made - {"f" * 32}) == 2
    assert all(map(ids.is_trace_id, made))
