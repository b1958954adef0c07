"""The handlers of the admin API: one for each route of the library's table."""

from typing import Any

from litestar import HttpMethod, Request, Router
from litestar.handlers import HTTPRouteHandler

from administration.route import Route
from administration.routes import ROUTES
from contracts.admin_errors import AdminError
from gateway.admin.access import access_of, has_token
from gateway.admin.answering import answer, refusal_of
from gateway.http.exchange import of
from gateway.http.http_responses import JsonAnswer, ProblemAnswer


def router() -> Router:
    """A handler for each route."""
    return Router(
        "/",
        route_handlers=[_handler(route) for route in ROUTES],
        guards=[has_token],
        exception_handlers={AdminError: lambda _, error: ProblemAnswer(refusal_of(error))},
        include_in_schema=False,  # gateway.admin.admin_openapi
    )


def _handler(route: Route) -> HTTPRouteHandler:
    async def handle(request: Request[Any, Any, Any]) -> JsonAnswer[Any]:
        named = {name: str(value) for name, value in request.path_params.items()}
        return await answer(of(request.scope), route, named, access_of(request).admin)

    path = route.address.replace("}", ":str}")
    made = HTTPRouteHandler(path, http_method=HttpMethod(route.method), status_code=200)
    return made(handle)
