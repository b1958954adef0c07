"""Seal secrets with AES-256-GCM under AGENTCHAT_SECRET_KEY, bound to an owner.

A sealed value is: format (1 byte, 1) | id of the key (4 bytes) | nonce (12 bytes) | ciphertext and tag.
The owner is authenticated, not stored: bytes copied to another account or agent do not open.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentchat.directory.errors import SealBroken
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acquire_connection
from agentchat.runtime.settings import SettingsError

KEY_BYTES = 32
_FORMAT = b"\x01"
_ID_BYTES = 4
_NONCE_BYTES = 12
_HEAD_BYTES = len(_FORMAT) + _ID_BYTES + _NONCE_BYTES


def load_ciphers() -> None:
    """Let OpenSSL load what sealing needs: 2 MiB, which the forks of `ops.fork_server` then share."""
    Sealer(bytes(KEY_BYTES))


class Sealer:
    """Seals values under one key, and opens those sealed under it or under previous keys."""

    def __init__(self, secret_key: bytes, *, previous: Sequence[bytes] = ()) -> None:
        for key in (secret_key, *previous):
            if len(key) != KEY_BYTES:
                raise ValueError(f"a secret key has {KEY_BYTES} bytes, this one has {len(key)}")
        self._current = _derive_key_id(secret_key)
        self._ciphers = {_derive_key_id(key): AESGCM(key) for key in (*previous, secret_key)}
        self._hash_key = hmac.digest(secret_key, b"agentchat user hash", "sha256")

    @classmethod
    def from_setting(cls, text: str, previous: Sequence[str] = ()) -> "Sealer":
        """Build a sealer from settings: base64 of 32 bytes. Raises ValueError without the value."""
        return cls(_decode_key(text), previous=[_decode_key(other) for other in previous])

    @property
    def key_id(self) -> str:
        """The current key's name in audit rows: 8 hexadecimal digits of its hash."""
        return self._current.hex()

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        """The ids of all keys that open values, as sealed values name them."""
        return tuple(self._ciphers)

    def seal(self, plain: str, *, owner: str) -> bytes:
        """Encrypt `plain` for `owner`. The same text gives different bytes each time."""
        nonce = os.urandom(_NONCE_BYTES)
        body = self._ciphers[self._current].encrypt(nonce, plain.encode(), owner.encode())
        return _FORMAT + self._current + nonce + body

    def open(self, sealed: bytes, *, owner: str) -> str:
        """Return the text that was sealed for `owner`. Raises SealBroken."""
        if len(sealed) < _HEAD_BYTES or sealed[:1] != _FORMAT:
            raise SealBroken("not a sealed value")
        cipher = self._ciphers.get(sealed[1 : 1 + _ID_BYTES])
        if cipher is None:
            raise SealBroken("sealed under another secret key")
        try:
            plain = cipher.decrypt(sealed[1 + _ID_BYTES : _HEAD_BYTES], sealed[_HEAD_BYTES:], owner.encode())
        except InvalidTag:
            raise SealBroken("changed since it was sealed, or of another owner") from None
        return plain.decode()

    def hash_user(self, account_id: str, user_id: str) -> str:
        """Return a pseudonym of an account's end user, for others: 64 hexadecimal digits.

        Nobody without the key can test guesses against it. It changes when the secret key is replaced.
        """
        return hmac.digest(self._hash_key, f"{account_id}/{user_id}".encode(), "sha256").hex()

    def is_current(self, sealed: bytes) -> bool:
        """Return True if `sealed` is under the current key.

        Others are sealed again after a rotation.
        """
        return sealed[1 : 1 + _ID_BYTES] == self._current


def build_sealer(secret_key: str, previous: Sequence[str] = ()) -> Sealer:
    """Build a service's sealer from AGENTCHAT_SECRET_KEY and AGENTCHAT_SECRET_KEY_PREVIOUS.

    Raises:
        SettingsError: With the name of the setting that cannot be used, without its value.
    """
    try:
        Sealer.from_setting(secret_key)
    except ValueError as error:
        raise SettingsError(f"AGENTCHAT_SECRET_KEY cannot be used: {error}") from None
    try:
        return Sealer.from_setting(secret_key, previous)
    except ValueError as error:
        raise SettingsError(f"AGENTCHAT_SECRET_KEY_PREVIOUS cannot be used: {error}") from None


def _decode_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the secret key is not base64") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"the secret key is base64 of {len(key)} bytes; it must be {KEY_BYTES}")
    return key


def _derive_key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"agentchat secret key\0" + key).digest()[:_ID_BYTES]


async def refuse_unknown_key(pool: Pool, sealer: Sealer) -> None:
    """Check that the keys open at least one secret of the agents' current versions.

    Without secrets there is nothing to check. If Postgres does not answer, the check is left out; each value
    that does not open then fails by itself.

    Raises:
        SettingsError: If the keys open none of them.
    """
    try:
        async with acquire_connection(pool) as conn:
            row = await (await conn.execute(_SEALED, [list(sealer.key_ids)])).fetchone()
    except DatabaseUnavailable:
        return
    if row is not None and row[0] and not row[1]:
        raise SettingsError(
            f"AGENTCHAT_SECRET_KEY opens none of the {row[0]} secrets in the database: set the key that "
            "sealed them, or add it to AGENTCHAT_SECRET_KEY_PREVIOUS"
        )


_SEALED = """
SELECT count(*), count(*) FILTER (WHERE substring(sealed FROM 2 FOR 4) = ANY(%s))
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
       CROSS JOIN LATERAL (VALUES (v.provider_key), (v.fallback_keys), (v.mcp_headers)) AS held (sealed)
 WHERE sealed IS NOT NULL
"""
