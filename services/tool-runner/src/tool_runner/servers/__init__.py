"""The MCP servers in use.

- `agents`: which servers an agent's version names, with their headers
- `pool`: one entry for each account, address and credentials, bounded in number, closed when idle
- `connection`: a session opened again after it ended, with back-off
- `session`: one session of the MCP client
- `failures`: the client's exceptions as faults
"""
