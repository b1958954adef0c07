"""Decode a request's body to the type of the handler's `data`."""

from typing import TYPE_CHECKING, Any

from litestar import Request
from litestar.datastructures import State

from agentchat.administration.checked_input import read_json
from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.api_keys import Caller
from agentchat.gateway.http import ignored_parameters
from agentchat.gateway.http.refusals import to_refusal
from agentchat.gateway.http.request_context import RequestContext, get_context

if TYPE_CHECKING:
    from agentchat.gateway.services import GatewayServices

MAX_BODY_BYTES = 1024 * 1024
MAX_FILES_BODY_BYTES = 8 * MAX_BODY_BYTES
"""For bodies that may have files in them. Their texts are bounded by MAX_BODY_BYTES."""


class JsonRequest(Request[Any, Caller, State]):
    """`auth` is the caller that the guard has found."""

    @property
    def context(self) -> RequestContext:
        """Return the request's context."""
        return get_context(self)

    @property
    def services(self) -> "GatewayServices":
        """Return the services of the application."""
        services: GatewayServices = self.app.state.services
        return services

    async def json(self) -> Any:
        """Decode the body, strictly: Litestar would make dicts of it, and convert texts to numbers.

        Raises Refusal: 400, which names the field.
        """
        data, received = self.route_handler.parsed_data_field, await self.body()
        assert data is not None
        if not received.strip():
            raise to_refusal(Invalid("body", "is empty; it must be a JSON object"))
        try:
            body = read_json(data.annotation, received)
        except Invalid as error:
            raise to_refusal(Invalid(error.field or "body", error.reason)) from None
        self.context.ignored += ignored_parameters.list_ignored_parameters(data.annotation, received)
        return body
