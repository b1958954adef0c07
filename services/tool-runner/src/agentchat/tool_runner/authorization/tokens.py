"""The access token of one agent at one tool server: kept while fresh, then obtained again under one lock.

The lock is Postgres', so that no two workers send one refresh token: an authorization server that rotates
them takes the second use for a theft, and revokes what it has issued.
"""

import asyncio

import msgspec

from agentchat.directory.errors import SealBroken
from agentchat.directory.secrets import Sealer
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
from agentchat.net_guard.addresses import looking_up_for
from agentchat.runtime import logs
from agentchat.runtime.fair_slots import FairSlots
from agentchat.runtime.postgres import Connection, DatabaseUnavailable, Pool, connection
from agentchat.runtime.shared_task import shared
from agentchat.tool_runner.authorization import grants
from agentchat.tool_runner.authorization.authorization_requests import AuthorizationHttp
from agentchat.tool_runner.authorization.discovery import discover
from agentchat.tool_runner.authorization.grants import Issued
from agentchat.tool_runner.faults import ToolFailed

AT_ONCE = 4
"""Tokens that one process asks for at a time, each with two connections to Postgres; accounts take turns."""

_EARLY_SECONDS = 20.0
_RETRY_SECONDS = 15.0
_SAVES = 5
_SAVE_AGAIN_SECONDS = 0.5
_UNKNOWN_LIFETIME = float("inf")


class Authorizations:
    """The connections and the key that all tokens of this process share."""

    def __init__(self, pool: Pool, sealer: Sealer, http: AuthorizationHttp) -> None:
        self.pool = pool
        self.sealer = sealer
        self.http = http
        self.turns = FairSlots(AT_ONCE)

    def tokens(self, place: ToolServerKey, url: str) -> "AccessTokens":
        return AccessTokens(self, place, url)


class _Token(msgspec.Struct, frozen=True):
    """A token, and until when it is used without a look. Before `renew_at` it is not replaced."""

    value: str
    fresh_until: float
    renew_at: float = 0.0


class _Failure(msgspec.Struct, frozen=True):
    """No token could be obtained, and none is asked for before `retry_at`."""

    error: ToolFailed
    retry_at: float


class AccessTokens:
    """`token` is called before each request, and `refresh` after the server has rejected the token.

    The state is one of three: no token is known, a token, or a failure. One attempt at a time obtains a token
    for all who wait.
    """

    def __init__(self, authorizations: Authorizations, place: ToolServerKey, url: str) -> None:
        self._shared = authorizations
        self._place = place
        self._url = url
        self._state: _Token | _Failure | None = None
        self._obtaining: asyncio.Task[str] | None = None
        self._log = logs.get_logger("authorization").bind(agent_id=place.agent_id, server=place.server)

    async def token(self) -> str:
        """Return a token that may be valid. Raises ToolFailed, for 15 s after a failure at once."""
        match self._state:
            case _Token(value, fresh_until) if _now() < fresh_until:
                return value
            case _Failure(error, retry_at) if _now() < retry_at:
                raise error
        return await self._obtain(rejected=None)

    async def refresh(self, rejected: str) -> str | None:
        """Return another token than `rejected`; None if the last attempt was less than 15 s ago.

        Raises ToolFailed.
        """
        match self._state:
            case _Token(value) if value != rejected:
                return value
            case _Token(renew_at=earliest) | _Failure(retry_at=earliest) if _now() < earliest:
                return None
        return await self._obtain(rejected)

    async def _obtain(self, rejected: str | None) -> str:
        """Make one attempt for all who wait. It continues without them: a token may be issued by now."""
        if self._obtaining is None or self._obtaining.done():
            self._obtaining = shared(self._attempt(rejected))
        return await asyncio.shield(self._obtaining)

    async def _attempt(self, rejected: str | None) -> str:
        self._state = None
        account_id = self._place.account_id
        try:
            async with (
                self._shared.turns.turn(account_id),
                lock_authorization(self._shared.pool, self._place) as conn,
            ):
                with looking_up_for(account_id):
                    self._state = token = await self._stored_or_issued(conn, rejected)
                    return token.value
        except (DatabaseUnavailable, SealBroken) as error:
            failed = ToolFailed("not_started", f"its authorisation: {error}")
            self._fail(failed)
            raise failed from error
        except ToolFailed as failed:
            self._fail(failed)
            raise

    def _fail(self, failed: ToolFailed) -> None:
        self._state = _Failure(failed, _now() + _RETRY_SECONDS)
        self._log.warning("no_token", fault=str(failed))

    async def _stored_or_issued(self, conn: Connection, rejected: str | None) -> _Token:
        """Return the stored token, which another worker may have just obtained, or a new one."""
        found = await find(conn, self._shared.sealer, self._place)
        if found is None or found.url != self._url:
            raise ToolFailed("authorization", "nothing authorises the agent at this address")
        tokens = found.secrets.tokens
        left = _UNKNOWN_LIFETIME if found.seconds_left is None else found.seconds_left
        if tokens is not None and tokens.access != rejected and left > _EARLY_SECONDS:
            return _Token(tokens.access, _now() + left - _EARLY_SECONDS)
        if tokens is None and found.settings.grant == "authorization_code":
            raise ToolFailed("authorization", "an administrator has to open the link")
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
        # However short it lasts, the request that it was issued for takes it.
        fresh_until = _now() + max(lifetime - _EARLY_SECONDS, 1.0)
        return _Token(issued.tokens.access, fresh_until, renew_at=_now() + _RETRY_SECONDS)

    async def _issue(self, found: Authorization, tokens: IssuedTokens | None) -> Issued:
        client = found.secrets.client
        if found.settings.grant == "client_credentials" and client is not None:
            source = await discover(self._shared.http, self._url, found.settings)
            return await grants.by_credentials(self._shared.http, client, source)
        if tokens is None or client is None or tokens.refresh is None:
            raise ToolFailed("authorization", "the token is over, and there is none to refresh it")
        return await grants.by_refresh(self._shared.http, client, tokens)

    async def _store(self, found: Authorization, issued: Issued) -> None:
        """Store the tokens by a new connection, again if Postgres breaks off: the old one may be dead."""
        secrets = msgspec.structs.replace(found.secrets, tokens=issued.tokens)
        for left in reversed(range(_SAVES)):
            try:
                async with connection(self._shared.pool) as conn:
                    stored = await keep_tokens(
                        conn, self._shared.sealer, self._place, found.id, secrets, issued.expires_in
                    )
            except DatabaseUnavailable:
                if not left:
                    raise
                await asyncio.sleep(_SAVE_AGAIN_SECONDS)
            else:
                if not stored:
                    raise ToolFailed("authorization", "it was authorised again meanwhile")
                return


def _now() -> float:
    return asyncio.get_running_loop().time()
