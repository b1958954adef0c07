"""The routes of the console, and how what they raise is shown."""

from collections.abc import Iterable

from litestar import Litestar
from litestar.config.compression import CompressionConfig
from litestar.config.csrf import CSRFConfig
from litestar.datastructures import State
from litestar.plugins.htmx import HTMXRequest
from litestar.routes import HTTPRoute

from agentchat.console.console_services import ConsoleServices
from agentchat.console.frame import access, failures, rendering, sign_in, status
from agentchat.console.frame.outer import OuterLayer
from agentchat.console.frame.roles import KEY, Role, RoleTable
from agentchat.console.pages import (
    accounts,
    agents,
    approvals,
    audit,
    conversation_page,
    conversations,
    health,
    knowledge,
    playground,
    webhooks,
    what_if,
)
from agentchat.console.pages.now import routes as now

PAGES = (
    now.HANDLERS,
    conversations.HANDLERS,
    conversation_page.HANDLERS,
    approvals.HANDLERS,
    what_if.HANDLERS,
    playground.HANDLERS,
    agents.HANDLERS,
    knowledge.HANDLERS,
    accounts.HANDLERS,
    webhooks.HANDLERS,
    audit.HANDLERS,
    health.HANDLERS,
)


FRAME = (*status.HANDLERS, *sign_in.HANDLERS)


def build(services: ConsoleServices) -> OuterLayer:
    """Return the ASGI application over `services`. Raises RoleMissing."""
    handlers = [*FRAME, *(each for page in PAGES for each in page)]
    middleware = []
    if services.provider is not None:
        from agentchat.console.frame import oidc  # loads authlib

        handlers += oidc.HANDLERS
        middleware.append(oidc.pending_sign_in(services).middleware)
    app = Litestar(
        [*handlers, services.assets.router()],
        before_request=access.check,
        csrf_config=CSRFConfig(
            secret=services.sessions.secret.hex(),
            cookie_name=access.cookie_name(services, "agentchat_console_forms"),
            header_name="x-form-token",
            cookie_secure=access.is_secure(services),
            cookie_httponly=True,
            exclude=[f"^{path}" for path in access.OPEN_PATHS],
        ),
        compression_config=CompressionConfig(backend="gzip", exclude="^/(?!static/)"),
        middleware=middleware,
        exception_handlers=failures.HANDLERS,
        logging_config=None,  # agentchat.runtime.logs
        openapi_config=None,
        request_class=HTMXRequest,
        template_config=rendering.template_config(services.templates),
        state=State({"services": services}, deep_copy=False),
    )
    app.state.roles = role_table(app.routes)
    return OuterLayer(app)


class RoleMissing(Exception):  # noqa: N818 - a fault of this program, not of its input
    """A handler does not say who may use it."""


def role_table(routes: Iterable[object]) -> RoleTable:
    """Of an application's routes. Raises RoleMissing."""
    found: dict[str, Role | None] = {}
    for route in routes:
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            if handler.http_methods == {"OPTIONS"}:
                continue  # Litestar's own
            role = handler.opt.get(KEY, "")
            if role is not None and not isinstance(role, Role):
                raise RoleMissing(f"the handler of {route.path} has no role")
            found |= {f"{method} {route.path_format}": role for method in handler.http_methods}
    return found
