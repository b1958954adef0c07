"""Serve the specification's demo tools: those of an invented outdoor shop, over MCP.

`GET /api/mcp` describes the server, `POST /api/mcp` accepts JSON-RPC over sessionless Streamable HTTP.
"""
