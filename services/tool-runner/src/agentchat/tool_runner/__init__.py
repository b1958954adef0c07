"""Runs the tools of agents' MCP servers: `ToolRequested` in, `ToolFinished` out, and lists what there is.

A call comes by `calls` (the work queue TOOLS), runs on a session of `servers` over `http`, where every
address, size and time is bounded; `tools` lists, `authorization` obtains access tokens, `worker` is the
process.
"""
