"""Build the console's ASGI application: its routes, middleware and error pages."""

from collections.abc import Iterable

from litestar import Litestar
from litestar.config.compression import CompressionConfig
from litestar.config.csrf import CSRFConfig
from litestar.datastructures import State
from litestar.plugins.htmx import HTMXRequest
from litestar.routes import HTTPRoute

from agentchat.administration.account_scope import has_account
from agentchat.console.pages import (
    accounts_page,
    agents_page,
    approvals_page,
    audit_page,
    conversation_actions,
    conversation_page,
    conversations_page,
    health_page,
    knowledge_page,
    playground_page,
    runs_page,
    users_page,
    webhooks_page,
    what_if_page,
)
from agentchat.console.pages.now import routes as now
from agentchat.console.services import ConsoleServices
from agentchat.console.shared import access_check, error_pages, health, rendering, sign_in
from agentchat.console.shared.console_middleware import ConsoleMiddleware
from agentchat.console.shared.console_roles import FILTERED, KEY, Role, RoleTable

PAGES = (
    now.HANDLERS,
    conversations_page.HANDLERS,
    conversation_page.HANDLERS,
    runs_page.HANDLERS,
    conversation_actions.HANDLERS,
    approvals_page.HANDLERS,
    what_if_page.HANDLERS,
    playground_page.HANDLERS,
    agents_page.HANDLERS,
    knowledge_page.HANDLERS,
    accounts_page.HANDLERS,
    users_page.HANDLERS,
    webhooks_page.HANDLERS,
    audit_page.HANDLERS,
    health_page.HANDLERS,
)


FRAME = (*health.HANDLERS, *sign_in.HANDLERS)


def build(services: ConsoleServices) -> ConsoleMiddleware:
    """Build the ASGI application.

    Raises:
        RoleMissing: If a handler does not name the role that it needs.
    """
    handlers = [*FRAME, *(each for page in PAGES for each in page)]
    middleware = []
    if services.provider is not None:
        from agentchat.console.shared import oidc  # loads authlib

        handlers += oidc.HANDLERS
        middleware.append(oidc.build_sign_in_cookie(services).middleware)
    app = Litestar(
        [*handlers, services.assets.build_router()],
        before_request=access_check.check,
        csrf_config=CSRFConfig(
            secret=services.sessions.secret.hex(),
            cookie_name=access_check.build_cookie_name(services, "agentchat_console_forms"),
            header_name="x-form-token",
            cookie_secure=access_check.is_secure(services),
            cookie_httponly=True,
            exclude=[f"^{path}" for path in access_check.OPEN_PATHS],
        ),
        compression_config=CompressionConfig(backend="gzip", exclude="^/(?!static/)"),
        middleware=middleware,
        exception_handlers=error_pages.HANDLERS,
        logging_config=None,  # agentchat.runtime.logs
        openapi_config=None,
        request_class=HTMXRequest,
        template_config=rendering.build_template_config(services.templates),
        state=State({"services": services}, deep_copy=False),
    )
    app.state.roles = build_role_table(app.routes)
    app.state.closed = list_closed_routes(app.routes)
    return ConsoleMiddleware(app, services.settings.console_url)


def list_closed_routes(routes: Iterable[object]) -> frozenset[str]:
    """Return the routes that concern all accounts, by method and path: see `account_limits`."""
    return frozenset(
        f"{method} {route.path_format}"
        for route in routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        for method in handler.http_methods
        if handler.opt.get(KEY) is not None
        and not (handler.opt.get(FILTERED) or has_account(route.path_parameters))
    )


class RoleMissing(Exception):  # noqa: N818 - a fault of this program, not of its input
    """A handler does not name the role that it needs."""


def build_role_table(routes: Iterable[object]) -> RoleTable:
    """Return the role of each route, by method and path. Raises RoleMissing."""
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
