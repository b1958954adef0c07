"""Generate and hash API keys.

A key has a prefix and 256 random bits. Only its SHA-256 is stored: random bits need no slow hash.
"""

import hashlib
import secrets
from typing import Literal, get_args

PREFIX = "sk-ac-"

Scope = Literal["chat", "read", "manage", "approve"]
"""What a key may do: send messages and work with their runs; read and list; delete, and manage users and
webhooks; decide about tool calls.
"""

SCOPES: tuple[Scope, ...] = get_args(Scope)


def generate_api_key() -> str:
    """Return a new key: `sk-ac-` and 43 URL-safe characters. It is shown once and not stored."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> bytes:
    """Return the hash that the table holds. Any text has one, so odd headers never raise."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def get_last4(key: str) -> str:
    """Return the last four characters, by which people recognise a key."""
    return key[-4:]
