"""The demo tool server of the specification: the tools of an invented outdoor shop over MCP.

`GET /api/mcp` describes the server, `POST /api/mcp` accepts JSON-RPC over sessionless Streamable HTTP.
"""
