"""Bounds of what one caller may cost a gateway, whose other callers wait for it meanwhile."""

import asyncio
import contextlib
import threading
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import httpx
import pytest

from contracts import ids
from conversations.event_store.store import ConversationStore
from gateway.http import body_reader, strict_json
from gateway.http.body_reader import BodyReader
from gateway.http.exchange import Exchange, Message
from gateway.http.problem_responses import Refusal, head_of
from tests.gateway import stored
from tests.gateway.client import Client, check_problem, slow_socket
from tests.gateway.conftest import Accounts, StartGateway

MIB = 1024 * 1024
T = TypeVar("T")


def sending(pieces: list[bytes], reader: BodyReader) -> Exchange:
    """A request whose body comes in these pieces."""
    coming = iter(pieces)

    async def receive() -> Message:
        piece = next(coming, None)
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(_: Message) -> None:
        """Nothing is sent."""

    headers = [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")]
    return Exchange({"headers": headers}, receive, send, "0" * 32, reader, head_of)


async def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(client: Client) -> None:
    too_many = "The body has more than 10000 members and elements."
    for count in (10_000, 95_000):
        members = ",".join(f'"m{number}":1' for number in range(count))
        content = f'{{{members},"message":"a","message":"a"}}'.encode()
        problem = check_problem(await client.post(content=content), 400, "invalid_request")
        assert problem["detail"] == too_many
    elements = ",".join(["[{}]"] * 4_000)
    response = await client.post(content=f'{{"message":"a","x":[{elements}]}}'.encode())
    assert check_problem(response, 400, "invalid_request")["detail"] == too_many
    members = ",".join(f'"m{number}":1' for number in range(9_999))
    response = await client.post(content=f'{{"message":"a",{members}}}'.encode())
    problem = check_problem(response, 400, "invalid_request")
    assert [error["field"] for error in problem["errors"]] == sorted(f"m{number}" for number in range(20))


async def test_what_a_text_holds_is_no_value(client: Client) -> None:
    for text in (",[{" * 80_000, '\\"' * 100_000 + "," * 20_000, "\\\\" * 120_000 + "[" * 10_001):
        response = await client.post(content=f'{{"message":"{text}","x":1}}'.encode())
        problem = check_problem(response, 400, "invalid_request")
        assert [error["field"] for error in problem["errors"]] == ["x"]


async def read_json(asked: Exchange, parse: Callable[[bytes], T]) -> T:
    data = await strict_json.receive_json(asked)
    return await strict_json.in_turn(asked, data, lambda: parse(data), counted=True)


async def test_a_large_body_is_read_next_to_the_event_loop() -> None:
    async def parsed_by(size: int) -> int:
        asked = sending([b" " * (size - 2) + b"{}"], BodyReader())
        return await read_json(asked, lambda _: threading.get_ident())

    assert await parsed_by(strict_json.LARGE_BODY_BYTES) == threading.get_ident()
    assert await parsed_by(strict_json.LARGE_BODY_BYTES + 1) != threading.get_ident()


async def test_one_accounts_large_bodies_do_not_keep_anothers_waiting() -> None:
    reader, ended = BodyReader(), list[str]()

    async def read(account_id: str) -> None:
        asked = sending([b" " * strict_json.LARGE_BODY_BYTES + b"{}"], reader)
        asked.account_id = account_id
        await read_json(asked, lambda _: ended.append(account_id))

    await asyncio.gather(*(read(account_id) for account_id in ["many"] * 20 + ["one"]))
    assert len(ended) == 21
    assert ended.index("one") <= 2


async def read_large(reader: BodyReader, account_id: str | None) -> int:
    asked = sending([b" " * 799_998 + b"{}"], reader)
    asked.account_id = account_id
    return await read_json(asked, len)


@pytest.mark.parametrize("share", [0.01, 10.0])
async def test_an_account_that_sends_too_many_bytes_waits_and_no_other_does(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_reader, "SHARE", share)  # 80 KB a second, or 80 MB
    reader = BodyReader()
    burst = [read_large(reader, "many") for _ in range(21)]
    assert await asyncio.gather(*burst) == [800_000] * 21
    later = asyncio.create_task(read_large(reader, "many"))
    assert await asyncio.gather(*(read_large(reader, each) for each in ("one", None))) == [800_000] * 2
    if share > 1:
        assert await later == 800_000
        return
    assert not later.done()
    async with asyncio.timeout(5):  # refused at once: after the one that waits it would wait for 20 s
        with pytest.raises(Refusal) as refused:
            await read_large(reader, "many")
    later.cancel()
    assert refused.value.row.code == "rate_limited"
    assert refused.value.retry_after in range(15, 21)


async def test_a_query_is_bounded_in_fields_and_bytes(client: Client) -> None:
    for query, is_too_large in (
        ("&".join(["a=1"] * 50), False),
        ("&".join(["a=1"] * 51), True),
        ("a=" + "1" * (16 * 1024 - 2), False),
        ("a=" + "1" * (16 * 1024 - 1), True),
    ):
        response = await client.send("GET", f"/v1/conversations?{query}")
        detail = check_problem(response, 400, "invalid_request")["detail"]
        assert detail.startswith("The query") is is_too_large, "else it is an unknown parameter"


async def test_a_body_that_is_not_wanted_is_not_kept() -> None:
    piece = b"x" * (MIB // 16)
    asked = sending([piece] * 16, BodyReader())
    tracemalloc.start()
    try:
        await strict_json.discard(asked)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not asked.unread
    assert peak < len(piece)


async def test_a_page_of_messages_ends_by_bytes_too(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    first = stored.request(accounts.free, message="x" * 256 * 1024)
    for _ in range(3):
        asked = stored.request(accounts.free, first.conversation_id, message=first.message)
        await stored.write(store, asked, *stored.ended(asked, first.message, ids.new_id()))
    path = f"/v1/conversations/{first.conversation_id}/messages"
    page = (await client.get(path, limit=100)).json()
    assert [len(row["content"]) for row in page["data"]] == [256 * 1024] * 4
    rest = (await client.get(path, limit=100, cursor=page["next_cursor"])).json()
    assert [row["role"] for row in rest["data"]] == ["user", "assistant"]
    assert rest["next_cursor"] is None


async def test_what_is_not_shown_is_not_read(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    own, foreign = stored.request(accounts.free), stored.request(accounts.other)
    for asked in (own, foreign):
        await stored.write(store, asked, *stored.ended(asked, "It has shipped.", ids.new_id()))
        await store.append_stored(asked.conversation_id, 7, [("unheard_of.v9", b'{"type":"unheard_of.v9"}')])
    path = f"/v1/conversations/{own.conversation_id}"
    assert (await client.get(path)).json()["message_count"] == 2
    assert len((await client.get(f"{path}/messages")).json()["data"]) == 2
    for path in ("", "/messages"):
        response = await client.get(f"/v1/conversations/{foreign.conversation_id}{path}")
        check_problem(response, 404, "conversation_not_found")


async def test_answers_that_are_not_read_are_few_and_end(
    http: httpx.AsyncClient, start_gateway: StartGateway, accounts: Accounts, store: ConversationStore
) -> None:
    asked = stored.request(accounts.free)
    reply = stored.ended(asked, "x" * 5 * MIB, ids.new_id())[2]  # more than the system buffers
    await stored.write(store, asked, reply)
    path = f"/v1/conversations/{asked.conversation_id}/messages"
    hurry = {"http.exchange.SEND_SECONDS": 6.0, "access.account_bounds.TURN_SECONDS": 0.2}
    process = await start_gateway(hurry)
    client, other = accounts.free.at(http, process), accounts.other.at(http, process)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: {accounts.free.key}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        unread = await asyncio.gather(*(slow_socket(process.port, head) for _ in range(4)))
        for each in unread:
            stack.callback(each.close)
        async with asyncio.timeout(20):
            begun = await asyncio.gather(*(loop.sock_recv(each, 12) for each in unread))
        assert begun == [b"HTTP/1.1 200"] * 4
        refused = await client.get(path)
        check_problem(refused, 429, "rate_limited")
        assert refused.headers["retry-after"] == "1"
        assert (await other.get("/v1/conversations")).status_code == 200
        async with asyncio.timeout(40):
            while (answer := await client.get(path)).status_code == 429:
                pass
        assert len(answer.json()["data"][1]["content"]) == 5 * MIB
        assert "ASGI" not in process.text()
