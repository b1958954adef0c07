"""The roles of people who signed in at a provider, confirmed by it again and again while a session lasts.

The refresh token gives a new ID token (OpenID Connect Core 12.2), whose claim gives the role as at the
sign-in. What was confirmed is in one row for all consoles, and known here until it is to be confirmed again.
"""

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
from litestar.exceptions import ServiceUnavailableException

from console.frame.roles import Role
from console.frame.sessions import ConsoleSession
from directory import console_sessions
from directory.console_sessions import ConfirmedRole
from directory.errors import SealBroken
from directory.secrets import Sealer
from runtime import logs
from runtime.bounded import BoundedMap
from runtime.postgres import Pool

if TYPE_CHECKING:  # loads authlib
    from console.frame.oidc_provider import OidcProvider, Person

GRACE_SECONDS = 900.0
"""While the provider does not answer, a role holds so much longer."""

_CLAIM_SECONDS = 30.0
"""Longer than the provider is waited for; where it does not answer, it is asked again after this."""
_LOOK_AGAIN_SECONDS = 5.0
_MOST_KNOWN = 10_000


class KnownRole(msgspec.Struct, frozen=True):
    """`until` is on `time.monotonic()`."""

    role: Role
    until: float


class RoleChecks:
    """A role is `seconds` old at most, while its provider answers."""

    def __init__(self, pool: Pool, sealer: Sealer, provider: "OidcProvider", seconds: float) -> None:
        self._pool = pool
        self._sealer = sealer
        self._provider = provider
        self._seconds = seconds
        self._known: BoundedMap[str, KnownRole] = BoundedMap(_MOST_KNOWN)
        self._looking: dict[str, asyncio.Lock] = {}
        self._log = logs.get_logger("console")

    async def begin(self, session: ConsoleSession, person: "Person", seconds: float) -> None:
        """Keep what a session's role is confirmed with, for its `seconds`. Raises DatabaseUnavailable."""
        assert person.refresh_token is not None
        await console_sessions.add(
            self._pool,
            session.id,
            subject=person.subject,
            role=session.role.word,
            refresh_token=self._sealed(session.id, person.refresh_token),
            seconds=seconds,
        )

    async def current(self, session: ConsoleSession, now: float) -> ConsoleSession | None:
        """The session with the role of now, and as its end when that is to be confirmed; None: it has ended.

        `now` is in Unix seconds. Raises DatabaseUnavailable, ServiceUnavailableException.
        """
        lock = self._looking.setdefault(session.id, asyncio.Lock())
        try:
            async with lock:
                known = self._known.get(session.id)
                if known is None or known.until <= time.monotonic():
                    known = await self._look(session)
        finally:
            if not lock.locked():
                self._looking.pop(session.id, None)
        if known is None:
            return None
        ends = now + max(0.0, known.until - time.monotonic())
        ends = ends if session.ends is None else min(ends, session.ends)
        return msgspec.structs.replace(session, role=known.role, ends=ends)

    async def end(self, session_id: str) -> None:
        """Raises DatabaseUnavailable."""
        self._known.pop(session_id)
        await console_sessions.remove(self._pool, session_id)

    async def _look(self, session: ConsoleSession) -> KnownRole | None:
        """Raises DatabaseUnavailable, ServiceUnavailableException."""
        found = await console_sessions.find(self._pool, session.id, fresh=self._seconds, claim=_CLAIM_SECONDS)
        if found is not None and found.claimed is not None:
            found = await self._confirmed(session, found, found.claimed)
        if found is None:
            self._known.pop(session.id)
            return None
        if found.age >= self._seconds + GRACE_SECONDS:
            raise ServiceUnavailableException(
                f"{self._provider.host} has not confirmed your role for {found.age / 60:.0f} minutes, so the "
                "console waits for it. Nothing is lost: load the page again once it answers."
            )
        left = self._seconds - found.age
        if left <= 0:  # another console asks, or the provider does not answer
            left = min(self._seconds, _LOOK_AGAIN_SECONDS)
        known = KnownRole(Role[found.role.upper()], time.monotonic() + left)
        self._known.put(session.id, known)
        return known

    async def _confirmed(
        self, session: ConsoleSession, found: ConfirmedRole, sealed: bytes
    ) -> ConfirmedRole | None:
        """What the provider says now; as it was where it does not answer. Raises DatabaseUnavailable."""
        from console.frame.oidc_provider import ProviderUnavailable, SignInRefused

        try:
            token = self._sealer.open(sealed, owner=_owner(session.id))
            person = await self._provider.refresh(token, found.subject)
        except ProviderUnavailable as error:
            self._log.warning("provider_unavailable", reason=str(error), actor=session.actor)
            return found
        except (SignInRefused, SealBroken) as error:
            self._log.warning("session_ended", reason=str(error), actor=session.actor)
            await console_sessions.remove(self._pool, session.id)
            return None
        if person.role.word != found.role:
            self._log.info("role_changed", actor=session.actor, before=found.role, role=person.role.word)
        sealed = self._sealed(session.id, person.refresh_token or token)
        await console_sessions.confirm(self._pool, session.id, role=person.role.word, refresh_token=sealed)
        return msgspec.structs.replace(found, role=person.role.word, age=0.0, claimed=None)

    def _sealed(self, session_id: str, token: str) -> bytes:
        return self._sealer.seal(token, owner=_owner(session_id))


def _owner(session_id: str) -> str:
    return f"console_session/{session_id}"
