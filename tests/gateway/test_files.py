"""Files over HTTP: our own routes and OpenAI's."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agentchat.contracts.files import MAX_FILE_BYTES
from agentchat.contracts.ids import make_id
from agentchat.runtime.postgres import Pool
from tests.administrator import plan_with, put_plan
from tests.files.images import make_png
from tests.gateway.conftest import Account, Accounts, make_account
from tests.support.embedded_service import EmbeddedService


class Files:
    """A caller's files, by either protocol."""

    def __init__(self, http: httpx.AsyncClient, gateway: EmbeddedService, account: Account) -> None:
        self.http, self.url, self.account = http, gateway.url, account

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        key = self.account.key
        headers = {"Authorization": f"Bearer {key}"} if path.startswith("/openai") else {"X-Api-Key": key}
        return await self.http.request(method, self.url + path, headers=headers, **more)

    async def upload(self, content: bytes, name: str = "a", kind: str = "", **fields: str) -> httpx.Response:
        part = (name, content, kind) if kind else (name, content)
        return await self.send("POST", "/v1/files", files={"file": part}, data=fields)


@pytest.fixture
def files(http: httpx.AsyncClient, gateway: EmbeddedService, accounts: Accounts) -> Files:
    return Files(http, gateway, accounts.free)


async def test_a_file_is_uploaded_read_listed_and_deleted(files: Files) -> None:
    content = make_png()
    uploaded = await files.upload(content, "Päckchen.png", expires_in_seconds="3600")
    assert uploaded.status_code == 201
    entry = uploaded.json()
    assert (entry["media_type"], entry["bytes"], entry["name"]) == ("image/png", len(content), "Päckchen.png")
    assert entry["expires_at"] > entry["created_at"]
    path = f"/v1/files/{entry['file_id']}"
    assert (await files.send("GET", path)).json() == entry
    sent = await files.send("GET", f"{path}/content")
    assert sent.content == content
    assert sent.headers["content-type"] == "image/png"
    assert sent.headers["x-content-type-options"] == "nosniff"
    assert sent.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert sent.headers["content-disposition"] == "inline; filename*=UTF-8''P%C3%A4ckchen.png"
    second = (await files.upload(b"<script>", "a.html", "text/html")).json()
    page = await files.send("GET", "/v1/files?limit=1")
    assert page.json()["data"] == [second]
    rest = await files.send("GET", "/v1/files", params={"limit": 1, "cursor": page.json()["next_cursor"]})
    assert rest.json()["data"] == [entry]
    html = await files.send("GET", f"/v1/files/{second['file_id']}/content")
    assert html.headers["content-type"] == "text/plain"
    assert html.headers["content-disposition"].startswith("attachment")
    assert (await files.send("DELETE", path)).status_code == 204
    for gone in (path, f"{path}/content", f"/v1/files/{make_id()}", "/v1/files/x"):
        refused = await files.send("GET", gone)
        assert (refused.status_code, refused.json()["code"]) == (404, "file_not_found")


async def test_openai_files_have_openais_shape(files: Files) -> None:
    made = await files.send(
        "POST",
        "/openai/v1/files",
        files={"file": ("a.csv", b"a,b\n")},
        data={
            "purpose": "user_data",
            "expires_after[anchor]": "created_at",
            "expires_after[seconds]": "3600",
        },
    )
    assert made.status_code == 200
    entry = made.json()
    assert entry["object"] == "file"
    assert (entry["filename"], entry["bytes"], entry["purpose"]) == ("a.csv", 4, "user_data")
    assert entry["expires_at"] - entry["created_at"] == 3600
    path = f"/openai/v1/files/{entry['id']}"
    assert (await files.send("GET", path)).json() == entry
    assert (await files.send("GET", f"{path}/content")).content == b"a,b\n"
    listed = (await files.send("GET", "/openai/v1/files?limit=1&purpose=user_data")).json()
    assert (listed["object"], listed["data"], listed["last_id"]) == ("list", [entry], entry["id"])
    assert (await files.send("GET", f"/openai/v1/files?after={entry['id']}")).json()["has_more"] is False
    assert (await files.send("DELETE", path)).json() == {"id": entry["id"], "object": "file", "deleted": True}
    assert (await files.send("GET", path)).json()["error"]["code"] == "file_not_found"


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        pytest.param({"files": {"file": ("a", b"\0")}}, 400, "unsupported_attachment", id="type"),
        pytest.param({"files": {"other": ("a", b"text")}}, 400, "invalid_request", id="no file"),
        pytest.param({"json": {}}, 415, "unsupported_media_type", id="json"),
        pytest.param(
            {"files": {"file": ("a", b"text")}, "data": {"expires_in_seconds": "59"}},
            400,
            "invalid_request",
            id="expires",
        ),
        pytest.param(
            {"files": {"file": ("a", b"text")}, "data": {"note": "x" * 5000}},
            400,
            "invalid_request",
            id="field",
        ),
        pytest.param(
            {"files": {"file": ("a", bytes(MAX_FILE_BYTES + 100_000))}}, 413, "file_too_large", id="size"
        ),
        pytest.param(
            {"content": b"--x\r\nbroken", "type": "multipart/form-data; boundary=x"},
            400,
            "invalid_request",
            id="broken",
        ),
    ],
)
async def test_a_wrong_upload_is_refused_by_name(
    files: Files, more: dict[str, Any], status: int, code: str
) -> None:
    more = dict(more)
    kind = more.pop("type", None)
    key = {"X-Api-Key": files.account.key} | ({"Content-Type": kind} if kind else {})
    refused = await files.http.post(files.url + "/v1/files", headers=key, **more)
    assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text


async def test_a_chunked_upload_is_bounded(files: Files) -> None:
    async def send() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(33):
            yield bytes(2**20)

    headers = {"X-Api-Key": files.account.key, "Content-Type": "multipart/form-data; boundary=x"}
    refused = await files.http.post(files.url + "/v1/files", headers=headers, content=send())
    assert (refused.status_code, refused.json()["code"]) == (413, "file_too_large")


async def test_files_count_in_the_plans_storage(
    http: httpx.AsyncClient, gateway: EmbeddedService, pool: Pool
) -> None:
    await put_plan(pool, plan_with("Small", storage_bytes=100))
    files = Files(http, gateway, await make_account(pool, "Small"))
    refused = await files.upload(b"x" * 101)
    assert (refused.status_code, refused.json()["code"]) == (403, "storage_full")
    assert (await files.upload(b"x" * 100)).status_code == 201
