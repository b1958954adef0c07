"""Sessions: a signed cookie, nothing kept here. The token of forms is made of the session's id."""

import base64
import binascii
import hashlib
import hmac
import secrets

import msgspec

COOKIE = "agentchat_console"
LOCAL = "console:local"


class ConsoleSession(msgspec.Struct, frozen=True):
    """`actor` stands in the audit rows of what is changed in it."""

    id: str
    actor: str


class Sessions:
    """Signs with a key of its own, made of the secret key that all services share."""

    def __init__(self, secret_key: str) -> None:
        self._key = hmac.digest(secret_key.encode(), b"agentchat console sessions", hashlib.sha256)

    def local(self) -> ConsoleSession:
        """A new session of somebody on this machine."""
        return ConsoleSession(secrets.token_urlsafe(16), LOCAL)

    def cookie(self, session: ConsoleSession) -> str:
        body = base64.urlsafe_b64encode(msgspec.json.encode(session)).decode()
        return f"{body}.{self._signed(body)}"

    def opened(self, cookie: str) -> ConsoleSession | None:
        """The session of a cookie; None where we did not make it."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signed(body).encode()):
            return None
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(body), type=ConsoleSession)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def form_token(self, session: ConsoleSession) -> str:
        """What each form of the session holds: another site cannot know it."""
        return self._signed(f"form {session.id}")

    def is_form_token(self, session: ConsoleSession, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.form_token(session).encode())

    def _signed(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
