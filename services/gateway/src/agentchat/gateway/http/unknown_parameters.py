"""Refuse query parameters that a route does not know: a misspelt filter must not list everything."""

from collections.abc import Container, Iterable

from litestar.handlers.base import BaseRouteHandler
from litestar.params import QueryParameter

from agentchat.contracts import http
from agentchat.gateway.http.problems import Refusal, make_printable
from agentchat.gateway.http.request_context import JsonRequest

PREFIX = "parameter_prefix"
"""The key in `opt` of a handler that also takes parameters which begin with this text."""


def check_parameter_names(request: JsonRequest, handler: BaseRouteHandler) -> None:
    """Check that the handler knows each query parameter. Raises Refusal: 400."""
    if not request.scope["query_string"]:
        return
    fields = handler.parsed_fn_signature.parameters.values()
    known = {each.name for each in fields if isinstance(each.kwarg_definition, QueryParameter)}
    prefix: str | None = handler.opt.get(PREFIX)
    refuse_unknown(
        (name for name in request.query_params if prefix is None or not name.startswith(prefix)), known
    )


def refuse_unknown(given: Iterable[str], known: Container[str]) -> None:
    """Raise Refusal, 400, that names the given parameters which are not known."""
    unknown = dict.fromkeys(make_printable(name) for name in given if name not in known)
    if unknown:
        message = "This parameter is not known here."
        fields = [http.FieldError(field=name, message=message) for name in unknown]
        raise Refusal("invalid_request", f"{fields[0].field}: {message}", fields=fields)
