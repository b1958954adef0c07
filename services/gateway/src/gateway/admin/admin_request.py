"""A request to an operation of the table, taken apart strictly into the arguments of its function."""

from functools import partial
from typing import Any

import msgspec

from administration.checked_input import read_json
from administration.route import Parameter, Route
from contracts.admin_errors import NotFound
from gateway.http import query, strict_json
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import invalid

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
