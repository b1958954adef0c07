"""Sessions: a signed cookie, nothing kept here. The token of forms is made of the session's id."""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable

import msgspec

LOCAL = "console:local"
_ASK_SECONDS = 60.0


class ConsoleSession(msgspec.Struct, frozen=True):
    """`actor` stands in the audit rows of what is changed in it. It ends at `ends`, in Unix seconds on the
    database's clock; None: never.
    """

    id: str
    actor: str
    ends: float | None = None


class ServerClock:
    """The database's time, which all consoles share: asked once a minute. `read` gives Unix seconds."""

    def __init__(self, read: Callable[[], Awaitable[float]]) -> None:
        self._read = read
        self._asked_at: float | None = None
        self._offset = 0.0

    async def now(self) -> float:
        """Raises DatabaseUnavailable."""
        if self._asked_at is None or time.monotonic() - self._asked_at >= _ASK_SECONDS:
            self._offset = await self._read() - time.monotonic()
            self._asked_at = time.monotonic()
        return self._offset + time.monotonic()


class Sessions:
    """Signs with a key of its own, made of the secret key that all services share and of the token with which
    people sign in: another token ends all sessions. Without a token everybody has a session.
    """

    def __init__(self, secret_key: str, token: str | None, clock: ServerClock, hours: float) -> None:
        secret = f"{secret_key} {token or ''}".encode()
        self._key = hmac.digest(secret, b"agentchat console sessions", hashlib.sha256)
        self._token = None if token is None else token.encode()
        self._clock = clock
        self._seconds = hours * 3600

    @property
    def are_open(self) -> bool:
        """Whether nobody has to sign in."""
        return self._token is None

    def local(self) -> ConsoleSession:
        """A new session of somebody on this machine."""
        return ConsoleSession(secrets.token_urlsafe(16), LOCAL)

    async def signed_in(self, name: str, token: str) -> ConsoleSession | None:
        """A new session; None for a wrong token. Raises DatabaseUnavailable."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token):
            return None
        ends = await self._clock.now() + self._seconds
        return ConsoleSession(secrets.token_urlsafe(16), f"console:{name}", ends)

    def cookie(self, session: ConsoleSession) -> str:
        body = base64.urlsafe_b64encode(msgspec.json.encode(session)).decode()
        return f"{body}.{self._signed(body)}"

    async def opened(self, cookie: str) -> ConsoleSession | None:
        """The session of a cookie; None where we did not make it, or it has ended.

        Raises DatabaseUnavailable.
        """
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signed(body).encode()):
            return None
        try:
            session = msgspec.json.decode(base64.urlsafe_b64decode(body), type=ConsoleSession)
        except (binascii.Error, ValueError):
            return None
        if session.ends is not None and await self._clock.now() >= session.ends:
            return None
        return session

    def form_token(self, session: ConsoleSession) -> str:
        """What each form of the session holds: another site cannot know it."""
        return self._signed(f"form {session.id}")

    def is_form_token(self, session: ConsoleSession, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.form_token(session).encode())

    def _signed(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
