"""Protect against server-side request forgery: connect only to permitted addresses.

`guard` checks URLs and addresses, `permitted_addresses` resolves names, and sessions of `guarded_session`
connect to the addresses found.
"""

from agentchat.net_guard.ssrf_guard import AddressRefused, Guard, NotLookedUp, Resolver, Unresolved, is_public

__all__ = ["AddressRefused", "Guard", "NotLookedUp", "Resolver", "Unresolved", "is_public"]
