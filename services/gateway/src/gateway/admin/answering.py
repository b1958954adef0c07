"""From a request to its answer: the arguments, the function of the route, and its outcome."""

import re
from functools import partial
from typing import Any

import msgspec

from administration import Admin
from administration.admin_values import Deletion, Page, PutDocument
from administration.checked_input import read_json
from administration.route import Parameter, Route
from contracts import http
from contracts.admin_errors import AdminError, Conflict, Disallowed, Invalid, NotFound, Unavailable, Use
from gateway.http import query, strict_json
from gateway.http.exchange import Exchange
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal, invalid

_ACTOR = re.compile(r"[!-~]{1,100}")


async def answer(exchange: Exchange, route: Route, path: dict[str, str], admin: Admin) -> JsonAnswer[Any]:
    """`path` holds the parts of the address.

    Raises AdminError, Refusal, ClientGone, DatabaseUnavailable, BusUnavailable.
    """
    acting = msgspec.structs.replace(admin, actor=_actor(exchange, admin.actor))
    return _answer(route, await route.call(acting, **await arguments(exchange, route, path)))


def _actor(exchange: Exchange, instead: str) -> str:
    """Who asks, for the audit log: whoever has the token may say so. Raises Refusal."""
    values = exchange.header(b"x-admin-actor")
    if not values:
        return instead
    name = values[0].decode("latin-1")
    if len(values) > 1 or not _ACTOR.fullmatch(name):
        raise invalid("X-Admin-Actor", "This must be given once, as at most 100 visible ASCII characters.")
    return name


def refusal_of(error: AdminError) -> Refusal:
    """An outcome of the library as a problem document."""
    match error:
        case NotFound():
            return Refusal("not_found", f"There is {error}.")
        case Conflict():
            return Refusal("conflict", _sentence(error.reason), fields=[_use(use) for use in error.uses])
        case Invalid():
            field = http.FieldError(field=strict_json.printable(_spoken(error.field)), message=error.reason)
            return Refusal("invalid_request", f"{error}.", fields=[field] if error.field else [])
        case Disallowed():
            return Refusal(error.code)
        case Unavailable():
            return Refusal("overloaded", _sentence(str(error)))
        case _:
            raise error


def _answer(route: Route, given: object) -> JsonAnswer[Any]:
    status = route.status
    if isinstance(given, Deletion) and not given.dry_run:
        return JsonAnswer(None, status_code=204)
    if isinstance(given, PutDocument) and given.outcome != "added":
        status = 200
    if isinstance(given, Page):
        cursor = None if given.after is None else query.cursor_of(given.after.encode())
        given = {"data": given.items, "next_cursor": cursor}
    elif isinstance(given, tuple):
        given = {"data": given}
    return JsonAnswer(given, status_code=status)


def _use(use: Use) -> http.FieldError:
    names = f": {', '.join(use.names)}" if use.names else ""
    more = ", ..." if use.names and use.count > len(use.names) else ""
    return http.FieldError(field=use.kind.replace(" ", "_"), message=f"{use.count}{names}{more}")


def _spoken(field: str) -> str:
    """The library pages by `after`, the API by a cursor."""
    return "cursor" if field == "after" else field


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that has nothing to say."""


async def arguments(exchange: Exchange, route: Route, path: dict[str, str]) -> dict[str, Any]:
    """`path` holds the parts of the address. Raises Refusal, ClientGone, Invalid, NotFound."""
    found = _query(exchange, route)
    body = await _body(exchange, route)
    if route.body is not None:
        found[route.body_argument] = body
    return found | {each.argument: _part(each, path[each.name]) for each in route.path_parameters}


def _query(exchange: Exchange, route: Route) -> dict[str, Any]:
    """Only what the operation knows, each once."""
    given = query.fields(exchange, "strict")
    known = {each.name: each for each in route.query}
    for name in given:
        if name not in known:
            raise invalid(strict_json.printable(name), "This parameter is not known here.")
    for name, parameter in known.items():
        if parameter.required and name not in given:
            raise invalid(name, "This parameter is required.")
    return {
        known[name].argument: _value(known[name], query.once(name, values)) for name, values in given.items()
    }


def _value(parameter: Parameter, text: str) -> Any:
    name, schema = parameter.name, parameter.schema
    if schema["type"] == "boolean":
        if text not in _FLAGS:
            raise invalid(name, "This must be true or false.")
        return _FLAGS[text]
    if schema["type"] == "integer":
        return query.whole_number(name, text, schema["maximum"])
    if parameter.argument == "after":
        return _position(text)
    if not text or "\x00" in text:
        raise invalid(name, "This must be a text that is not empty and holds no NUL.")
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


async def _body(exchange: Exchange, route: Route) -> Any:
    if route.method == "GET":
        return None
    kind = route.body or NoBody
    if route.optional and _is_empty(exchange):
        exchange.unread = False
        return kind()
    return await strict_json.read_json(exchange, partial(read_json, kind), route.max_bytes)


def _is_empty(exchange: Exchange) -> bool:
    lengths = exchange.header(b"content-length")
    return not exchange.header(b"transfer-encoding") and (not lengths or lengths == [b"0"])


def _part(parameter: Parameter, text: str) -> Any:
    """A part of the path. Raises NotFound for a number that is none."""
    if parameter.schema["type"] != "integer":
        return text
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotFound(parameter.name, text[:20])
    return int(text)
