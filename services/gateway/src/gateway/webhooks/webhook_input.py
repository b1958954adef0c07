"""What requests about webhooks hold, checked."""

from typing import Annotated

from litestar.openapi.spec import Example
from litestar.params import PathParameter

from contracts import http
from contracts.examples import ENDPOINT
from directory.secrets import Sealer
from gateway.gateway_request import GatewayRequest
from gateway.http.problem_responses import Refusal
from net_guard import AddressRefused
from webhooks.endpoints import check_url

EndpointId = Annotated[
    str,
    PathParameter(
        description="One of the account's endpoints.", format="uuid", examples=[Example(value=ENDPOINT)]
    ),
]
DeliveryId = Annotated[
    str,
    PathParameter(
        description="The `webhook-id` of a delivery.",
        examples=[Example(value="msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9")],
    ),
]


async def check_address(request: GatewayRequest, url: str) -> None:
    """Raises Refusal where the address is none, or may not be called."""
    try:
        await check_url(request.services.webhooks.guard, url, request.auth.account_id)
    except AddressRefused as error:
        reason = f"{error}; the operator's AGENTCHAT_WEBHOOK_ALLOW lists exceptions"
        field = http.FieldError(field="url", message=f"This may not be called: {reason}.")
        raise Refusal("address_refused", f"url: {field.message}", fields=[field]) from None


def sealer_of(request: GatewayRequest) -> Sealer:
    """Raises Refusal where this service has no key to seal secrets with."""
    sealer = request.services.webhooks.sealer
    if sealer is None:
        raise Refusal("overloaded", "This service has no AGENTCHAT_SECRET_KEY, which webhooks need.")
    return sealer
