"""Signatures of Standard Webhooks 1.0.0: HMAC-SHA256 over id, time and body, by a secret `whsec_<base64>`.

`standardwebhooks` signs in four times the time. Tests have it, and other libraries, verify what is sent.
"""

import base64
import hmac


class Signer:
    """Signs by one secret."""

    def __init__(self, secret: str) -> None:
        self._key = base64.b64decode(secret.removeprefix("whsec_"))

    def sign(self, message_id: bytes, at: int, body: bytes) -> bytes:
        """An entry of the header `webhook-signature`; `at` is in seconds since 1970."""
        signed = hmac.digest(self._key, b"%b.%d.%b" % (message_id, at, body), "sha256")
        return b"v1," + base64.b64encode(signed)
