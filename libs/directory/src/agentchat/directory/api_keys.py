"""API keys: 256 random bits after a fixed prefix, of which only the SHA-256 is stored.

Bits that are random need no slow hash."""

import hashlib
import secrets

PREFIX = "sk-ac-"


def generate_api_key() -> str:
    """`sk-ac-` and 43 URL-safe characters. It is shown once and cannot be had again."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> bytes:
    """What the table holds of a key. Any text has one, so that a look-up never fails on odd headers."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def get_last4(key: str) -> str:
    return key[-4:]
