"""The routes of the gateway, and how what they raise is answered."""

from functools import cache
from typing import Any

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException

from bus import BusUnavailable
from contracts import wire
from contracts.admin_errors import AdminError
from conversations.errors import UnknownEvent
from gateway.admin.handlers import router
from gateway.gateway_request import GatewayRequest
from gateway.gateway_services import GatewayServices
from gateway.http.exchange import ClientGone, DirectResponse
from gateway.http.http_responses import JsonAnswer, ProblemAnswer
from gateway.http.middleware import RequestMiddleware
from gateway.http.problem_responses import Refusal, refusal_of
from gateway.openapi.document import document
from gateway.routes import ROUTES
from runtime import logs
from runtime.postgres import DatabaseUnavailable

AnyRequest = Request[Any, Any, Any]


def build(services: GatewayServices) -> RequestMiddleware:
    """The ASGI application over `services`."""
    agent_id = services.demo.agent_id if services.demo else None
    # Made when it is first asked for: that takes longer than all else in a start.
    described = cache(lambda: wire.encode(document(admin=services.admin is not None, agent_id=agent_id)))
    app = Litestar(
        # Where the admin API is off, its addresses are as unknown as any other.
        [*ROUTES, *([router()] if services.admin else [])],
        exception_handlers={
            Refusal: lambda _, refusal: ProblemAnswer(refusal),
            AdminError: lambda _, error: ProblemAnswer(refusal_of(error)),
            ClientGone: lambda _, __: DirectResponse(None),
            **dict.fromkeys((BusUnavailable, DatabaseUnavailable), _part_is_away),
            UnknownEvent: _of_a_newer_release,
            HTTPException: _router_error,
            Exception: _failure,
        },
        logging_config=None,  # runtime.logs
        openapi_config=None,  # gateway.docs
        request_max_body_size=None,  # gateway.http.strict_json bounds them
        request_class=GatewayRequest,
        response_class=JsonAnswer,
        state=State({"services": services, "document": described}, deep_copy=False),
    )
    return RequestMiddleware(app)


_CODES = {404: "not_found", 405: "method_not_allowed"}


def _router_error(_request: AnyRequest, error: HTTPException) -> Response[None]:
    """What the router itself refuses: 404, and 405 with Allow."""
    headers = []
    if error.status_code == 405:
        allowed = (error.headers or {}).get("allow", "").split(", ")
        headers.append((b"allow", ", ".join(m for m in allowed if m != "OPTIONS").encode()))
    return ProblemAnswer(Refusal(_CODES.get(error.status_code, "invalid_request"), headers=headers))


def _part_is_away(_request: AnyRequest, away: Exception) -> Response[None]:
    """NATS or Postgres does not answer: 503."""
    logs.get_logger("gateway").warning("unavailable", reason=str(away))
    return ProblemAnswer(Refusal("overloaded", "A part of the service does not answer."))


def _of_a_newer_release(_request: AnyRequest, error: Exception) -> Response[None]:
    """503, so that the request is repeated: another gateway may be of the release that can read it."""
    logs.get_logger("gateway").warning("event_unknown", reason=str(error))
    return ProblemAnswer(
        Refusal("overloaded", "This was stored by a newer release of the service. Try again.")
    )


def _failure(_request: AnyRequest, error: Exception) -> Response[None]:
    """A fault of ours: the log has it, the caller does not."""
    logs.get_logger("gateway").error("request_failed", exc_info=error)
    return ProblemAnswer(Refusal("internal_error"))
