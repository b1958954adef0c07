"""Build the ASGI application of a gateway."""

from litestar import Litestar
from litestar.datastructures import State

from agentchat.gateway.admin.admin_handlers import build_admin_router
from agentchat.gateway.admin.admin_services import AdminAccess
from agentchat.gateway.http.exception_handlers import EXCEPTION_HANDLERS, AnyRequest
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import MAX_BODY_BYTES, JsonRequest, TraceMiddleware
from agentchat.gateway.openapi import build_openapi_config
from agentchat.gateway.protocols.error_formats import choose_refusal_format
from agentchat.gateway.routes import ROUTES
from agentchat.gateway.services import GatewayServices


def build(
    services: GatewayServices,
    admin: AdminAccess | None,
    *,
    is_rehearsal: bool = False,
) -> TraceMiddleware:
    """Build the application. Without `admin` the admin API answers 404. A rehearsal only reads."""
    app = Litestar(
        [*ROUTES, *([build_admin_router()] if admin else [])],
        before_request=refuse_change if is_rehearsal else None,
        exception_handlers=EXCEPTION_HANDLERS,
        logging_config=None,  # agentchat.runtime.logs
        openapi_config=build_openapi_config(),
        request_class=JsonRequest,
        request_max_body_size=MAX_BODY_BYTES,
        state=State({"services": services, "admin": admin}, deep_copy=False),
    )
    return TraceMiddleware(app, choose_refusal_format)


def refuse_change(request: AnyRequest) -> None:
    """Refuse a request that changes anything, in a rehearsal. Raises Refusal."""
    if request.method not in ("GET", "HEAD", "OPTIONS"):
        raise Refusal("rehearsal")
