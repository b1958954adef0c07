"""The operations of `administration.routes`, called at the admin API of a gateway."""

import asyncio
import os
import pwd
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from administration.admin_values import Page
from administration.route import PREFIX, Route
from administration.routes import BY_NAME
from contracts.http import FieldError, Problem
from ops import environment
from ops.connections import DATABASE_URL
from ops.environment import given
from ops.errors import RefusedError, SetupError, StackError

ADMIN_URL = "AGENTCHAT_ADMIN_URL"
ADMIN_TOKEN = "AGENTCHAT_ADMIN_TOKEN"  # noqa: S105 - a name

T = TypeVar("T")
Arguments = dict[str, Any]
"""Arguments of the function that the route calls, by name; a body is a JSON object."""

Call = Callable[[Route, Arguments], Awaitable[Any]]
"""Returns the route's result; None where the response has no content. Raises StackError."""

_SECONDS = httpx.Timeout(10.0, read=600.0)  # deleting an account with many conversations takes minutes


@dataclass(frozen=True)
class AdminApi:
    """Where a gateway's admin API is."""

    url: str
    token: str = field(repr=False)


class _Listed(msgspec.Struct, Generic[T]):
    """A list as HTTP has it."""

    data: tuple[T, ...]
    next_cursor: str | None = None


def ask(name: str, /, **arguments: Any) -> Any:
    """One operation, by its name in the table. Raises StackError."""
    return session(lambda call: call(BY_NAME[name], arguments))


def every(name: str, most: int | None, /, **arguments: Any) -> tuple[Any, ...]:
    """The items of a list, at most so many. Raises StackError."""
    return session(lambda call: pages(call, name, most, arguments))


async def pages(call: Call, name: str, most: int | None, arguments: Arguments) -> tuple[Any, ...]:
    """The items of a list, page after page, at most so many. Raises StackError."""
    items: list[Any] = []
    after: str | None = None
    while most is None or len(items) < most:
        size = 100 if most is None else min(100, most - len(items))
        page: Page[Any] = await call(BY_NAME[name], arguments | {"after": after, "limit": size})
        items += page.items
        after = page.after
        if after is None:
            break
    return tuple(items)


def session(work: Callable[[Call], Awaitable[T]]) -> T:
    """The result of `work`, whose calls share connections. Raises StackError."""
    return asyncio.run(_session(find(os.environ), work))


def find(environ: Mapping[str, str]) -> AdminApi:
    """The one of the environment, else of the running stack. Raises SetupError, NotRunningError."""
    url = given(environ, ADMIN_URL)
    if url is not None:
        token = given(environ, ADMIN_TOKEN)
        if token is None:
            raise SetupError(f"{ADMIN_TOKEN} is not set: set it to the token that the gateways have")
        return AdminApi(url.rstrip("/"), token)
    folder = environment.run_folder(environ)
    stack = environment.load(folder, elsewhere=f"; for another system set {ADMIN_URL} and {ADMIN_TOKEN}")
    if given(environ, DATABASE_URL) not in (None, stack.database_url):
        raise SetupError(f"{DATABASE_URL} is not the running stack's: set {ADMIN_URL} to a gateway on it")
    return AdminApi(stack.base_url, stack.admin_token)


def actor() -> str:
    """Who is named in the audit rows: the user that the process runs as, not what a variable names."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a name
        name = str(os.getuid())
    return f"{name}@cli"


async def _session(api: AdminApi, work: Callable[[Call], Awaitable[T]]) -> T:
    headers = {"Authorization": f"Bearer {api.token}", "X-Admin-Actor": actor()}
    async with httpx.AsyncClient(base_url=api.url + PREFIX, headers=headers, timeout=_SECONDS) as http:
        try:
            return await work(partial(_call, http))
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise SetupError(f"{ADMIN_URL} cannot be used: {error}") from None
        except httpx.HTTPError as error:
            raise RefusedError(f"{api.url} does not answer: {error or type(error).__name__}") from None


async def _call(http: httpx.AsyncClient, route: Route, arguments: Arguments) -> Any:
    parts = {each.name: quote(str(arguments[each.argument]), safe="") for each in route.path_parameters}
    query = {each.name: arguments.get(each.argument) for each in route.query}
    response = await http.request(
        route.method,
        route.path.format(**parts),
        params={name: value for name, value in query.items() if value is not None},
        json=arguments[route.body_argument] if route.body is not None else None,
    )
    if not response.is_success:
        raise _refused(str(http.base_url), response)
    return None if response.status_code == 204 else _decoded(route, response.content)


def _decoded(route: Route, content: bytes) -> Any:
    if route.many == "one":
        return msgspec.json.decode(content, type=route.gives)
    kind: Any = _Listed
    listed = msgspec.json.decode(content, type=kind[route.gives])
    return listed.data if route.many == "all" else Page(items=listed.data, after=listed.next_cursor)


def _refused(url: str, response: httpx.Response) -> StackError:
    """The gateway's problem document as the error that ends the command."""
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        return RefusedError(f"{url} is no admin API: it answers with status {response.status_code}")
    detail = problem.detail.removesuffix(".")
    errors = problem.errors or ()
    match problem.code:
        case "invalid_admin_token":
            return SetupError(f"{url} refuses the token: set {ADMIN_TOKEN} as its gateways have it")
        case "not_found" if not detail.startswith("There is "):
            return SetupError(f"{url} has no such address: {ADMIN_TOKEN} is not set for its gateways")
        case "not_found":
            return RefusedError(detail.removeprefix("There is "))
        case "invalid_request" | "message_too_large":
            return RefusedError("; ".join(f"{each.field}: {each.message}" for each in errors) or detail, 2)
        case _:
            reason = detail[:1].lower() + detail[1:].replace("; force", "; --force")
            uses = "; ".join(_use(each) for each in errors if ": " in each.message)
            return RefusedError(f"{reason} ({uses})" if uses else reason)


def _use(use: FieldError) -> str:
    """Such as `keys: web, site, …`; the API has their number too."""
    names = use.message.partition(": ")[2]
    return f"{use.field.replace('_', ' ')}: {names.replace(', ...', ', …')}"
