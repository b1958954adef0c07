"""Files in requests are stored before the request is published, or the request is refused and stores none."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from agentchat.administration.agent_versions import create_agent
from agentchat.contracts import ids
from agentchat.contracts.ownership import Owner
from agentchat.directory.agent_validation import AgentDraft
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.administrator import SEALER
from tests.files.images import JPEG, make_png
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts
from tests.gateway.test_idempotency import add_key
from tests.gateway.worker import Turn, Worker
from tests.webhooks.receiver import Receiver, build_status, open_receiver

PNG = make_png()
PDF = b"%PDF-1.4\n%%EOF"
Body = dict[str, Any]


def encode(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def build_answer(content: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content


@pytest.fixture(scope="module")
def environ(environ: dict[str, str]) -> dict[str, str]:
    return environ | {"AGENTCHAT_FILES_ALLOW": "127.0.0.1:*"}


@pytest.fixture
def files(pool: Pool, environ: dict[str, str]) -> FileStore:
    return FileStore(pool, ObjectStore(environ["AGENTCHAT_FILES_URL"]))


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with open_receiver() as serving:
        yield serving


@pytest.fixture
async def count(pool: Pool, accounts: Accounts) -> Callable[[], Awaitable[int]]:
    async def count_files() -> int:
        async with acquire_connection(pool) as conn:
            query = "SELECT count(*) FROM files WHERE account_id = %s"
            row = await (await conn.execute(query, [accounts.free.account_id])).fetchone()
        assert row is not None
        return int(row[0])

    return count_files


async def ask(
    client: Client, worker: Worker, path: str, body: Body, message: str
) -> tuple[Turn, httpx.Response]:
    """Send a body and answer the run of its message."""
    key = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    path = path.replace("{agent}", client.headers["X-Agent-Id"])
    headers = client.headers if path == "/v1/chat" else key
    asking = asyncio.create_task(client.http.post(client.url + path, json=body, headers=headers))
    turn = await worker.next(message)
    await turn.answer()
    return turn, await asking


async def test_files_of_all_kinds_keep_their_order(
    client: Client, worker: Worker, files: FileStore, accounts: Accounts, receiver: Receiver
) -> None:
    receiver.answer_with("/map.jpg?x=1", build_status(302, "Location: /moved"))
    receiver.answer_with("/moved", build_answer(JPEG))
    uploaded = await files.put(accounts.free.account_id, None, "order.pdf", PDF)
    message = ids.make_id()
    attachments = [
        {"url": encode(PNG)},
        {"file_id": uploaded.file_id},
        {"url": f"/v1/files/{uploaded.file_id}/content"},
        {"url": receiver.build_url("/map.jpg?x=1")},
    ]
    turn, response = await ask(
        client, worker, "/v1/chat", {"message": message, "attachments": attachments}, message
    )
    assert response.status_code == 200
    image, *same, fetched = turn.request.attachments
    assert same == [uploaded, uploaded]
    assert (image.media_type, fetched.media_type, fetched.name) == ("image/png", "image/jpeg", "map.jpg")
    assert await files.read(accounts.free.account_id, image.sha256) == PNG
    assert len(receiver.list_at("/moved")) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat", {"message": "", "attachments": [{"url": encode(PNG)}]}),
        (
            "/openai/v1/chat/completions",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": encode(PNG)}}]}
                ]
            },
        ),
        (
            "/openai/v1/responses",
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": encode(PNG)}]}]},
        ),
        (
            "/ag-ui/v1/agents/{agent}",
            {
                "threadId": "t",
                "runId": "r",
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "image",
                                "source": {"type": "data", "value": encode(PNG).partition(",")[2]},
                            }
                        ],
                    }
                ],
            },
        ),
        (
            "/ai-sdk/v1/agents/{agent}/chat",
            {
                "messages": [
                    {"role": "user", "parts": [{"type": "file", "mediaType": "image", "url": encode(PNG)}]}
                ]
            },
        ),
    ],
)
async def test_an_image_alone_is_a_message(client: Client, worker: Worker, path: str, body: Body) -> None:
    body = body | ({"model": client.headers["X-Agent-Id"]} if "openai" in path else {})
    turn, response = await ask(client, worker, path, body, "")
    assert response.status_code == 200, response.text
    assert [(file.media_type, file.bytes) for file in turn.request.attachments] == [("image/png", len(PNG))]


REFUSED = [
    ([{"file_id": ids.make_id()}], 404, "file_not_found", "attachments[0]"),
    ([{"file_id": "\0"}], 404, "file_not_found", "attachments[0]"),
    ([{"url": encode(PNG)}, {"url": encode(b"MZ\x90\0")}], 400, "unsupported_attachment", "attachments[1]"),
    (
        [{"url": encode(PNG)}, {"url": encode(PNG, "application/pdf")}],
        400,
        "unsupported_attachment",
        "attachments[1]",
    ),
    ([{"url": encode(b"hello")}], 400, "unsupported_attachment", "attachments[0]"),
    ([{"url": encode(make_png(20_000))}], 400, "unsupported_attachment", "attachments[0]"),
    ([{"url": "{receiver}/large"}], 400, "unsupported_attachment", "attachments[0]"),
    ([{"url": "https://10.0.0.1/a.png"}], 400, "unsupported_attachment", "attachments[0]"),
    ([{"url": "http://example.com/a.png"}], 400, "unsupported_attachment", "attachments[0]"),
    ([{"url": encode(PNG)}, {"url": "{receiver}/inner"}], 400, "unsupported_attachment", "attachments[1]"),
    ([{"url": "{receiver}/none"}], 400, "unsupported_attachment", "attachments[0]"),
    ([{"url": "{receiver}/huge"}], 413, "file_too_large", "attachments[0]"),
    ([{"url": encode(PNG)}, {"url": "{receiver}/endless"}], 400, "unsupported_attachment", "attachments[1]"),
]


@pytest.mark.parametrize(("attachments", "status", "code", "place"), REFUSED)
async def test_a_file_that_cannot_be_used_is_named_and_nothing_is_stored(
    client: Client,
    worker: Worker,
    receiver: Receiver,
    count: Callable[[], Awaitable[int]],
    attachments: list[dict[str, str]],
    status: int,
    code: str,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if attachments[-1] == {"url": "{receiver}/endless"}:
        monkeypatch.setattr("agentchat.gateway.attachments.message_files.STORE_SECONDS", 0.5)
    receiver.answer_with("/inner", build_status(302, "Location: https://169.254.169.254/key"))
    receiver.answer_with("/large", build_answer(PNG + bytes(5 * 2**20)))
    receiver.answer_with("/huge", build_answer(bytes(33 * 1024 * 1024)))
    receiver.answer_with("/endless", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1")
    message, before = ids.make_id(), await count()
    sent = [
        {name: value.replace("{receiver}", receiver.build_url("")) for name, value in each.items()}
        for each in attachments
    ]
    response = await client.chat(message, attachments=sent)
    problem = check_problem(response, status, code)
    assert [each["field"] for each in problem["errors"]] == [place]
    assert (await count(), worker.count_untaken(message)) == (before, 0)


async def test_a_foreign_or_deleted_file_is_unknown(
    client: Client, files: FileStore, accounts: Accounts
) -> None:
    other = await files.put(accounts.other.account_id, None, "a.png", PNG)
    ada = await files.put(accounts.free.account_id, "ada", "a.png", PNG)
    gone = await files.put(accounts.free.account_id, "bob", "a.png", PNG)
    client.headers["X-User-Id"] = "bob"
    assert await files.delete(Owner(accounts.free.account_id), gone.file_id)
    answers = [await client.chat(attachments=[{"file_id": each.file_id}]) for each in (other, ada, gone)]
    details = [check_problem(answer, 404, "file_not_found")["detail"] for answer in answers]
    assert details == ["attachments[0]: There is no such file. Upload it again."] * 3


async def test_a_request_that_a_worker_refuses_leaves_no_file(
    client: Client, worker: Worker, count: Callable[[], Awaitable[int]]
) -> None:
    message, before = ids.make_id(), await count()
    asking = asyncio.create_task(client.chat(message, attachments=[{"url": encode(PNG)}]))
    await (await worker.next(message)).refuse("conversation_not_found")
    check_problem(await asking, 404, "conversation_not_found")
    assert await count() == before


async def test_a_repeated_key_stores_no_file_again_and_minds_them(
    client: Client, worker: Worker, count: Callable[[], Awaitable[int]]
) -> None:
    message, before = ids.make_id(), await count()
    keyed, given = add_key(client, message), [{"url": encode(PNG)}]
    asking = asyncio.create_task(keyed.chat(message, attachments=given))
    turn = await (await worker.next(message)).accept()
    again = asyncio.create_task(keyed.chat(message, attachments=given))
    other = await keyed.chat(message, attachments=[{"url": encode(JPEG, "image/jpeg")}])
    check_problem(other, 409, "idempotency_conflict")
    await turn.delta("Yes.")
    await turn.complete()
    assert (await asking).json() == (await again).json()
    assert (await count(), worker.count_untaken(message)) == (before + 1, 0)


async def test_a_model_that_sees_no_images_reads_documents(
    client: Client, worker: Worker, pool: Pool, accounts: Accounts, count: Callable[[], Awaitable[int]]
) -> None:
    async with acquire_connection(pool) as conn:
        draft = AgentDraft(name="Blind", model="demo-shop-1", vision=False)
        agent = await create_agent(conn, SEALER, accounts.free.account_id, draft, actor="test")
    client.headers["X-Agent-Id"] = agent
    message, before = ids.make_id(), await count()
    given = [{"url": encode(b"a,b\n1,2\n", "text/csv")}, {"url": encode(PNG)}]
    refused = check_problem(await client.chat(message, attachments=given), 400, "unsupported_attachment")
    assert [each["field"] for each in refused["errors"]] == ["attachments[1]"]
    assert await count() == before
    turn, _ = await ask(client, worker, "/v1/chat", {"message": message, "attachments": given[:1]}, message)
    assert [file.media_type for file in turn.request.attachments] == ["text/csv"]


async def test_files_of_a_history_are_stored_with_it(client: Client, worker: Worker) -> None:
    message = ids.make_id()
    image = {"type": "image_url", "image_url": {"url": encode(PNG)}}
    body = {
        "model": client.headers["X-Agent-Id"],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "See"}, image]},
            {"role": "assistant", "content": "A square."},
            {"role": "user", "content": message},
        ],
    }
    turn, _ = await ask(client, worker, "/openai/v1/chat/completions", body, message)
    assert turn.request.attachments == ()
    assert [[file.media_type for file in each.attachments] for each in turn.request.history] == [
        ["image/png"],
        [],
    ]


async def test_files_may_take_8_mib_of_a_body_but_its_texts_1(client: Client, worker: Worker) -> None:
    message = ids.make_id()
    large = base64.b64encode(b"%PDF-1.4\n" + bytes(5 * 1024 * 1024)).decode()
    path, model = "/openai/v1/chat/completions", {"model": client.headers["X-Agent-Id"]}
    file = {"type": "file", "file": {"file_data": large, "filename": "a.pdf"}}
    content = [{"type": "text", "text": message}, file]
    body = model | {"messages": [{"role": "user", "content": content}]}
    turn, response = await ask(client, worker, path, body, message)
    assert (response.status_code, turn.request.attachments[0].name) == (200, "a.pdf")
    texts = [{"role": "user", "content": "x" * 200_000}, {"role": "assistant", "content": "y"}] * 6
    key = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    for given in ([*texts, {"role": "user", "content": "hi"}], [{"role": "user", "content": [file, file]}]):
        refused = await client.http.post(client.url + path, json=model | {"messages": given}, headers=key)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "message_too_large")
