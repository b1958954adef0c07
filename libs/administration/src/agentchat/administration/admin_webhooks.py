"""List webhook endpoints of all accounts, disable them, and resend deliveries.

Accounts create, change and delete their endpoints by the API.
"""

from typing import Any, cast, get_args

import msgspec

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import Page
from agentchat.administration.checked_input import parse_id, validate
from agentchat.administration.query_parameters import After, Limit, OfAccount, OfDelivery
from agentchat.administration.row_pages import build_page, count_rows
from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.webhooks import Delivery, DeliveryStatus, EndpointChanges, OwnedEndpoint
from agentchat.runtime.postgres import Connection
from agentchat.webhooks import deliveries as sent
from agentchat.webhooks import endpoints

_STATUSES = get_args(DeliveryStatus)


class EndpointSwitch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of an endpoint. Once enabled, it receives what happened while it was disabled."""

    disabled: bool


async def page(
    admin: Admin, account_id: OfAccount | None = None, *, after: After | None = None, limit: Limit = 20
) -> Page[OwnedEndpoint]:
    """List the webhook endpoints, all or one account's, in the order in which they were made."""
    own = account_id and parse_id("account", account_id)
    with translate_errors():
        rows = await endpoints.list_all_endpoints(
            admin.pool, own, account_ids=admin.account_ids, after=after, limit=count_rows(limit)
        )
    return build_page(rows, limit)


async def get(admin: Admin, endpoint_id: str) -> OwnedEndpoint:
    """Get a webhook endpoint. Raises NotFound."""
    with translate_errors():
        return await endpoints.find_endpoint(admin.pool, endpoint_id)


async def change(admin: Admin, endpoint_id: str, changes: EndpointSwitch) -> OwnedEndpoint:
    """Disable or enable a webhook endpoint. Raises NotFound."""
    found, changes = await get(admin, endpoint_id), validate(changes)
    wanted = EndpointChanges(disabled=changes.disabled)
    with translate_errors():
        await endpoints.change_endpoint(
            admin.pool, found.account_id, found.id, wanted, note=_build_note(admin, "change", found.id)
        )
    return await get(admin, found.id)


async def list_deliveries(
    admin: Admin,
    endpoint_id: str,
    *,
    status: OfDelivery | None = None,
    after: After | None = None,
    limit: Limit = 20,
) -> Page[Delivery]:
    """List the deliveries of a webhook endpoint, the newest first. Raises NotFound, Invalid."""
    if status is not None and status not in _STATUSES:
        raise Invalid("status", f"must be one of {', '.join(_STATUSES)}")
    found = await get(admin, endpoint_id)
    count_rows(limit)
    wanted = cast("DeliveryStatus | None", status)
    with translate_errors():
        rows, more = await sent.list_deliveries(
            admin.pool, found.account_id, found.id, status=wanted, before=after, limit=limit
        )
    return Page(items=tuple(rows), after=more)


async def resend(admin: Admin, endpoint_id: str, delivery_id: str) -> Delivery:
    """Send a delivery again, under its own id. Raises NotFound, Conflict if the endpoint is disabled."""
    found = await get(admin, endpoint_id)
    with translate_errors():
        delivery = await sent.get_delivery(admin.pool, found.account_id, found.id, delivery_id)
        return await sent.resend_delivery(
            admin.pool, found.account_id, delivery.id, note=_build_note(admin, "resend", found.id)
        )


def _build_note(admin: Admin, action: str, endpoint_id: str) -> endpoints.Note:
    """Build a callback that writes the audit row in the change's transaction."""

    async def note(conn: Connection, before: Any, after: Any) -> None:
        await admin.note(conn, action, "webhook endpoint", endpoint_id, before=before, after=after)

    return note
