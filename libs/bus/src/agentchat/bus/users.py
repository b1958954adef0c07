"""The users of NATS, and the part of its configuration that says what each may do: `accounts.conf`.

The embedded server and production have the same. What NATS does not check is where an answer goes
(decision 25), so those whom we do not run, `analytics`, have an account of their own, from which nothing but
their consumer is reached.
"""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

PROVISIONER = "provisioner"
OPERATOR = "operator"
ANALYTICS = "analytics"
"""The user, and the consumer of EVENTS, of those who may make no consumer of their own."""
FEED_PREFIX = "feed"
"""JetStream's API as `analytics` sees it, where others have `$JS.API`."""

USERS = ("gateway", "orchestrator", "tool-runner", "projector", "console", OPERATOR, PROVISIONER)
NAMES = (*USERS, ANALYTICS)
"""Every user that has a password."""


def user_of(url: str) -> str | None:
    """Which of them an address is of; None for any other user, who may do what its server lets it."""
    name = urlsplit(url.split(",")[0].strip()).username
    return name if name in USERS else None


def may_provision(user: str | None) -> bool:
    """Where nobody has set up these users, every process makes the streams."""
    return user is None or user == PROVISIONER


def inbox_prefix(user: str | None) -> str:
    """Nobody else may listen there."""
    return f"_INBOX_{user}" if user else "_INBOX"


def configuration(password: Callable[[str], str]) -> str:
    """The `accounts` block of nats-server; `password` gives a user's, as it is to stand there."""
    accounts = Path(__file__).with_name("accounts.conf").read_text()
    return re.sub(r"@([a-z-]+)@", lambda user: password(user[1]), accounts)
