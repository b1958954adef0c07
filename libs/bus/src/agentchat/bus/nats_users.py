"""Define the users of NATS and render their part of its configuration, `accounts.conf`.

The embedded server and production have the same users. NATS does not check where an answer goes (decision
25), so processes that are not ours use `analytics`, an account of its own that reaches only its consumer.
"""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

PROVISIONER = "provisioner"
OPERATOR = "operator"
ANALYTICS = "analytics"
"""The user and the consumer of EVENTS for readers that may not create a consumer of their own."""
FEED_PREFIX = "feed"
"""The prefix of JetStream's API for `analytics`; for others it is `$JS.API`."""

USERS = ("gateway", "orchestrator", "tool-runner", "projector", "console", OPERATOR, PROVISIONER)
NAMES = (*USERS, ANALYTICS)
"""Every user that has a password."""


def parse_user(url: str) -> str | None:
    """Return which of `USERS` an address logs in as, or None for any other user.

    The server decides the rights of any other user.
    """
    name = urlsplit(url.split(",")[0].strip()).username
    return name if name in USERS else None


def may_provision(user: str | None) -> bool:
    """Return True for the provisioner, and for every process if these users were not set up."""
    return user is None or user == PROVISIONER


def get_inbox_prefix(user: str | None) -> str:
    """Return the prefix of a user's inboxes, to which nobody else may listen."""
    return f"_INBOX_{user}" if user else "_INBOX"


def render_accounts(password: Callable[[str], str]) -> str:
    """Return the `accounts` block of nats-server.

    `password` returns a user's password in the form in which it is written there.
    """
    accounts = Path(__file__).with_name("accounts.conf").read_text()
    return re.sub(r"@([a-z-]+)@", lambda user: password(user[1]), accounts)
