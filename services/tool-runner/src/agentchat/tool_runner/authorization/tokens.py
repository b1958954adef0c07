"""Keep the access token of an agent at a tool server, and renew it under a lock.

The lock is Postgres', so that no two workers send the same refresh token. An authorization server that
rotates refresh tokens would take the second use for a theft and revoke all tokens.
"""

import asyncio

import msgspec

from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.directory.tool_authorizations import (
    Authorization,
    IssuedTokens,
    SealedSecrets,
    ToolServerKey,
    find,
    keep_tokens,
    lock_authorization,
    require_authorization,
)
from agentchat.net_guard.permitted_addresses import look_up_for
from agentchat.runtime import logs
from agentchat.runtime.fair_slots import FairSlots
from agentchat.runtime.postgres import Connection, DatabaseUnavailable, Pool, acquire_connection
from agentchat.runtime.retry_loops import retry
from agentchat.runtime.shared_task import start_shared_task
from agentchat.tool_runner.authorization import grants
from agentchat.tool_runner.authorization.authorization_http import AuthorizationHttp
from agentchat.tool_runner.authorization.discovery import discover
from agentchat.tool_runner.authorization.grants import TokenGrant
from agentchat.tool_runner.faults import ToolFailed

AT_ONCE = 4
"""The most token requests of a process at a time, each with two connections to Postgres."""

_EARLY_SECONDS = 20.0
_RETRY_SECONDS = 15.0
_STORE_SECONDS = 15.0
_STORE_AGAIN_SECONDS = 0.5
_UNKNOWN_LIFETIME = float("inf")


class Authorizations:
    """The connections and the key that all tokens of this process share."""

    def __init__(self, pool: Pool, sealer: Sealer, http: AuthorizationHttp) -> None:
        self.pool = pool
        self.sealer = sealer
        self.http = http
        self.turns = FairSlots(AT_ONCE)

    def open_tokens(self, place: ToolServerKey, url: str) -> "AccessTokens":
        """Return the tokens of an agent at the server with this address."""
        return AccessTokens(self, place, url)


class _Token(msgspec.Struct, frozen=True):
    """A token that is used until `fresh_until`, and not replaced before `renew_at`."""

    value: str
    fresh_until: float
    renew_at: float = 0.0


class _Failure(msgspec.Struct, frozen=True):
    """The last attempt to obtain a token failed.

    The next one is at `retry_at` at the earliest.
    """

    error: ToolFailed
    retry_at: float


class AccessTokens:
    """The tokens of an agent at a server.

    `get_token` is called before each request, and `refresh` after the server has rejected the token. One
    attempt at a time obtains a token for all waiting requests.
    """

    def __init__(self, authorizations: Authorizations, place: ToolServerKey, url: str) -> None:
        self._shared = authorizations
        self._place = place
        self._url = url
        self._state: _Token | _Failure | None = None
        self._obtaining: asyncio.Task[str] | None = None
        self._log = logs.get_logger("authorization").bind(agent_id=place.agent_id, server=place.server)

    async def get_token(self) -> str:
        """Return a token. Raises ToolFailed, for 15 s after a failure without another attempt."""
        match self._state:
            case _Token(value, fresh_until) if _read_clock() < fresh_until:
                return value
            case _Failure(error, retry_at) if _read_clock() < retry_at:
                raise error
        return await self._obtain(rejected=None)

    async def refresh(self, rejected: str) -> str | None:
        """Return another token than `rejected`; None if the last attempt was less than 15 s ago.

        Raises:
            ToolFailed
        """
        match self._state:
            case _Token(value) if value != rejected:
                return value
            case _Token(renew_at=earliest) | _Failure(retry_at=earliest) if _read_clock() < earliest:
                return None
        return await self._obtain(rejected)

    async def _obtain(self, rejected: str | None) -> str:
        """Make one attempt for all callers.

        It continues without them, as a token may already be issued.
        """
        if self._obtaining is None or self._obtaining.done():
            self._obtaining = start_shared_task(self._try_to_obtain(rejected))
        return await asyncio.shield(self._obtaining)

    async def _try_to_obtain(self, rejected: str | None) -> str:
        self._state = None
        account_id = self._place.account_id
        try:
            async with (
                self._shared.turns.turn(account_id),
                lock_authorization(self._shared.pool, self._place) as conn,
            ):
                with look_up_for(account_id):
                    self._state = token = await self._load_or_issue(conn, rejected)
                    return token.value
        except (DatabaseUnavailable, SealBroken) as error:
            failed = ToolFailed("not_started", f"the authorisation could not be read: {error}")
            self._fail(failed)
            raise failed from error
        except ToolFailed as failed:
            self._fail(failed)
            raise

    def _fail(self, failed: ToolFailed) -> None:
        self._state = _Failure(failed, _read_clock() + _RETRY_SECONDS)
        self._log.warning("no_token", fault=str(failed))

    async def _load_or_issue(self, conn: Connection, rejected: str | None) -> _Token:
        """Return the stored token, which another worker may have just obtained, or a new one."""
        found = await find(conn, self._shared.sealer, self._place)
        if found is None or found.url != self._url:
            raise ToolFailed("authorization", "the agent is not authorised at this address")
        tokens = found.secrets.tokens
        left = _UNKNOWN_LIFETIME if found.seconds_left is None else found.seconds_left
        if tokens is not None and tokens.access != rejected and left > _EARLY_SECONDS:
            return _Token(tokens.access, _read_clock() + left - _EARLY_SECONDS)
        if tokens is None and found.settings.grant == "authorization_code":
            raise ToolFailed("authorization", "an administrator has to open the authorization link")
        try:
            issued = await self._issue(found, tokens)
            await self._store(found, issued)
        except ToolFailed as failed:
            if failed.fault.kind == "authorization":
                client = SealedSecrets(client=found.secrets.client)
                await require_authorization(
                    conn, self._shared.sealer, self._place, found.id, client, failed.fault.detail
                )
            raise
        self._log.info("token_issued", expires_in=issued.expires_in)
        lifetime = _UNKNOWN_LIFETIME if issued.expires_in is None else issued.expires_in
        # Even a token with a very short life is used for the request that it was issued for.
        fresh_until = _read_clock() + max(lifetime - _EARLY_SECONDS, 1.0)
        return _Token(issued.tokens.access, fresh_until, renew_at=_read_clock() + _RETRY_SECONDS)

    async def _issue(self, found: Authorization, tokens: IssuedTokens | None) -> TokenGrant:
        client = found.secrets.client
        if found.settings.grant == "client_credentials" and client is not None:
            source = await discover(self._shared.http, self._url, found.settings)
            return await grants.request_client_token(self._shared.http, client, source)
        if tokens is None or client is None or tokens.refresh is None:
            raise ToolFailed("authorization", "the token has expired and there is no refresh token")
        return await grants.refresh_tokens(self._shared.http, client, tokens)

    async def _store(self, found: Authorization, issued: TokenGrant) -> None:
        """Store the tokens on a new connection, since the locked one may be dead.

        Retry while Postgres is away.
        """
        secrets = msgspec.structs.replace(found.secrets, tokens=issued.tokens)

        async def store() -> bool:
            async with acquire_connection(self._shared.pool) as conn:
                return await keep_tokens(
                    conn, self._shared.sealer, self._place, found.id, secrets, issued.expires_in
                )

        is_stored = await retry(
            store,
            DatabaseUnavailable,
            pause_seconds=_STORE_AGAIN_SECONDS,
            seconds=_STORE_SECONDS,
        )
        if not is_stored:
            raise ToolFailed("authorization", "the agent was authorised again in the meantime")


def _read_clock() -> float:
    return asyncio.get_running_loop().time()
