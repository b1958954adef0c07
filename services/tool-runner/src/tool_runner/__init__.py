"""Runs the tools of agents' MCP servers: `ToolRequested` in, `ToolFinished` out, and lists what there is.

- `worker`: the process; `settings`: its environment
- `calls`: the work queue TOOLS, from a delivery to its published result
- `servers`: the MCP servers in use, their sessions and the agents that name them
- `tools`: what servers list, checked and named for a model; `chat.tools.list` and `chat.tools.check`
- `http`: the HTTP to servers that are strangers: every address, size and time is bounded there
- `faults`: what can go wrong, in words that a model may read; `redaction`: credentials taken out of answers
- `clock`: the clock of Postgres, by which deadlines are judged
"""
