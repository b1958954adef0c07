"""OAuth 2.1 for tool servers, as MCP has it.

- `requests`: HTTP to authorization servers, through the guard, bounded in bytes and time
- `discovery`: which authorization server, by the tool server's metadata and its own
- `scopes`: the scope that a tool server wants, as far as it is one
- `grants`: tokens for a client's credentials, a code, a refresh token
- `tokens`: the access token of one agent at one server, refreshed under one lock for all workers
- `links`: `chat.tools.authorize`, from the link that an administrator opens to the answer that comes back
"""
