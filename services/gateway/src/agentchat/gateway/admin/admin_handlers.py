"""Build the handlers of the admin API from the routes of `administration.routes`."""

import inspect
from collections.abc import AsyncIterator
from types import GenericAlias
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from litestar import HttpMethod, Response, Router
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import BodyKwarg, HeaderParameter, PathParameter, QueryParameter
from litestar.response import Stream
from msgspec import UNSET, UnsetType

from agentchat.administration import Admin
from agentchat.administration.account_scope import check_named
from agentchat.administration.admin_audit import record_read
from agentchat.administration.admin_values import Deletion, Page, PutDocument
from agentchat.administration.route_signature import Parameter, Route
from agentchat.administration.routes import ROUTES
from agentchat.contracts.admin_errors import NotFound
from agentchat.gateway.admin.admin_token import ROUTE, may_administer
from agentchat.gateway.http.json_lines import JSON_LINES, LINES_RESPONSE, stream_lines
from agentchat.gateway.http.pagination import decode_position, encode_next_cursor
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest, decode_slashes
from agentchat.gateway.http.unknown_parameters import refuse_unknown

_Actor = Annotated[
    str | None,
    HeaderParameter(
        name="X-Admin-Actor", description="Who asks, as the audit log is to say it; else admin-api."
    ),
]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_QUERY = "query_"
"""Before the names of query parameters: Litestar reserves some, such as `query`."""


T = TypeVar("T")


class AdminPage(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list.

    A search has its `total`: the number found, or a lower bound if not `is_total_exact`.
    """

    data: tuple[T, ...]
    next_cursor: str | None
    total: int | UnsetType = UNSET
    is_total_exact: bool | UnsetType = UNSET


class AdminList(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A complete list."""

    data: tuple[T, ...]


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that has nothing to say: none, or an object without members."""


def build_admin_router() -> Router:
    """Build the router of the admin API."""
    return Router(
        "/",
        route_handlers=[_build_handler(route) for route in ROUTES],
        security=[{"admin": list[str]()}],
        tags=["admin"],
    )


def _build_handler(route: Route) -> HTTPRouteHandler:
    """Build the handler of a route. Litestar reads its signature, and describes it by that."""

    async def handle(request: JsonRequest, **given: Any) -> Response[Any]:
        return await _answer(request, route, given)

    parameters = [
        inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=JsonRequest)
    ]
    if route.method != "GET":
        kind = route.body or NoBody
        is_optional = route.body is None or route.optional
        default = None if is_optional else inspect.Parameter.empty
        hint: Any = kind | None if is_optional else kind
        parameters.append(
            inspect.Parameter("data", _KEYWORD, annotation=Annotated[hint, BodyKwarg()], default=default)
        )
    for each in route.path_parameters:
        hint = Annotated[str, PathParameter(description=each.description)]
        parameters.append(inspect.Parameter(each.name, _KEYWORD, annotation=hint))
    parameters += [
        inspect.Parameter(_QUERY + each.name, _KEYWORD, annotation=_query_hint(each), default=None)
        for each in route.query
    ]
    parameters.append(inspect.Parameter("admin_actor", _KEYWORD, annotation=_Actor, default=None))
    answer = Stream if route.many == "lines" else GenericAlias(Response, (_get_response_type(route),))
    handle.__signature__ = inspect.Signature(parameters, return_annotation=answer)  # type: ignore[attr-defined]
    handle.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": answer}
    handle.__doc__ = None
    names = [part.strip("{}") for part in route.path.split("/") if part]
    return HTTPRouteHandler(
        route.address.replace("}", ":str}"),
        http_method=HttpMethod(route.method),
        status_code=route.status,
        operation_id="_".join(["admin", route.method.lower(), *names]),
        summary=route.summary,
        media_type=JSON_LINES if route.many == "lines" else None,
        responses=_list_other_successes(route),
        guards=[may_administer],
        opt={ROUTE: route},
        request_max_body_size=route.max_bytes,
    )(handle)


def _query_hint(each: Parameter) -> Any:
    kinds: dict[str, Any] = {"boolean": bool, "integer": int, "number": float}
    kind = kinds.get(each.schema.get("type", "string"), str)
    bounds = {"ge": each.schema["minimum"], "le": each.schema["maximum"]} if kind in (int, float) else {}
    return Annotated[kind | None, QueryParameter(name=each.name, description=each.description, **bounds)]


def _get_response_type(route: Route) -> Any:
    match route.many:
        case "page":
            return AdminPage[route.gives]  # type: ignore[name-defined]
        case "all":
            return AdminList[route.gives]  # type: ignore[name-defined]
        case "one" | "lines":
            return route.gives


def _list_other_successes(route: Route) -> dict[int, ResponseSpec]:
    if route.many == "lines":
        return {200: LINES_RESPONSE}
    if route.method == "DELETE":
        others = {204: ResponseSpec(None, description="Gone.", generate_examples=False)}
        if route.continues:
            under_way = "Conversations are being erased; `goes` is what is left."
            others[202] = ResponseSpec(Deletion, description=under_way, generate_examples=False)
        return others
    if route.gives is PutDocument and route.status == 201:
        return {
            200: ResponseSpec(PutDocument, description="Replaced, or as it was.", generate_examples=False)
        }
    return {}


async def _answer(request: JsonRequest, route: Route, given: dict[str, Any]) -> Response[Any]:
    """Call the route's function. Raises AdminError, Refusal, DatabaseUnavailable, BusUnavailable."""
    admin: Admin = request.state.admin
    query = _query(request, route, given)
    path = {
        each.argument: _read_path_part(each, request.path_params[each.name]) for each in route.path_parameters
    }
    data = given.get("data")
    body = {} if route.body is None else {route.body_argument: route.body() if data is None else data}
    fields = {} if route.body is None or data is None else msgspec.structs.asdict(data)
    await check_named(admin, query | fields)
    found = await route.call(admin, **query, **path, **body)
    if route.shows_texts:
        await record_read(admin, route.path, found)
    status = route.status
    if isinstance(found, Deletion) and not found.dry_run:
        return Response(found, status_code=202) if found.pending else Response(None, status_code=204)
    if isinstance(found, PutDocument) and found.outcome != "added":
        status = 200
    if isinstance(found, AsyncIterator):
        return stream_lines(found)
    if isinstance(found, Page):
        counted = (
            {} if found.total is None else {"total": found.total, "is_total_exact": found.is_total_exact}
        )
        found = {"data": found.items, "next_cursor": encode_next_cursor(found.after), **counted}
    elif isinstance(found, tuple):
        found = {"data": found}
    return Response(found, status_code=status)


def _query(request: JsonRequest, route: Route, given: dict[str, Any]) -> dict[str, Any]:
    """Return what was given. Raises Refusal, 400, for others: a misspelt `dry_run` must not delete."""
    refuse_unknown(request.query_params, {each.name for each in route.query})
    values = {each.argument: _check_parameter(each, given[_QUERY + each.name]) for each in route.query}
    return {argument: value for argument, value in values.items() if value is not None}


def _check_parameter(each: Parameter, value: Any) -> Any:
    if each.required and value is None:
        raise build_field_refusal(each.name, "This parameter is required.")
    if each.argument == "after" and value is not None:
        return decode_position(value, str)
    if isinstance(value, str) and (not value or "\x00" in value):
        raise build_field_refusal(each.name, "This must be a text that is not empty and holds no NUL.")
    return value


def _read_path_part(each: Parameter, text: str) -> Any:
    """Read a part of the path. Raises NotFound for a number that is none."""
    if each.schema["type"] != "integer":
        return decode_slashes(text)
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 10):
        raise NotFound(each.name, text[:20])
    return int(text)
