"""What requests about webhooks hold, checked, and the outcomes of the library as refusals."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from litestar.connection import ASGIConnection
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from administration.checked_input import read_json
from contracts import http
from contracts.admin_errors import AdminError
from contracts.examples import ENDPOINT
from directory.secrets import Sealer
from gateway.admin.answering import refusal_of
from gateway.gateway_services import WebhookAccess, services_of
from gateway.http import strict_json
from gateway.http.problem_responses import Refusal
from net_guard import AddressRefused
from webhooks.endpoints import check_url

T = TypeVar("T")
AnyConnection = ASGIConnection[Any, Any, Any, Any]
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


def decode(kind: type[T], data: bytes) -> T:
    """The body of a request. Raises Refusal: 400."""
    strict_json.check(data)
    with refused():
        return read_json(kind, data)


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Raises Refusal for what the library refuses."""
    try:
        yield
    except AdminError as error:
        raise refusal_of(error) from None


async def check_address(connection: AnyConnection, url: str, account_id: str) -> None:
    """Raises Refusal where the address is none, or may not be called."""
    try:
        with refused():
            await check_url(webhook_access_of(connection).guard, url, account_id)
    except AddressRefused as error:
        reason = f"{error}; the operator's AGENTCHAT_WEBHOOK_ALLOW lists exceptions"
        field = http.FieldError(field="url", message=f"This may not be called: {reason}.")
        raise Refusal("address_refused", f"url: {field.message}", fields=[field]) from None


def sealer_of(connection: AnyConnection) -> Sealer:
    """Raises Refusal where this service has no key to seal secrets with."""
    sealer = webhook_access_of(connection).sealer
    if sealer is None:
        raise Refusal("overloaded", "This service has no AGENTCHAT_SECRET_KEY, which webhooks need.")
    return sealer


def webhook_access_of(connection: AnyConnection) -> WebhookAccess:
    """What webhooks need in the application that serves this request."""
    return services_of(connection).webhooks
