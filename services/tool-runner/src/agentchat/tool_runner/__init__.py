"""Run the tools of agents' MCP servers.

Take `ToolRequested`, publish `ToolFinished`, list tools. `calls` takes calls from the work queue TOOLS and
runs them on MCP sessions of `servers`. `http` bounds the address, size and time of every request. `tools`
lists and checks tools, `authorization` obtains access tokens, and `worker` wires the process.
"""
