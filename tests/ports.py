"""Loopback ports for servers that tests start."""

from ops.ports import free_port

__all__ = ["free_port"]
