"""Alder & Finch, the outdoor shop that the tools work on: fixed example records, and the few that can change.

`open_shop` gives a fresh copy of it; nothing here reads the clock, the disk or the network.
"""

from agentchat.mcp_demo.shop.state import Shop, open_shop

__all__ = ["Shop", "open_shop"]
