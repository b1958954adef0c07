"""Build the information object of `GET /api/mcp`."""

from importlib.metadata import version

from agentchat.mcp_demo.tools import CATEGORIES

NAME = "alder-finch-demo"
TITLE = "Alder & Finch demo tools"
VERSION = version("agentchat-mcp-demo")
DESCRIPTION = (
    "Demo tool server of an invented outdoor shop: orders, sales figures, recommendations, support, "
    "products. All data are made up, and changes last until the process ends."
)


def build_information(tools_count: int) -> dict[str, object]:
    """Return exactly the fields of the specification, in its order."""
    return {
        "name": NAME,
        "version": VERSION,
        "protocol": "MCP over Streamable HTTP",
        "protocolVersion": "2024-11-05",
        "description": DESCRIPTION,
        "transport": "Sessionless Streamable HTTP",
        "tools_count": tools_count,
        "categories": CATEGORIES,
        "endpoints": {
            "mcp_post": "POST /api/mcp: JSON-RPC 2.0 requests of the Model Context Protocol; no session",
            "mcp_get": "GET /api/mcp: this information",
        },
    }
