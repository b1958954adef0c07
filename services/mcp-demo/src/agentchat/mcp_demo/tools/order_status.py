"""Define the tools of Order Status: show orders and parcels, change unshipped orders."""

from typing import Annotated

import mcp_types
from mcp.server.mcpserver import Context
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from agentchat.mcp_demo.shop import Shop, parcels
from agentchat.mcp_demo.shop.customers import Address
from agentchat.mcp_demo.shop.errors import build_missing_error, build_unknown_id_error
from agentchat.mcp_demo.shop.orders import Order, Status
from agentchat.mcp_demo.tools.category import Category
from agentchat.mcp_demo.tools.results import CURRENCY, Json, as_json, pick, to_euros
from agentchat.mcp_demo.tools.tool_parameters import CustomerId, Limit, OrderId

_COUNTRY = "Country, ISO 3166-1 alpha-2, capitals, such as AT."


def add_tools(category: Category, shop: Shop) -> None:
    """Add the tools of this category."""

    @category.add_reader("Get an order")
    async def get_order(context: Context, order_id: OrderId) -> Json:
        """Show one order by its id.

        Status, items with prices, total, payment, shipping address, shipment and refund. Use it for any
        question about a known order. To follow the parcel use track_shipment.
        """
        return _show_order(shop, _get_order(shop, context, order_id))

    @category.add_reader("List a customer's orders")
    async def list_customer_orders(
        context: Context,
        customer_id: CustomerId,
        status: Annotated[
            Status | None, Field(description="Only orders in this status. Leave out for all of them.")
        ] = None,
        limit: Limit = 10,
    ) -> Json:
        """List the orders of one customer, newest first, with status and total.

        Use it when the order id is not known. The customer's id comes from find_customer.
        """
        _check_customer(context, customer_id)
        customer = shop.get_customer(customer_id)
        orders = [order for order in shop.list_orders(customer_id) if status in (None, order.status)]
        return {
            "customer_id": customer_id,
            "customer_name": customer.name,
            "matching": len(orders),
            "currency": CURRENCY,
            "orders": [_summarize_order(shop, order) for order in orders[:limit]],
        }

    @category.add_reader("Track a shipment")
    async def track_shipment(context: Context, order_id: OrderId) -> Json:
        """Tell where the parcel of an order is.

        Carrier, tracking number, expected day of delivery, delay, and the scans so far. Use it for "where is
        my order" and "when does it arrive".
        """
        order = _get_order(shop, context, order_id)
        shipment, address = order.shipment, shop.get_address(order)
        found = {"order_id": order_id, "order_status": order.status, "state": "not_shipped"}
        found["destination"] = f"{address.city}, {address.country}"
        if shipment is None:
            return found | {"history": []}
        return (
            found
            | {"state": parcels.get_state(shipment)}
            | pick(shipment, "carrier", "tracking_number", "expected_on", "delivered_on")
            | {"history": as_json(parcels.list_scans(shipment, address))}
        )

    @category.add_updater("Cancel an order")
    async def cancel_order(
        context: Context,
        order_id: OrderId,
        reason: Annotated[
            str, Field(min_length=1, max_length=200, description="Why, in the customer's words, if known.")
        ] = "no reason given",
    ) -> Json:
        """Cancel an order that is still processing, with a full refund.

        Its goods go back into stock. This cannot be undone: call it only when the customer clearly asks for
        it. Fails for orders that have been shipped. Cancelling a cancelled order changes nothing.
        """
        _get_order(shop, context, order_id)
        changed = shop.cancel(order_id, reason)
        order = shop.get_order(order_id)
        return pick(order, "order_id", "status") | {
            "changed": changed,
            "refund": to_euros(order.refund_cents),
            "currency": CURRENCY,
            "payment_method": order.payment_method,
        }

    @category.add_updater("Change the shipping address")
    async def update_shipping_address(
        context: Context,
        order_id: OrderId,
        street: Annotated[
            str,
            Field(
                min_length=1,
                max_length=100,
                description="Street and house number.",
                examples=["Seeweg 14"],
            ),
        ],
        postal_code: Annotated[
            str, Field(min_length=2, max_length=12, description="Postal code.", examples=["6020"])
        ],
        city: Annotated[str, Field(min_length=1, max_length=60, description="City.", examples=["Innsbruck"])],
        country: Annotated[
            Annotated[str, Field(pattern="^[A-Z]{2}$")] | None,
            Field(description=_COUNTRY, examples=["AT"]),
        ] = None,
    ) -> Json | mcp_types.InputRequiredResult:
        """Replace the shipping address of an order that is still processing.

        It needs the whole new address. Leave out a country that is not known: the person is asked for it.
        Fails for orders that have been shipped. The customer's own address does not change.
        """
        _get_order(shop, context, order_id)
        answer = (context.input_responses or {}).get("country")
        if country is None and answer is None and _can_ask(context):
            return _ask_for_country()
        if country is None and isinstance(answer, mcp_types.ElicitResult):
            country = str((answer.content or {}).get("country", "")) or None
        if country is None or len(country) != 2 or not country.isupper():
            raise build_missing_error("country", _COUNTRY)
        address = Address(street, postal_code, city, country)
        changed = shop.readdress(order_id, address)
        return {"order_id": order_id, "changed": changed, "shipping_address": as_json(address)}


def _get_user(context: Context) -> str | None:
    """Return the customer who talks to the agent, as the agent's service says; None if it does not say."""
    meta: Json = dict(context.request_context.meta or {})
    user = meta.get("agentchat/user_id")
    return user if isinstance(user, str) else None


def _get_order(shop: Shop, context: Context, order_id: str) -> Order:
    """Return the order. Raises ShopError also for the order of another customer than the user."""
    order, user = shop.get_order(order_id), _get_user(context)
    if user not in (None, order.customer_id):
        own = [each.order_id for each in shop.list_orders(user or "")]
        raise build_unknown_id_error("order", order_id, own)
    return order


def _check_customer(context: Context, customer_id: str) -> None:
    """Raise ShopError for another customer than the user."""
    if _get_user(context) not in (None, customer_id):
        raise build_unknown_id_error("customer", customer_id, [])


def _can_ask(context: Context) -> bool:
    """Return True if the client can ask a person and repeat the call with the answers.

    Older protocols ask in a session, and this server keeps none.
    """
    capabilities = context.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    return elicitation.form is not None or elicitation.url is None


def _ask_for_country() -> mcp_types.InputRequiredResult:
    schema: Json = {
        "type": "object",
        "properties": {"country": {"type": "string", "title": "Country", "description": _COUNTRY}},
        "required": ["country"],
    }
    params = mcp_types.ElicitRequestFormParams(
        message="Change the shipping address: country?", requested_schema=schema
    )
    return mcp_types.InputRequiredResult(input_requests={"country": mcp_types.ElicitRequest(params=params)})


def _show_order(shop: Shop, order: Order) -> Json:
    shipment = order.shipment
    return {
        "order_id": order.order_id,
        "customer_id": order.customer_id,
        "customer_name": shop.customers[order.customer_id].name,
        **pick(order, "placed_at", "status"),
        "items": [
            {
                "product_id": item.product_id,
                "name": shop.products[item.product_id].name,
                "quantity": item.quantity,
                "unit_price": to_euros(item.unit_price_cents),
                "line_total": to_euros(item.cents),
            }
            for item in order.items
        ],
        "goods": to_euros(order.goods_cents),
        "delivery": to_euros(order.delivery_cents),
        "total": to_euros(order.total_cents),
        "refund": to_euros(order.refund_cents),
        "currency": CURRENCY,
        "payment_method": order.payment_method,
        "shipping_address": as_json(shop.get_address(order)),
        "shipment": None if shipment is None else as_json(shipment) | {"state": parcels.get_state(shipment)},
        "closed": as_json(order.closed),
        "can_be_changed": order.status == "processing",
        "ticket_ids": [t.ticket_id for t in shop.tickets.values() if t.order_id == order.order_id],
    }


def _summarize_order(shop: Shop, order: Order) -> Json:
    products = [shop.products[item.product_id].name for item in order.items]
    return pick(order, "order_id", "placed_at", "status") | {
        "total": to_euros(order.total_cents),
        "products": products,
    }
