"""/v1/conversations: conversations are read back, described, forked and deleted."""

from gateway.conversations.routes import ROUTER

__all__ = ["ROUTER"]
