"""Sessions: a signed cookie, and a list of those whose owners have signed out.

The token of forms is made of the session's id.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from console.frame.roles import Role
from directory import console_sessions
from runtime.postgres import Pool

T = TypeVar("T", bound=msgspec.Struct)

LOCAL = "console:local"
_ASK_SECONDS = 60.0
_ENDED_SECONDS = 5.0


class ConsoleSession(msgspec.Struct, frozen=True):
    """`actor` stands in the audit rows of what is changed in it. It ends at `ends`, in Unix seconds on the
    database's clock; None: never. `is_confirmed`: a provider confirms its role while it lasts.
    """

    id: str
    actor: str
    role: Role
    ends: float | None = None
    is_confirmed: bool = False


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


class EndedSessions:
    """The sessions whose owners have signed out, of all consoles; read every 5 s."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._ids: set[str] = set()
        self._read_at = float("-inf")

    async def has(self, session_id: str) -> bool:
        """Return True if the session has ended. Raises DatabaseUnavailable."""
        if time.monotonic() - self._read_at >= _ENDED_SECONDS:
            self._ids = await console_sessions.ended(self._pool)
            self._read_at = time.monotonic()
        return session_id in self._ids

    async def add(self, session: ConsoleSession) -> None:
        """End a session. Raises DatabaseUnavailable."""
        if session.ends is not None:
            await console_sessions.end(self._pool, session.id, session.ends)
            self._ids.add(session.id)


class Sessions:
    """Signs with a key of its own, made of the secret key that all services share and of `credentials`, by
    which people are let in: others end all sessions. Without any everybody has a session.
    """

    def __init__(
        self,
        secret_key: str,
        credentials: str | None,
        clock: ServerClock,
        hours: float,
        ended: EndedSessions | None = None,
    ) -> None:
        secret = f"{secret_key} {credentials or ''}".encode()
        self._key = hmac.digest(secret, b"agentchat console sessions", hashlib.sha256)
        self.are_open = credentials is None
        """Whether nobody has to sign in."""
        self._clock = clock
        self._ended = ended
        self.seconds = hours * 3600
        """How long somebody stays signed in."""

    def local(self) -> ConsoleSession:
        """A new session of somebody on this machine."""
        return ConsoleSession(secrets.token_urlsafe(16), LOCAL, Role.OWNER)

    async def begin(
        self, name: str, role: Role, seconds: float | None = None, *, is_confirmed: bool = False
    ) -> ConsoleSession:
        """A new session of somebody who may come in, for so many seconds. Raises DatabaseUnavailable."""
        ends = await self.now() + (self.seconds if seconds is None else seconds)
        return ConsoleSession(secrets.token_urlsafe(16), f"console:{name}", role, ends, is_confirmed)

    async def now(self) -> float:
        """Unix seconds on the database's clock. Raises DatabaseUnavailable."""
        return await self._clock.now()

    async def opened(self, cookie: str) -> ConsoleSession | None:
        """The session of a cookie; None where we did not make it, or it has ended.

        Raises DatabaseUnavailable.
        """
        session = self.unsealed(cookie, ConsoleSession)
        if session is None or session.ends is None:
            return session
        if await self.now() >= session.ends or await self._has_ended(session.id):
            return None
        return session

    async def end(self, session: ConsoleSession) -> None:
        """End a session, in all browsers that have its cookie. Raises DatabaseUnavailable."""
        if self._ended is not None:
            await self._ended.add(session)

    async def _has_ended(self, session_id: str) -> bool:
        return self._ended is not None and await self._ended.has(session_id)

    def sealed(self, value: msgspec.Struct) -> str:
        """A value for a cookie, which nobody can change. Whoever has it can read it."""
        body = base64.urlsafe_b64encode(msgspec.json.encode(value)).decode()
        return f"{body}.{self._signed(f'{type(value).__name__} {body}')}"

    def unsealed(self, text: str, kind: type[T]) -> T | None:
        """None where we did not make it."""
        body, _, signature = text.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signed(f"{kind.__name__} {body}").encode()):
            return None
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(body), type=kind)
        except (binascii.Error, ValueError):
            return None

    def form_token(self, session: ConsoleSession) -> str:
        """What each form of the session holds: another site cannot know it."""
        return self._signed(f"form {session.id}")

    def is_form_token(self, session: ConsoleSession, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.form_token(session).encode())

    def _signed(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
