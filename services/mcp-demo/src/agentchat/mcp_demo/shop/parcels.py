"""Derive a parcel's tracking history from the dates of its shipment."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

import msgspec

from agentchat.mcp_demo.shop.calendar import NOW, TODAY, Instant
from agentchat.mcp_demo.shop.customers import Address
from agentchat.mcp_demo.shop.orders import Carrier, Shipment

State = Literal["in_transit", "out_for_delivery", "delayed", "delivered"]

WAREHOUSE = "Utrecht, NL"
_HUBS: dict[Carrier, str] = {
    "DHL": "Leipzig, DE",
    "DPD": "Brussels, BE",
    "PostNord": "Malmo, SE",
    "GLS": "Lyon, FR",
}


class Scan(msgspec.Struct, frozen=True):
    """One entry of the tracking history."""

    at: Instant
    place: str
    text: str


def get_state(shipment: Shipment) -> State:
    """Return the state of the parcel on the shop's day."""
    if shipment.delivered_on is not None:
        return "delivered"
    if shipment.expected_on < TODAY:
        return "delayed"
    return "out_for_delivery" if shipment.expected_on == TODAY else "in_transit"


def list_scans(shipment: Shipment, address: Address) -> list[Scan]:
    """Return the tracking history so far, oldest first."""
    city = f"{address.city}, {address.country}"
    history = [
        Scan(_combine(shipment.shipped_on, "16:20"), WAREHOUSE, "Handed to the carrier"),
        Scan(
            _combine(shipment.shipped_on + timedelta(days=1), "05:40"),
            _HUBS[shipment.carrier],
            "Sorting centre",
        ),
    ]
    arrival = shipment.delivered_on or shipment.expected_on
    if get_state(shipment) != "delayed":
        history.append(Scan(_combine(arrival, "08:10"), city, "Out for delivery"))
    if shipment.delivered_on is not None:
        history.append(Scan(_combine(arrival, "13:25"), city, "Delivered"))
    return [scan for scan in history if scan.at <= NOW]


def _combine(day: date, clock: str) -> datetime:
    return datetime.combine(day, time.fromisoformat(clock), UTC)
