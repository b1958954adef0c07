"""Query parameters that an operation does not know are refused: a mistyped filter would select all."""

from functools import cache
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler

from contracts import http
from gateway.http import query
from gateway.http.exchange import Exchange, of
from gateway.http.problem_responses import Refusal
from gateway.http.strict_json import printable
from gateway.openapi.described import description_of, descriptions_before


async def known_query(request: Request[Any, Any, Any]) -> None:
    """Before the handler: what its OpenAPI operation describes is known. Raises Refusal: 400."""
    check_query(of(request.scope), _known(request.route_handler))


def check_query(exchange: Exchange, known: frozenset[str] = frozenset()) -> None:
    """Raises Refusal where the query has other parameters; a name that ends with "." is a prefix of some."""
    if not exchange.scope["query_string"]:
        return
    given = query.fields(exchange, "replace")
    unknown = [name for name in given if name not in known and f"{name.partition('.')[0]}." not in known]
    if unknown:
        those = f"Known here: {', '.join(sorted(known))}." if known else "There are none here."
        message = f"This parameter is not known. {those}"
        fields = [http.FieldError(field=printable(name), message=message) for name in unknown]
        named = ", ".join(field.field for field in fields)
        raise Refusal("invalid_request", f"{named}: {message}", fields=fields)


@cache
def _known(handler: HTTPRouteHandler) -> frozenset[str]:
    described = (*descriptions_before(handler), description_of(handler.fn))
    parameters = [each for one in described for each in one.parameters if each["in"] == "query"]
    # An exploded object is a parameter for each of its members.
    return frozenset(f"{each['name']}." if each.get("explode") else each["name"] for each in parameters)
