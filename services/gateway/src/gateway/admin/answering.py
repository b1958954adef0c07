"""From a request to its answer: the arguments, the function of the route, and its outcome."""

import re
from typing import Any

import msgspec

from administration import Admin
from administration.admin_values import Deletion, Page, PutDocument
from administration.route import Route
from contracts import http
from contracts.admin_errors import AdminError, Conflict, Disallowed, Invalid, NotFound, Unavailable, Use
from gateway.admin.admin_request import arguments
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
