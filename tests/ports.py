"""Loopback ports for servers that tests start."""

from agentchat.ops.ports import free_port

__all__ = ["free_port"]
