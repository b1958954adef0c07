"""Calls of a gateway's admin API."""

import os
import pwd
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from agentchat.contracts.http import FieldError, Problem
from agentchat.ops import demo_env
from agentchat.ops.connections import ADMIN_URL, DATABASE_URL
from agentchat.ops.demo_env import get_variable
from agentchat.ops.errors import RefusedError, SetupError, StackError

ADMIN_TOKEN = "AGENTCHAT_ADMIN_TOKEN"  # noqa: S105 - a name
_PREFIX = "/admin/v1"
_SECONDS = httpx.Timeout(10.0, read=150.0)  # deleting a large knowledge base may take two minutes


class AdminApi(msgspec.Struct, frozen=True):
    """The admin API of a gateway."""

    url: str
    token: str

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"AdminApi({self.url!r})"

    def call(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: object = None
    ) -> Any:
        """Call a route and return the answer's JSON, JSON Lines as text, None for 204. Raises StackError."""
        headers = {"Authorization": f"Bearer {self.token}", "X-Admin-Actor": name_actor()}
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            with httpx.Client(headers=headers, timeout=_SECONDS) as client:
                url = self.url + _PREFIX + path
                response = client.request(method, url, params=parameters, json=body)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise SetupError(f"{ADMIN_URL} cannot be used: {error}") from None
        except httpx.HTTPError as error:
            raise RefusedError(f"{self.url} does not answer: {error or type(error).__name__}") from None
        if not response.is_success:
            raise _build_error(self.url, response)
        if response.headers.get("Content-Type", "").startswith("application/jsonl"):
            return response.text
        return None if response.status_code == 204 else response.json()

    def list_all(self, path: str, most: int | None = None, **query: Any) -> list[dict[str, Any]]:
        """Return the items of all pages of a list, `most` at most. Raises StackError."""
        items: list[dict[str, Any]] = []
        while most is None or len(items) < most:
            size = 100 if most is None else min(100, most - len(items))
            page = self.call("GET", path, query=query | {"limit": size})
            items += page["data"]
            query["cursor"] = page.get("next_cursor")
            if not query["cursor"]:
                break
        return items


def find_api(environ: Mapping[str, str] = os.environ) -> AdminApi:
    """Return the admin API that the environment names, else the running stack's.

    Raises:
        SetupError, NotRunningError
    """
    url = get_variable(environ, ADMIN_URL)
    if url is not None:
        token = get_variable(environ, ADMIN_TOKEN)
        if token is None:
            raise SetupError(f"{ADMIN_TOKEN} is not set: set it to the token of the gateways")
        return AdminApi(url.rstrip("/"), token)
    folder = demo_env.find_run_folder(environ)
    stack = demo_env.load(folder, elsewhere=f"; for another system set {ADMIN_URL} and {ADMIN_TOKEN}")
    if get_variable(environ, DATABASE_URL) not in (None, stack.database_url):
        raise SetupError(f"{DATABASE_URL} is not the running stack's: set {ADMIN_URL} to a gateway on it")
    return AdminApi(stack.base_url, stack.admin_token)


def name_actor() -> str:
    """Return the name for audit rows: the process's user, which no variable can change."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a name
        name = str(os.getuid())
    return f"{name}@cli"


def _build_error(url: str, response: httpx.Response) -> StackError:
    """Return the gateway's problem document as the error that ends the command."""
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        return RefusedError(f"{url} has no admin API (it answered with status {response.status_code})")
    detail = problem.detail.removesuffix(".")
    errors = problem.errors or ()
    match problem.code:
        case "invalid_admin_token":
            return SetupError(f"{url} refused the token: set {ADMIN_TOKEN} to the token of its gateways")
        case "not_found" if not detail.startswith("There is "):
            return SetupError(
                f"{url} has no such route (`agentchat admin routes` lists them), or its gateways have no"
                f" {ADMIN_TOKEN}"
            )
        case "not_found":
            return RefusedError(detail.removeprefix("There is "))
        case "invalid_request" | "message_too_large":
            return RefusedError("; ".join(f"{each.field}: {each.message}" for each in errors) or detail, 2)
        case _:
            reason = detail[:1].lower() + detail[1:].replace("; force", "; force=true")
            uses = "; ".join(_describe_use(each) for each in errors if ": " in each.message)
            return RefusedError(f"{reason} ({uses})" if uses else reason)


def _describe_use(use: FieldError) -> str:
    """Return a use as `keys: web, site, …`."""
    names = use.message.partition(": ")[2]
    return f"{use.field.replace('_', ' ')}: {names.replace(', ...', ', …')}"
