"""What the server says of itself: the information object of `GET /api/mcp`, in the specification's fields."""

from importlib.metadata import version

import msgspec

NAME = "alder-finch-demo"
TITLE = "Alder & Finch demo tools"
VERSION = version("agentchat-mcp-demo")
DESCRIPTION = (
    "Demo tool server of an invented outdoor shop: orders, sales figures, recommendations, support, "
    "products. All data are made up, and changes last until the process ends."
)


class Endpoints(msgspec.Struct, frozen=True):
    """What each method of the path does, in words."""

    mcp_post: str = "POST /api/mcp: JSON-RPC 2.0 requests of the Model Context Protocol, without a session"
    mcp_get: str = "GET /api/mcp: this information"


class Information(msgspec.Struct, frozen=True):
    """Exactly the fields of docs/specification.md 10, in this order."""

    name: str
    version: str
    protocol: str
    protocolVersion: str  # noqa: N815 - the name on the wire
    description: str
    transport: str
    tools_count: int
    categories: tuple[str, ...]
    endpoints: Endpoints


def information(tools_count: int, categories: tuple[str, ...]) -> Information:
    """The information object of a server with so many tools in these categories."""
    return Information(
        name=NAME,
        version=VERSION,
        protocol="MCP over Streamable HTTP",
        protocolVersion="2024-11-05",
        description=DESCRIPTION,
        transport="Sessionless Streamable HTTP",
        tools_count=tools_count,
        categories=categories,
        endpoints=Endpoints(),
    )
