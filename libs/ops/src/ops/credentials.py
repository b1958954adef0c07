"""The users of NATS and Redis for servers that run elsewhere, with passwords that were never used."""

import secrets
from typing import Literal

from bus import users
from ops.servers import valkey


def settings(server: Literal["nats", "redis"]) -> str:
    """Lines for the server's settings file; the passwords stand in them."""
    if server == "nats":
        return users.configuration(lambda _: f'"{secrets.token_urlsafe(32)}"')
    return valkey.configuration({user: f">{secrets.token_urlsafe(32)}" for user in valkey.USERS})
