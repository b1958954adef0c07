"""Which addresses of others may be called: `guard` judges them, `addresses` looks them up, and sessions of
`session` connect to the judged ones alone.
"""

from agentchat.net_guard.guard import AddressRefused, Guard, NotLookedUp, Resolver, Unresolved, is_public

__all__ = ["AddressRefused", "Guard", "NotLookedUp", "Resolver", "Unresolved", "is_public"]
