"""An administrator with a token, at one gateway."""

import secrets
from typing import Any

import httpx

from tests.gateway.client import check_problem

TOKEN = "admin-" + secrets.token_urlsafe(24)


class AdminClient:
    """`/admin/v1` of one gateway; what is asked of an address is checked and its document returned."""

    def __init__(self, http: httpx.AsyncClient, url: str, token: str | None = TOKEN) -> None:
        self.http = http
        self.url = f"{url}/admin/v1"
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def send(self, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        given = {} if body is None else {"json": body}
        return await self.http.request(
            method, f"{self.url}{path}", params=query or None, headers=self.headers, **given
        )

    async def get(self, path: str, **query: Any) -> Any:
        return self._document(await self.send("GET", path, **query), 200)

    async def post(self, path: str, body: Any = None, *, status: int = 201) -> Any:
        return self._document(await self.send("POST", path, body), status)

    async def patch(self, path: str, body: Any) -> Any:
        return self._document(await self.send("PATCH", path, body), 200)

    async def put(self, path: str, body: Any) -> Any:
        return self._document(await self.send("PUT", path, body), 200)

    async def delete(self, path: str, **query: Any) -> None:
        response = await self.send("DELETE", path, **query)
        assert (response.status_code, response.content) == (204, b""), response.text

    async def refused(
        self, method: str, path: str, body: Any = None, *, status: int, code: str, **query: Any
    ) -> list[str]:
        """The fields that the problem names."""
        document = check_problem(await self.send(method, path, body, **query), status, code)
        return [error["field"] for error in document.get("errors", [])]

    async def audit(self, subject: str) -> list[tuple[str, str]]:
        """What was done to a subject, the oldest first, with who did it."""
        rows = (await self.get("/audit", subject=subject))["data"]
        return [(row["action"], row["actor"]) for row in reversed(rows)]

    def _document(self, response: httpx.Response, status: int) -> Any:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/json"
        assert len(response.headers["x-trace-id"]) == 32
        return response.json()


async def make_agent(admin: AdminClient, account: str, **more: Any) -> Any:
    return await admin.post("/agents", {"account_id": account, "name": "Shop", "model": "m-1", **more})
