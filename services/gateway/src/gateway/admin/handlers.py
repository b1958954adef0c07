"""The admin API: a handler for each route of the library's table, described by its function's signature."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from litestar import HttpMethod, Router
from litestar.handlers import HTTPRouteHandler
from litestar.handlers.base import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg

from administration.admin_values import Deletion, Page, PutDocument
from administration.route import Parameter, Route
from administration.routes import ROUTES
from contracts.admin_errors import NotFound
from gateway.admin.access import access_of, has_token
from gateway.admin.admin_examples import example_of
from gateway.gateway_request import GatewayRequest
from gateway.http import query, strict_json
from gateway.http.exchange import Connection, Exchange, of
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import invalid, printable
from gateway.openapi.described import described, parameter
from gateway.openapi.documented_refusals import OF_BODIES
from gateway.openapi.openapi_schemas import page_of

_ACTOR = re.compile(r"[!-~]{1,100}")
_ACTOR_HEADER = parameter(
    "header",
    "X-Admin-Actor",
    "Who asks, as the audit log is to say it; else admin-api.",
    pattern=f"^{_ACTOR.pattern}$",
)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def router() -> Router:
    """A handler for each route."""
    return Router(
        "/",
        route_handlers=[_handler(route) for route in ROUTES],
        guards=[has_token],
        security=[{"admin": list[str]()}],
        tags=["admin"],
    )


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that has nothing to say."""


@described(*OF_BODIES)
async def _has_no_body(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: there is no body, or an object without members. Raises Refusal: 415, 413, 400."""
    if of(connection.scope).unread:
        strict_json.decode(NoBody, await strict_json.receive_json(of(connection.scope)))


def _handler(route: Route) -> HTTPRouteHandler:
    async def ask(request: GatewayRequest) -> JsonAnswer[Any]:
        return await _answer(request, route, {})

    async def ask_with(request: GatewayRequest, data: Any = None) -> JsonAnswer[Any]:
        return await _answer(request, route, {route.body_argument: data})

    handle: Callable[..., Awaitable[JsonAnswer[Any]]] = ask
    if route.body is not None:
        handle, example = ask_with, Example(id="example", value=example_of(route.body))
        kind = route.body | None if route.optional else route.body
        handle.__annotations__["data"] = Annotated[kind, BodyKwarg(examples=[example])]
    names = [part.strip("{}") for part in route.path.split("/") if part]
    description, responses = _successes(route)
    made = HTTPRouteHandler(
        route.address.replace("}", ":str}"),
        http_method=HttpMethod(route.method),
        status_code=route.status,
        operation_id="_".join(["admin", route.method.lower(), *names]),
        summary=route.summary,
        response_description=description,
        responses=responses,
        guards=[] if route.method == "GET" or route.body else [_has_no_body],
        max_bytes=route.max_bytes,
    )
    describe = described(
        *_refusals(route),
        parameters=[
            *(_described(each, "path") for each in route.path_parameters),
            *(_described(each, "query") for each in route.query),
            _ACTOR_HEADER,
        ],
        content={"application/json": _content(route)},
        examples={"example": _example(route)},
    )
    return made(describe(handle))


def _successes(route: Route) -> tuple[str, dict[int, ResponseSpec]]:
    """What the answer of the route's status is, and the other answers by their statuses."""
    if route.method == "DELETE":
        return "A dry run: what would go.", {204: ResponseSpec(None, description="Gone.")}
    if route.gives is PutDocument and route.status == 201:
        replaced = ResponseSpec(
            PutDocument, description="Replaced, or as it was.", examples=[Example(value=_example(route))]
        )
        return "Made.", {200: replaced}
    return "Made." if route.status == 201 else "OK", {}


def _described(each: Parameter, where: str) -> dict[str, Any]:
    return parameter(where, each.name, each.description, required=each.required, **each.schema)


def _refusals(route: Route) -> list[str]:
    codes = [] if route.method == "GET" else ["conflict"]
    if route.path_parameters or any(each.name == "account_id" for each in route.query):
        codes.append("not_found")
    return codes


def _content(route: Route) -> Any:
    match route.many:
        case "page":
            return page_of(route.gives)
        case "all":
            many = {"type": "array", "items": route.gives}
            return {"type": "object", "required": ["data"], "properties": {"data": many}}
        case "one":
            return route.gives


def _example(route: Route) -> Any:
    one = example_of(route.gives)
    return {"one": one, "all": {"data": [one]}, "page": {"data": [one], "next_cursor": None}}[route.many]


async def _answer(request: GatewayRequest, route: Route, given: dict[str, Any]) -> JsonAnswer[Any]:
    """What the route's function gives for the request; `given` has the body, if it takes one, None if that
    was left out.

    Raises AdminError, Refusal, DatabaseUnavailable, BusUnavailable.
    """
    admin = access_of(request).admin
    acting = msgspec.structs.replace(admin, actor=_actor(request.exchange, admin.actor))
    path = {each.argument: _part(each, request.path_params[each.name]) for each in route.path_parameters}
    body = {name: route.body() if route.body and value is None else value for name, value in given.items()}
    found = await route.call(acting, **_query(request.exchange, route), **path, **body)
    status = route.status
    if isinstance(found, Deletion) and not found.dry_run:
        return JsonAnswer(None, status_code=204)
    if isinstance(found, PutDocument) and found.outcome != "added":
        status = 200
    if isinstance(found, Page):
        cursor = None if found.after is None else query.cursor_of(found.after.encode())
        found = {"data": found.items, "next_cursor": cursor}
    elif isinstance(found, tuple):
        found = {"data": found}
    return JsonAnswer(found, status_code=status)


def _actor(exchange: Exchange, instead: str) -> str:
    """Who asks, for the audit log: whoever has the token may say so. Raises Refusal."""
    values = exchange.header(b"x-admin-actor")
    if not values:
        return instead
    name = values[0].decode("latin-1")
    if len(values) > 1 or not _ACTOR.fullmatch(name):
        raise invalid("X-Admin-Actor", "This must be given once, as at most 100 visible ASCII characters.")
    return name


def _query(exchange: Exchange, route: Route) -> dict[str, Any]:
    """Only what the operation knows, each once."""
    given = query.fields(exchange, "strict")
    known = {each.name: each for each in route.query}
    for name in given:
        if name not in known:
            raise invalid(printable(name), "This parameter is not known here.")
    for name, each in known.items():
        if each.required and name not in given:
            raise invalid(name, "This parameter is required.")
    return {
        known[name].argument: _value(known[name], query.once(name, values)) for name, values in given.items()
    }


def _value(each: Parameter, text: str) -> Any:
    if each.schema["type"] == "boolean":
        if text not in _FLAGS:
            raise invalid(each.name, "This must be true or false.")
        return _FLAGS[text]
    if each.schema["type"] == "integer":
        return query.whole_number(each.name, text, each.schema["maximum"])
    if each.argument == "after":
        return _position(text)
    if not text or "\x00" in text:
        raise invalid(each.name, "This must be a text that is not empty and holds no NUL.")
    return text


def _position(cursor: str) -> str | None:
    """The position that `cursor_of` made the cursor of."""
    if not cursor:
        return None
    try:
        position = query.position_of(cursor).decode()
    except UnicodeDecodeError:
        raise query.wrong_cursor() from None
    if not position or "\x00" in position:
        raise query.wrong_cursor()
    return position


def _part(each: Parameter, text: str) -> Any:
    """A part of the path. Raises NotFound for a number that is none."""
    if each.schema["type"] != "integer":
        return text
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 10):
        raise NotFound(each.name, text[:20])
    return int(text)
