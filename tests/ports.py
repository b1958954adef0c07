"""Loopback ports for servers that tests start."""

from agentchat.ops.free_ports import find_free_port

__all__ = ["find_free_port"]
