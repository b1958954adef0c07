"""The information object of `GET /api/mcp`, in the specification's fields."""

from importlib.metadata import version

NAME = "alder-finch-demo"
TITLE = "Alder & Finch demo tools"
VERSION = version("agentchat-mcp-demo")
DESCRIPTION = (
    "Demo tool server of an invented outdoor shop: orders, sales figures, recommendations, support, "
    "products. All data are made up, and changes last until the process ends."
)


def information(tools_count: int, categories: tuple[str, ...]) -> dict[str, object]:
    """The information object: exactly the fields of docs/change/specification.md 10, in this order."""
    return {
        "name": NAME,
        "version": VERSION,
        "protocol": "MCP over Streamable HTTP",
        "protocolVersion": "2024-11-05",
        "description": DESCRIPTION,
        "transport": "Sessionless Streamable HTTP",
        "tools_count": tools_count,
        "categories": categories,
        "endpoints": {
            "mcp_post": "POST /api/mcp: JSON-RPC 2.0 requests of the Model Context Protocol,"
            " without a session",
            "mcp_get": "GET /api/mcp: this information",
        },
    }
