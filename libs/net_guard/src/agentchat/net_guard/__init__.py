"""Protect against server-side request forgery: connect only to judged addresses.

`guard` judges URLs and addresses, `judged_addresses` resolves names to judged addresses, and sessions of
`guarded_session` connect to those.
"""

from agentchat.net_guard.guard import AddressRefused, Guard, NotLookedUp, Resolver, Unresolved, is_public

__all__ = ["AddressRefused", "Guard", "NotLookedUp", "Resolver", "Unresolved", "is_public"]
