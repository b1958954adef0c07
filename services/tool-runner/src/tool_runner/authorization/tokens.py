"""The access token of one agent at one tool server: kept while it is fresh, then got again under one lock.

The lock is Postgres', so that no two workers send one refresh token: an authorization server that rotates
them takes the second use for a theft, and revokes what it has issued.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from directory.errors import SealBroken
from directory.secrets import Sealer
from directory.tool_authorizations import (
    Authorization,
    IssuedTokens,
    SealedSecrets,
    ServerPlace,
    find,
    keep_tokens,
    locked,
    need_authorization,
)
from net_guard.addresses import looking_up_for
from runtime import logs
from runtime.fair_slots import FairSlots
from runtime.postgres import Connection, DatabaseUnavailable, Pool, connection
from runtime.shared_task import shared
from tool_runner.authorization import grants
from tool_runner.authorization.authorization_requests import AuthorizationHttp
from tool_runner.authorization.discovery import discover
from tool_runner.authorization.grants import Issued
from tool_runner.authorization.scopes import beyond, together
from tool_runner.faults import ToolFailed

AT_ONCE = 4
"""Tokens that one process asks for at a time, each with two connections to Postgres; accounts take turns."""

_EARLY_SECONDS = 20.0
_AGAIN_SECONDS = 15.0
_SAVES = 5
_SAVE_AGAIN_SECONDS = 0.5
_SECRETS_KEPT = 4
_SCOPES_IN_VAIN = 8


class Authorizations:
    """What all tokens of this process work with."""

    def __init__(self, pool: Pool, sealer: Sealer, http: AuthorizationHttp) -> None:
        self.pool = pool
        self.sealer = sealer
        self.http = http
        self.turns = FairSlots(AT_ONCE)

    def tokens(self, place: ServerPlace, url: str) -> "AccessTokens":
        return AccessTokens(self, place, url)


class AccessTokens:
    """`current` is asked before each request; `instead_of` and `wider` after the server has refused one."""

    def __init__(self, authorizations: Authorizations, place: ServerPlace, url: str) -> None:
        self._all = authorizations
        self._place = place
        self._url = url
        self._token: str | None = None
        self._fresh_until = 0.0
        self._getting: asyncio.Task[str] | None = None
        self._failed: ToolFailed | None = None
        self._again_at = 0.0
        self._in_vain: dict[str, float] = {}
        self._seen: list[str] = []
        self._log = logs.get_logger("authorization").bind(agent_id=place.agent_id, server=place.server)

    @property
    def secrets(self) -> Sequence[str]:
        return tuple(self._seen)

    async def current(self) -> str:
        """A token that is not known to be over. Raises ToolFailed, at once for some time after a failure."""
        if self._token is not None and _now() < self._fresh_until:
            return self._token
        if self._failed is not None and _now() < self._again_at:
            raise self._failed
        return await self._get(refused=None)

    async def instead_of(self, refused: str) -> str | None:
        """Another token than `refused`; None where the last one was got so shortly before that one is no use.

        Raises ToolFailed.
        """
        if self._token not in (refused, None):
            return self._token
        if _now() < self._again_at:
            return None
        return await self._get(refused=refused)

    async def wider(self, refused: str, scope: str, *, ask: bool) -> str | None:
        """Another token than `refused`, for `scope` too, if one can be had without a person.

        None where not, and where it was tried in vain just now: the status is `needs_authorization` then.
        Not `ask`: the token is the second one, so no third is requested. Raises ToolFailed.
        """
        self._in_vain = {each: until for each, until in self._in_vain.items() if until > _now()}
        if scope in self._in_vain or len(self._in_vain) >= _SCOPES_IN_VAIN:
            return None
        # It continues without its caller: a token may be issued by now.
        token = await asyncio.shield(shared(self._widened(refused, scope, ask=ask)))
        if token is None:
            self._in_vain[scope] = _now() + _AGAIN_SECONDS
        return token

    async def _widened(self, refused: str, scope: str, *, ask: bool) -> str | None:
        try:
            async with (
                self._all.turns.turn(self._place.account_id),
                locked(self._all.pool, self._place) as conn,
            ):
                with looking_up_for(self._place.account_id):
                    token = await self._found_wider(conn, refused, scope, ask=ask)
        except (DatabaseUnavailable, SealBroken) as error:
            raise ToolFailed("not_started", f"its authorisation: {error}") from error
        if token is not None:
            self._keep_in_mind(token)
        return token

    async def _found_wider(self, conn: Connection, refused: str, scope: str, *, ask: bool) -> str | None:
        found = await find(conn, self._all.sealer, self._place)
        if found is None or found.url != self._url or (tokens := found.secrets.tokens) is None:
            return None
        if tokens.access != refused:  # another worker was quicker
            self._fresh_until = 0.0
            return tokens.access if ask else None
        wider = together(found.secrets.wider, tokens.scope, scope)
        secrets = msgspec.structs.replace(found.secrets, wider=wider or found.secrets.wider)
        detail = f"the tool server wants the scope {beyond(tokens.scope, scope)}"
        if found.settings.grant == "client_credentials":
            if ask and wider is not None:
                try:
                    return await self._renewed(msgspec.structs.replace(found, secrets=secrets), tokens)
                except ToolFailed as failed:
                    if failed.fault.kind != "authorization":
                        raise
                    detail = f"{detail}, and {failed.fault.detail}"
            secrets = found.secrets  # what the client is refused must not cost it the token that it can have
        self._log.warning("scope_missing", scope=scope)
        await need_authorization(conn, self._all.sealer, self._place, found.id, secrets, detail)
        return None

    async def _get(self, refused: str | None) -> str:
        """One attempt for all who wait. It continues without them: a token may be issued by now."""
        if self._getting is None or self._getting.done():
            self._getting = shared(self._in_turn(refused))
        return await asyncio.shield(self._getting)

    async def _in_turn(self, refused: str | None) -> str:
        self._token = None
        try:
            async with (
                self._all.turns.turn(self._place.account_id),
                locked(self._all.pool, self._place) as conn,
            ):
                with looking_up_for(self._place.account_id):
                    token = await self._found(conn, refused)
        except (DatabaseUnavailable, SealBroken) as error:
            raise self._failure(ToolFailed("not_started", f"its authorisation: {error}")) from error
        except ToolFailed as failed:
            raise self._failure(failed) from None
        self._failed = None
        self._keep_in_mind(token)
        return token

    def _keep_in_mind(self, token: str) -> None:
        self._token = token
        if token not in self._seen:
            self._seen = [token, *self._seen][:_SECRETS_KEPT]

    def _failure(self, failed: ToolFailed) -> ToolFailed:
        self._failed, self._again_at = failed, _now() + _AGAIN_SECONDS
        self._log.warning("no_token", fault=str(failed))
        return failed

    async def _found(self, conn: Connection, refused: str | None) -> str:
        """The stored token, which another worker may have got meanwhile, or a new one."""
        found = await find(conn, self._all.sealer, self._place)
        if found is None or found.url != self._url:
            raise ToolFailed("authorization", "nothing authorises the agent at this address")
        tokens = found.secrets.tokens
        left = float("inf") if found.seconds_left is None else found.seconds_left
        if tokens is not None and tokens.access != refused and left > _EARLY_SECONDS:
            self._fresh_until = _now() + left - _EARLY_SECONDS
            return tokens.access
        if tokens is None and found.settings.grant == "authorization_code":
            raise ToolFailed("authorization", "an administrator has to open the link")
        try:
            # What takes the place of a token does not widen it: a scope that was missing still is.
            return await self._renewed(found, tokens, enough=tokens is None or found.status == "authorized")
        except ToolFailed as failed:
            if failed.fault.kind == "authorization":
                by_link = found.settings.grant == "authorization_code"
                secrets = msgspec.structs.replace(
                    found.secrets, tokens=None, wider=found.secrets.wider if by_link else None
                )
                detail = failed.fault.detail
                await need_authorization(conn, self._all.sealer, self._place, found.id, secrets, detail)
            raise

    async def _renewed(
        self, found: Authorization, tokens: IssuedTokens | None, *, enough: bool = True
    ) -> str:
        issued = await self._issued(found, tokens)
        await self._keep(found, issued, enough=enough)
        # Not earlier than now, however short it lasts: its own request takes it.
        lasts = float("inf") if issued.expires_in is None else issued.expires_in
        self._fresh_until = _now() + max(lasts - _EARLY_SECONDS, 1.0)
        self._again_at = _now() + _AGAIN_SECONDS
        self._log.info("token_issued", expires_in=issued.expires_in)
        return issued.tokens.access

    async def _issued(self, found: Authorization, tokens: IssuedTokens | None) -> Issued:
        client = found.secrets.client
        if found.settings.grant == "client_credentials" and client is not None:
            return await grants.by_credentials(
                self._all.http,
                client,
                await discover(self._all.http, self._url, found.settings, found.secrets.wider),
            )
        if tokens is None or client is None or tokens.refresh is None:
            raise ToolFailed("authorization", "the token is over, and there is none to refresh it")
        return await grants.by_refresh(self._all.http, client, tokens)

    async def _keep(self, found: Authorization, issued: Issued, *, enough: bool) -> None:
        """Store it by a connection of its own, again where Postgres breaks off: the old one may be dead."""
        secrets: SealedSecrets = msgspec.structs.replace(found.secrets, tokens=issued.tokens)
        for left in reversed(range(_SAVES)):
            try:
                async with connection(self._all.pool) as conn:
                    kept = await keep_tokens(
                        conn,
                        self._all.sealer,
                        self._place,
                        found.id,
                        secrets,
                        issued.expires_in,
                        enough=enough,
                    )
            except DatabaseUnavailable:
                if not left:
                    raise
                await asyncio.sleep(_SAVE_AGAIN_SECONDS)
            else:
                if not kept:
                    raise ToolFailed("authorization", "it was authorised again meanwhile")
                return


def _now() -> float:
    return asyncio.get_running_loop().time()
