"""What requests about webhooks hold, checked."""

from typing import Annotated

from litestar.params import PathParameter

from contracts import http
from directory.secrets import Sealer
from gateway.http.json_request import JsonRequest
from gateway.http.refusals import Refusal
from gateway.services import services_of
from net_guard import AddressRefused
from webhooks.endpoints import check_url

EndpointId = Annotated[
    str,
    PathParameter(description="One of the account's endpoints.", schema_extra={"format": "uuid"}),
]
DeliveryId = Annotated[
    str,
    PathParameter(
        description="The `webhook-id` of a delivery, such as msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9."
    ),
]


async def check_address(request: JsonRequest, url: str) -> None:
    """Raises Refusal where the address is none, or may not be called."""
    try:
        await check_url(services_of(request).webhooks.guard, url, request.auth.account_id)
    except AddressRefused as error:
        reason = f"{error}; the operator's AGENTCHAT_WEBHOOK_ALLOW lists exceptions"
        field = http.FieldError(field="url", message=f"This may not be called: {reason}.")
        raise Refusal("address_refused", f"url: {field.message}", fields=[field]) from None


def sealer_of(request: JsonRequest) -> Sealer:
    """Raises Refusal where this service has no key to seal secrets with."""
    sealer = services_of(request).webhooks.sealer
    if sealer is None:
        raise Refusal("overloaded", "This service has no AGENTCHAT_SECRET_KEY, which webhooks need.")
    return sealer
