"""The MCP servers in use: `pool` has an entry for each account, address and credentials,
`mcp_session` is one session of the client, opened again after it ended, `elicitation` what a server asks.
"""
