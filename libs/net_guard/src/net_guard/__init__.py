"""Which addresses of others may be called: `guard` judges them, `network` connects to the judged ones alone,
`transport` is an HTTP client's way there.
"""

from net_guard.guard import AddressRefused, Guard, NotLookedUp, Resolver, Unresolved, is_public

__all__ = ["AddressRefused", "Guard", "NotLookedUp", "Resolver", "Unresolved", "is_public"]
