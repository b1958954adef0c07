"""Keep the MCP servers that are in use.

`agent_servers` reads what an agent has; `tool_servers` keeps one for each account, address and credentials,
and opens its `mcp_session` again after it ended. `elicitation` handles the questions of servers to people,
`client_errors` turns the client's errors into faults.
"""
