"""Add the tools to the server; each category is a module."""

from mcp.server import MCPServer

from agentchat.mcp_demo.shop import Shop
from agentchat.mcp_demo.tools import (
    business_intelligence,
    customer_support,
    order_status,
    product_discovery,
    recommendations,
)
from agentchat.mcp_demo.tools.category import Category

_ADD = {
    "Order Status": order_status.add_tools,
    "Business Intelligence": business_intelligence.add_tools,
    "Recommendations": recommendations.add_tools,
    "Customer Support": customer_support.add_tools,
    "Product Discovery": product_discovery.add_tools,
}
CATEGORIES = tuple(_ADD)


def add_tools(server: MCPServer, shop: Shop) -> None:
    """Add the tools of every category, which work on `shop`."""
    for name, add in _ADD.items():
        add(Category(name, server), shop)
