"""Send HTTP to tool servers, none of which is trusted.

`transport` sends the MCP client's requests to permitted addresses, `call_budget` limits the time and bytes of
a call, listing or handshake, `network` reads a response within that budget, and `server_messages` repairs
what the MCP client would misread.
"""
