"""Model the outdoor shop Alder & Finch: fixed example records, a few of which can change.

`open_shop` returns a fresh copy. Nothing here reads the clock or the network.
"""

from agentchat.mcp_demo.shop.shop import Shop, open_shop

__all__ = ["Shop", "open_shop"]
