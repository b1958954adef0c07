"""The routes of the console, and how what they raise is shown."""

from litestar import Litestar
from litestar.datastructures import State
from litestar.plugins.htmx import HTMXRequest

from console.console_services import ConsoleServices
from console.frame import access, assets, failures, rendering, sign_in, status
from console.frame.outer import OuterLayer
from console.pages import (
    accounts,
    agents,
    approvals,
    conversation_page,
    conversations,
    health,
    knowledge,
    playground,
    webhooks,
    what_if,
)
from console.pages.now import routes as now
from runtime.imports import without

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
    health.HANDLERS,
)


@without("pydantic", "attr", "attrs")  # Litestar has a plugin for each that is installed: 6 MiB
def build(services: ConsoleServices) -> OuterLayer:
    """The ASGI application over `services`."""
    app = Litestar(
        [*assets.HANDLERS, *status.HANDLERS, *sign_in.HANDLERS, *(each for page in PAGES for each in page)],
        before_request=access.check,
        exception_handlers=failures.HANDLERS,
        logging_config=None,  # runtime.logs
        openapi_config=None,
        request_class=HTMXRequest,
        template_config=rendering.template_config(services.templates),
        state=State({"services": services}, deep_copy=False),
    )
    return OuterLayer(app)
