"""The demo tool server of the specification: 21 tools of an invented outdoor shop over MCP.

`GET /api/mcp` tells what the server is, `POST /api/mcp` speaks JSON-RPC over sessionless Streamable HTTP.
"""
