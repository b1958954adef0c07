"""Keep the MCP servers that are in use.

`server_pool` has a `tool_server` for each account, address and credentials. A tool server opens an
`mcp_session` again after it ended. `elicitation` handles the questions of servers to people, and
`client_errors` turns the client's errors into faults.
"""
