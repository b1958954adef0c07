"""From a request to its answer: the token, the query, the body, the library, its outcome in our form."""

import hmac
from functools import partial

import msgspec

from administration import Admin
from administration.errors import AdminError, Conflict, Invalid, NotFound, Unavailable
from administration.reading import read_json
from administration.values import Deletion, Page, PutDocument, Use
from contracts import http, wire
from gateway import strict
from gateway.admin import query
from gateway.admin.route import Asked, Nothing, Route
from gateway.exchange import Exchange
from gateway.problems import Refusal

_SCHEME = b"bearer "
_CHALLENGE = (b"www-authenticate", b'Bearer realm="agent-chat admin"')


async def answer(exchange: Exchange, route: Route, path: dict[str, str], admin: Admin, token: bytes) -> None:
    """`path` holds the parts of the address.

    Raises Refusal, ClientGone, DatabaseUnavailable, BusUnavailable, StoreUnavailable.
    """
    check_token(exchange, token)
    try:
        given = await route.answer(admin, await _asked(exchange, route, path))
    except AdminError as error:
        raise refusal_of(error) from None
    await _send(exchange, route, given)


def check_token(exchange: Exchange, token: bytes) -> None:
    """`Authorization: Bearer <token>`, once, and nothing else opens this door. Raises Refusal."""
    values = exchange.header(b"authorization")
    given = values[0] if len(values) == 1 else b""
    is_bearer = given[: len(_SCHEME)].lower() == _SCHEME
    # Compared in a time that does not tell how much of it is right.
    if not hmac.compare_digest(given[len(_SCHEME) :].strip(), token) or not is_bearer:
        raise Refusal("invalid_admin_token", headers=[_CHALLENGE])


def refusal_of(error: AdminError) -> Refusal:
    """An outcome of the library as a problem document."""
    match error:
        case NotFound():
            return Refusal("not_found", f"There is {error}.")
        case Conflict():
            return Refusal("conflict", _sentence(error.reason), fields=[_use(use) for use in error.uses])
        case Invalid():
            fields = [
                http.FieldError(field=strict.printable(_spoken(each.field)), message=each.reason)
                for each in error.fields
            ]
            return Refusal("invalid_request", f"{error}.", fields=[each for each in fields if each.field])
        case Unavailable():
            return Refusal("overloaded", _sentence(str(error)))
        case _:
            raise error


async def _asked(exchange: Exchange, route: Route, path: dict[str, str]) -> Asked:
    parameters = query.read(exchange, route.query)
    body: object = None
    if route.body is not None and not (route.optional and _is_empty(exchange)):
        body = await strict.read_json(exchange, partial(read_json, route.body), route.max_bytes)
    elif route.body is not None:
        exchange.unread = False
        body = route.body()
    return Asked(path=path, query=parameters, body=None if isinstance(body, Nothing) else body)


def _is_empty(exchange: Exchange) -> bool:
    lengths = exchange.header(b"content-length")
    return not exchange.header(b"transfer-encoding") and (not lengths or lengths == [b"0"])


async def _send(exchange: Exchange, route: Route, given: object) -> None:
    status = route.status
    if isinstance(given, Deletion) and not given.dry_run:
        await exchange.start(204, [])
        await exchange.body(b"")
        return
    if isinstance(given, PutDocument) and given.outcome != "added":
        status = 200
    if isinstance(given, Page):
        cursor = None if given.after is None else query.cursor_of(given.after)
        given = http.Page(
            data=tuple(msgspec.Raw(wire.encode(item)) for item in given.items), next_cursor=cursor
        )
    elif isinstance(given, tuple):
        given = {"data": given}
    await exchange.json(wire.encode(given), status)


def _use(use: Use) -> http.FieldError:
    names = f": {', '.join(use.names)}" if use.names else ""
    more = ", ..." if use.names and use.count > len(use.names) else ""
    return http.FieldError(field=use.kind.replace(" ", "_"), message=f"{use.count}{names}{more}")


def _spoken(field: str) -> str:
    """The library pages by `after`, the API by a cursor."""
    return "cursor" if field == "after" else field


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
