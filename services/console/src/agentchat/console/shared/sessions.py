"""Start, find and end sessions: a random token in a cookie and a row in Postgres.

All consoles share the rows. The role of a person who signed in at a provider is confirmed every few minutes:
the refresh token gives a new ID token (OpenID Connect Core, 12.2), whose claim gives the role as at sign-in.
"""

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

import msgspec
from litestar.exceptions import ServiceUnavailableException

from agentchat.console.shared.console_roles import Role
from agentchat.console.sign_in_settings import SignInSettings
from agentchat.directory import console_sessions
from agentchat.directory.console_sessions import StoredSession
from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

if TYPE_CHECKING:  # loads authlib
    from agentchat.console.shared.oidc import OidcProvider

LOCAL = "console:local"
GRACE_SECONDS = 900.0
"""How much longer a role holds while the provider does not answer."""

_CLAIM_SECONDS = 30.0
"""Longer than the time-out of the provider. If it does not answer, it is asked again after this time."""
_LOOK_AGAIN_SECONDS = 5.0


class ProviderUnavailable(Exception):  # noqa: N818 - as DatabaseUnavailable is called
    """The provider does not answer, or answers with something else. The text says which."""


class SignInRefused(Exception):  # noqa: N818 - not an error of ours
    """The person may not sign in. The text says why."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may sign in. `name` is for the audit log.

    With the `refresh_token` the provider is asked again; None if the provider gave none. A session with the
    named token `token_name` has that token's role and accounts.
    """

    name: str
    role: Role
    token_name: str | None = None
    subject: str | None = None
    refresh_token: str | None = None

    def __repr__(self) -> str:
        """Return name and role only: the token is secret."""
        return f"Person(name={self.name!r}, role={self.role!r})"


class ConsoleSession(msgspec.Struct, frozen=True):
    """A session. `actor` is the name in audit rows; `seconds_left` is None if it never ends.

    `account_ids` are the accounts that it is limited to; None: it has all.
    """

    id: str
    actor: str
    role: Role
    seconds_left: float | None = None
    account_ids: tuple[str, ...] | None = None


class Sessions:
    """Starts, finds and ends sessions. Changed settings for signing in end all sessions."""

    def __init__(
        self,
        pool: Pool,
        sealer: Sealer,
        settings: SignInSettings,
        secret_key: str,
        provider: "OidcProvider | None" = None,
    ) -> None:
        self._pool, self._sealer, self._provider = pool, sealer, provider
        credentials = settings.get_credentials()
        self.are_open = credentials is None
        """True if nobody has to sign in."""
        self.secret = hmac.digest(
            f"{secret_key} {credentials or ''}".encode(), b"agentchat console sessions", hashlib.sha256
        )
        """Signs the tokens of forms, and encrypts the cookie of a pending sign-in."""
        self._seconds = settings.session_hours * 3600
        self._fresh_seconds = settings.oidc_role_minutes * 60
        self._log = logs.get_logger("console")

    async def start(self, person: Person) -> str:
        """Start a session and return the token for its cookie. Raises DatabaseUnavailable.

        If the provider gave no refresh token, the session is as short as a role may be old.
        """
        token = secrets.token_urlsafe(32)
        session_id, refresh_token = _hash_token(token), person.refresh_token
        is_short = person.subject is not None and refresh_token is None
        await console_sessions.add(
            self._pool,
            session_id,
            credentials=self.secret,
            actor=f"console:{person.name}",
            role=person.role.word,
            seconds=self._fresh_seconds if is_short else self._seconds,
            subject=person.subject,
            token_name=person.token_name,
            refresh_token=None if refresh_token is None else self._seal_token(session_id, refresh_token),
        )
        self._log.info("signed_in", actor=f"console:{person.name}", role=person.role.word)
        return token

    async def find(self, token: str) -> ConsoleSession | None:
        """Return the session of a cookie with its present role; None if it has ended.

        Raises:
            DatabaseUnavailable: If Postgres does not answer.
            ServiceUnavailableException: If the provider has not confirmed the role for too long.
        """
        session_id = _hash_token(token)
        found = await console_sessions.find(
            self._pool,
            session_id,
            credentials=self.secret,
            fresh=self._fresh_seconds,
            claim=_CLAIM_SECONDS,
        )
        if found is None:
            return None
        left = found.seconds_left
        if self._provider is not None and found.subject is not None:
            if found.claimed is not None:
                found = await self._confirm_role(
                    self._provider, session_id, found, found.subject, found.claimed
                )
            if found is None:
                return None
            if found.age >= self._fresh_seconds + GRACE_SECONDS:
                raise ServiceUnavailableException(
                    f"{self._provider.host} has not confirmed your role for {found.age / 60:.0f} minutes. "
                    "Nothing is lost: reload the page once the provider answers again."
                )
            fresh = self._fresh_seconds - found.age
            # Without time left, another console is asking the provider, or the provider does not answer.
            left = min(left, fresh if fresh > 0 else min(self._fresh_seconds, _LOOK_AGAIN_SECONDS))
        limit = None if found.account_ids is None else tuple(found.account_ids)
        return ConsoleSession(session_id, found.actor, Role[found.role.upper()], left, limit)

    async def exists(self, session: ConsoleSession) -> bool:
        """Return False once a session was ended; True if Postgres does not answer."""
        try:
            return self.are_open or await console_sessions.exists(self._pool, session.id, self.secret)
        except DatabaseUnavailable:
            return True

    async def end(self, session: ConsoleSession) -> None:
        """End a session in all browsers that have its cookie. Raises DatabaseUnavailable."""
        await console_sessions.remove(self._pool, session.id)

    async def _confirm_role(
        self, provider: "OidcProvider", session_id: str, found: StoredSession, subject: str, sealed: bytes
    ) -> StoredSession | None:
        """Ask the provider for the role; return the session unchanged if it does not answer."""
        try:
            token = self._sealer.open(sealed, owner=_build_owner(session_id))
            person = await provider.refresh(token, subject)
        except ProviderUnavailable as error:
            self._log.warning("provider_unavailable", reason=str(error), actor=found.actor)
            return found
        except (SignInRefused, SealBroken) as error:
            self._log.warning("session_ended", reason=str(error), actor=found.actor)
            await console_sessions.remove(self._pool, session_id)
            return None
        role, renewed = person.role.word, self._seal_token(session_id, person.refresh_token or token)
        if role != found.role:
            self._log.info("role_changed", actor=found.actor, before=found.role, role=role)
        await console_sessions.confirm(self._pool, session_id, role=role, refresh_token=renewed)
        return msgspec.structs.replace(found, role=role, age=0.0)

    def _seal_token(self, session_id: str, refresh_token: str) -> bytes:
        return self._sealer.seal(refresh_token, owner=_build_owner(session_id))


def _hash_token(token: str) -> str:
    """Return the id that the database has of a token. It opens no session."""
    return hashlib.sha256(token.encode()).hexdigest()


def _build_owner(session_id: str) -> str:
    return f"console_session/{session_id}"
