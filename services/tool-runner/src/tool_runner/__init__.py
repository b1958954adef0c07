"""Runs the tools of agents' MCP servers: `ToolRequested` in, `ToolFinished` out, and lists what there is.

The servers are strangers: every address, size and time is bounded in `guard`, `transport` and `exchange`.
"""
