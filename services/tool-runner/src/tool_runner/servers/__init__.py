"""The MCP servers in use: `pool` has an entry for each account, address and credentials,
`server_connection` opens its session again after it ended, `mcp_session` is one session of the client,
`elicitation` what a server asks.
"""
