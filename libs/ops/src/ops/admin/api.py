"""Calls of the operations of `administration.routes`: over HTTP, or by the library on the database itself."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from administration import Admin
from administration.reading import read_json
from administration.route import PREFIX, Bus, Route
from administration.routes import BY_NAME
from administration.values import Page
from contracts.admin_errors import AdminError
from contracts.http import FieldError, Problem
from ops.admin import target
from ops.admin.errors import RefusedError, conflict, refused
from ops.admin.working import run
from ops.errors import SetupError, StackError

T = TypeVar("T")
Arguments = dict[str, Any]
"""By the names of the function behind the route; a body is a JSON object."""

Call = Callable[[Route, Arguments], Awaitable[Any]]
"""What the route gives; None where it has nothing to say. Raises StackError."""

_SECONDS = httpx.Timeout(10.0, read=600.0)  # an account with many conversations takes minutes to be deleted


class _Listed(msgspec.Struct, Generic[T]):
    """How lists come over HTTP."""

    data: tuple[T, ...]
    next_cursor: str | None = None


def ask(name: str, /, **arguments: Any) -> Any:
    """One operation, by its name in the table. Raises StackError."""
    route = BY_NAME[name]
    bus: Bus = "no" if arguments.get("dry_run") else route.bus
    return session(
        lambda call: call(route, arguments), bus=bus, seals=route.method in ("POST", "PUT", "PATCH")
    )


def every(name: str, most: int | None, /, **arguments: Any) -> tuple[Any, ...]:
    """The items of a list, page after page, at most so many. Raises StackError."""
    route = BY_NAME[name]

    async def pages(call: Call) -> tuple[Any, ...]:
        items: list[Any] = []
        after: str | None = None
        while most is None or len(items) < most:
            size = 100 if most is None else min(100, most - len(items))
            page: Page[Any] = await call(route, arguments | {"after": after, "limit": size})
            items += page.items
            after = page.after
            if after is None:
                break
        return tuple(items)

    return session(pages)


def session(
    work: Callable[[Call], Awaitable[T]],
    *,
    bus: Bus = "no",
    seals: bool = False,
    direct: bool = False,
) -> T:
    """What `work` makes of its calls. `direct`: by the library, where the database can be had.

    The rest is for calls by the library: see `working.run`. Raises StackError.
    """
    api = target.admin_api(os.environ)
    if api is None or (direct and not api.is_given):
        return run(lambda admin: work(partial(_by_library, admin)), bus=bus, seals=seals)
    return asyncio.run(_over_http(api, work))


async def _by_library(admin: Admin, route: Route, arguments: Arguments) -> Any:
    try:
        if route.body is not None:
            body = msgspec.json.encode(arguments[route.body_argument])
            arguments = arguments | {route.body_argument: read_json(route.body, body)}
        return await route.call(admin, **arguments)
    except AdminError as error:
        raise refused(error) from None


async def _over_http(api: target.AdminApi, work: Callable[[Call], Awaitable[T]]) -> T:
    headers = {"Authorization": f"Bearer {api.token}", "X-Admin-Actor": target.actor()}
    async with httpx.AsyncClient(base_url=api.url + PREFIX, headers=headers, timeout=_SECONDS) as http:
        try:
            return await work(partial(_sent, http))
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise SetupError(f"{target.ADMIN_URL} cannot be used: {error}") from None
        except httpx.HTTPError as error:
            raise RefusedError(f"{api.url} does not answer: {error or type(error).__name__}") from None


async def _sent(http: httpx.AsyncClient, route: Route, arguments: Arguments) -> Any:
    parts = {each.name: quote(str(arguments[each.argument]), safe="") for each in route.path_parameters}
    query = {each.name: arguments.get(each.argument) for each in route.query}
    response = await http.request(
        route.method,
        route.path.format(**parts),
        params={name: _text(value) for name, value in query.items() if value is not None},
        json=arguments[route.body_argument] if route.body is not None else None,
    )
    if not response.is_success:
        raise _refused(str(http.base_url), response)
    return None if response.status_code == 204 else _read(route, response.content)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(route: Route, content: bytes) -> Any:
    if route.many == "one":
        return msgspec.json.decode(content, type=route.gives)
    kind: Any = _Listed
    listed = msgspec.json.decode(content, type=kind[route.gives])
    return listed.data if route.many == "all" else Page(items=listed.data, after=listed.next_cursor)


def _refused(url: str, response: httpx.Response) -> StackError:
    """What the gateway refuses, in the words of a command."""
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        return RefusedError(f"{url} is no admin API: it answers with status {response.status_code}")
    said = problem.detail.removeprefix("There is ").removesuffix(".")
    match problem.code:
        case "invalid_admin_token":
            return SetupError(f"{url} refuses the token: set {target.ADMIN_TOKEN} as its gateways have it")
        case "not_found" if said == problem.detail.removesuffix("."):
            return SetupError(f"{url} has no such address: {target.ADMIN_TOKEN} is not set for its gateways")
        case "not_found":
            return RefusedError(said)
        case "invalid_request" | "message_too_large":
            fields = "; ".join(f"{each.field}: {each.message}" for each in problem.errors or ())
            return RefusedError(fields or said, 2)
        case _:
            named = "; ".join(_used(each) for each in problem.errors or () if ": " in each.message)
            return conflict(said[:1].lower() + said[1:], named)


def _used(use: FieldError) -> str:
    """Such as `keys: web, site, …`; the API has their number too."""
    names = use.message.partition(": ")[2]
    return f"{use.field.replace('_', ' ')}: {names.replace(', ...', ', …')}"
