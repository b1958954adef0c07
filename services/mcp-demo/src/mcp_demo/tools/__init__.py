"""The tools, one module a category, and `TOOLS`: all of them in the order in which they are listed.

A tool is a plain function of the shop and its arguments; `mcp_demo.server` publishes it by MCP.
"""

from mcp_demo.tools import (
    business_intelligence,
    customer_support,
    order_status,
    product_discovery,
    recommendations,
)
from mcp_demo.tools.tool import CATEGORIES, Effect, ShopTool, ToolCategory

__all__ = ["CATEGORIES", "TOOLS", "Effect", "ShopTool", "ToolCategory"]

TOOLS: tuple[ShopTool, ...] = (
    *order_status.TOOLS,
    *business_intelligence.TOOLS,
    *recommendations.TOOLS,
    *customer_support.TOOLS,
    *product_discovery.TOOLS,
)
