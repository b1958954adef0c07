"""What query strings hold: each parameter once, whole numbers, and cursors. All of them are read here."""

import base64
from functools import cache
from typing import Any, Literal
from urllib.parse import parse_qs

from litestar import Request
from litestar.handlers import HTTPRouteHandler

from contracts import http
from gateway.http.exchange import Exchange, of
from gateway.http.problem_responses import Refusal, invalid, printable
from gateway.openapi.described import description_of, descriptions_before

MAX_QUERY_BYTES = 16 * 1024
MAX_FIELDS = 50


def parameters(exchange: Exchange, *names: str) -> dict[str, str]:
    """Those of `names` that are given; others do not count. Raises Refusal for one that is given twice."""
    found = fields(exchange, "replace")
    return {name: once(name, found[name]) for name in names if name in found}


def fields(exchange: Exchange, errors: Literal["strict", "replace"]) -> dict[str, list[str]]:
    """All fields by their names; `errors` is what becomes of bytes that are no UTF-8.

    Raises Refusal, also for a query that is longer than MAX_QUERY_BYTES or has more than MAX_FIELDS.
    """
    query = exchange.scope["query_string"]
    if len(query) > MAX_QUERY_BYTES or query.count(b"&") >= MAX_FIELDS:
        raise Refusal(
            "invalid_request", f"The query has more than {MAX_FIELDS} fields or {MAX_QUERY_BYTES} bytes."
        )
    try:
        return parse_qs(query.decode("ascii", errors), keep_blank_values=True, errors=errors)
    except UnicodeDecodeError:
        raise Refusal("invalid_request", "The query string is not percent-encoded UTF-8.") from None


def once(name: str, values: list[str]) -> str:
    """The one value of a parameter. Raises Refusal where it has more."""
    if len(values) > 1:
        raise invalid(name, "This parameter is given twice.")
    return values[0]


def whole_number(name: str, text: str, most: int) -> int:
    """From 1 to `most`, which is below 100,000, in ASCII digits. Raises Refusal."""
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= most):
        raise invalid(name, f"This must be a whole number from 1 to {most}.")
    return int(text)


def cursor_of(place: bytes) -> str:
    """A place in a list as the caller gets it: not to be read, and to be sent as it is."""
    return base64.urlsafe_b64encode(place).rstrip(b"=").decode()


def position_of(cursor: str) -> bytes:
    """The place that `cursor_of` was given. Raises Refusal for what cannot have been made by it."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise wrong_cursor() from None


def wrong_cursor() -> Refusal:
    return invalid("cursor", "This is not a cursor that the service has given out.")


async def known_query(request: Request[Any, Any, Any]) -> None:
    """Before the handler: what its OpenAPI operation describes is known. Raises Refusal: 400."""
    check_query(of(request.scope), _known(request.route_handler))


def check_query(exchange: Exchange, known: frozenset[str] = frozenset()) -> None:
    """Raises Refusal where the query has other parameters; a name that ends with "." is a prefix of some."""
    if not exchange.scope["query_string"]:
        return
    given = fields(exchange, "replace")
    unknown = [name for name in given if name not in known and f"{name.partition('.')[0]}." not in known]
    if unknown:
        those = f"Known here: {', '.join(sorted(known))}." if known else "There are none here."
        message = f"This parameter is not known. {those}"
        wrong = [http.FieldError(field=printable(name), message=message) for name in unknown]
        named = ", ".join(each.field for each in wrong)
        raise Refusal("invalid_request", f"{named}: {message}", fields=wrong)


@cache
def _known(handler: HTTPRouteHandler) -> frozenset[str]:
    described = (*descriptions_before(handler), description_of(handler.fn))
    parameters = [each for one in described for each in one.parameters if each["in"] == "query"]
    # An exploded object is a parameter for each of its members.
    return frozenset(f"{each['name']}." if each.get("explode") else each["name"] for each in parameters)
