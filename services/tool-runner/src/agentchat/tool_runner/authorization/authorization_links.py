"""`chat.tools.authorize`: a link that an administrator opens, and what its authorization server answers.

The link waits in the database, sealed: any worker may finish what another began. Its state is taken once.
"""

import secrets
from urllib.parse import urlencode

from mcp.client.auth import OAuthRegistrationError
from mcp.client.auth.oauth2 import PKCEParameters, check_registration_usable
from mcp.client.auth.utils import (
    create_client_registration_request,
    handle_registration_response,
)
from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata
from pydantic import AnyUrl

from agentchat.contracts import authorizations, wire
from agentchat.contracts.http import OAUTH_CALLBACK
from agentchat.contracts.ids import new_id
from agentchat.directory.errors import SealBroken
from agentchat.directory.tool_authorizations import (
    Authorization,
    Client,
    PendingLink,
    SealedSecrets,
    ToolServerKey,
    find,
    keep_link,
    keep_tokens,
    lock_authorization,
    take_link,
)
from agentchat.net_guard import AddressRefused
from agentchat.net_guard.addresses import looking_up_for
from agentchat.runtime import logs
from agentchat.runtime.postgres import connection
from agentchat.tool_runner.authorization import grants
from agentchat.tool_runner.authorization.authorization_requests import made
from agentchat.tool_runner.authorization.discovery import TokenSource, discover
from agentchat.tool_runner.authorization.tokens import Authorizations
from agentchat.tool_runner.faults import ToolFailed

LINK_SECONDS = 600
_CLIENT_NAME = "Agent Chat Service"


class AuthorizationLinks:
    def __init__(self, authorizations: Authorizations, redirect_uri: str | None) -> None:
        self._all = authorizations
        self._redirect_uri = redirect_uri
        self._log = logs.get_logger("authorization")

    async def begin(self, data: bytes) -> bytes:
        """The bytes of an AuthorizeServer to those of an AuthorizationLinked.

        Raises DecodeError, DatabaseUnavailable.
        """
        asked = wire.decode_message(authorizations.AuthorizeServer, data)
        try:
            with looking_up_for(asked.account_id):
                url = await self._link(ToolServerKey(asked.account_id, asked.agent_id, asked.server))
            return wire.encode(authorizations.AuthorizationLinked(url=url))
        except (ToolFailed, SealBroken) as error:
            return wire.encode(authorizations.AuthorizationLinked(detail=_detail(error)))

    async def finish(self, data: bytes) -> bytes:
        """The bytes of a FinishAuthorization to those of an AuthorizationFinished.

        Raises DecodeError, DatabaseUnavailable.
        """
        asked = wire.decode_message(authorizations.FinishAuthorization, data)
        try:
            await self._finish(asked)
            return wire.encode(authorizations.AuthorizationFinished(ok=True))
        except (ToolFailed, SealBroken) as error:
            self._log.warning("authorization_failed", fault=str(error))
            return wire.encode(authorizations.AuthorizationFinished(ok=False, detail=_detail(error)))

    async def _link(self, place: ToolServerKey) -> str:
        if self._redirect_uri is None:
            raise ToolFailed("authorization", "AGENTCHAT_PUBLIC_URL is not set, so no answer could come back")
        async with connection(self._all.pool) as conn:
            found = await find(conn, self._all.sealer, place)
        if found is None or found.settings.grant != "authorization_code":
            raise ToolFailed("authorization", "the server is not set up for authorization_code")
        server = await discover(self._all.http, found.url, found.settings)
        _check_origin(server.metadata)
        endpoint = str(server.metadata.authorization_endpoint)
        try:
            self._all.http.guard.check_url(endpoint)
        except AddressRefused as error:
            raise ToolFailed("address", f"the authorization endpoint: {error}") from error
        redirect_uri = f"{self._redirect_uri}/{authorizations.callback_of(server.issuer)}"
        client = await self._client(found, server, redirect_uri)
        pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
        link = PendingLink(
            verifier=pkce.code_verifier,
            redirect_uri=redirect_uri,
            client=client,
            endpoint=str(server.metadata.token_endpoint),
            resource=server.resource,
            issuer=server.issuer,
            names_issuer=bool(server.metadata.authorization_response_iss_parameter_supported),
            scope=server.scope,
        )
        async with connection(self._all.pool) as conn:
            await keep_link(conn, self._all.sealer, place, found.id, state, link, LINK_SECONDS)
        asked = {
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
            "resource": server.resource,
        }
        if server.scope:
            asked["scope"] = server.scope
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    async def _client(self, found: Authorization, server: TokenSource, redirect_uri: str) -> Client:
        """The configured client, or one that registers itself now (RFC 7591). Raises ToolFailed."""
        if found.settings.client_id is not None and found.secrets.client is not None:
            return found.secrets.client
        if server.metadata.registration_endpoint is None:
            raise ToolFailed(
                "authorization", "the authorization server registers no clients: give a client_id"
            )
        wanted = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect_uri)],
            client_name=_CLIENT_NAME,
            application_type="web",
            scope=server.scope,
            token_endpoint_auth_method=found.settings.client_authentication,
        )
        request = made(create_client_registration_request, server.metadata, wanted, server.issuer)
        try:
            registered = await handle_registration_response(await self._all.http.send(request))
            check_registration_usable(registered)
        except OAuthRegistrationError as error:
            raise ToolFailed(
                "authorization", "the authorization server did not register the client"
            ) from error
        return Client(
            id=registered.client_id,
            secret=registered.client_secret,
            authentication=registered.token_endpoint_auth_method or found.settings.client_authentication,
        )

    async def _finish(self, asked: authorizations.FinishAuthorization) -> None:
        async with connection(self._all.pool) as conn:
            taken = await take_link(conn, self._all.sealer, asked.state)
        if taken is None:
            raise ToolFailed("authorization", "the link is over, or was used")
        place, authorization_id, link = taken
        _check_issuer(link, asked)
        if asked.code is None:
            raise ToolFailed("authorization", "the authorization server refused it")
        with looking_up_for(place.account_id):
            issued = await grants.by_code(self._all.http, link, asked.code)
        async with lock_authorization(self._all.pool, place) as conn:
            kept = SealedSecrets(client=link.client, tokens=issued.tokens)
            stored = await keep_tokens(
                conn, self._all.sealer, place, authorization_id, kept, issued.expires_in, new_id=new_id()
            )
        if not stored:
            raise ToolFailed("authorization", "it was set up again meanwhile")
        self._log.info("authorized", agent_id=place.agent_id, server=place.server)


def _check_origin(metadata: OAuthMetadata) -> None:
    """The endpoint that a browser is sent to is the issuer's own, or its answer will say whose it is.

    Else an issuer could send people to another one, and have their codes (RFC 9700 4.4). Raises ToolFailed.
    """
    endpoint, issuer = metadata.authorization_endpoint, metadata.issuer
    own = (endpoint.scheme, endpoint.host, endpoint.port) == (issuer.scheme, issuer.host, issuer.port)
    if not own and not metadata.authorization_response_iss_parameter_supported:
        raise ToolFailed(
            "authorization",
            "the authorization endpoint is at another origin than the issuer, whose metadata do not promise "
            "that answers name it (authorization_response_iss_parameter_supported)",
        )


def _check_issuer(link: PendingLink, asked: authorizations.FinishAuthorization) -> None:
    """Who has answered is who was asked: by the redirect URI, and by `iss` (RFC 9207). Raises ToolFailed."""
    at_its_own = link.redirect_uri.endswith(f"{OAUTH_CALLBACK}/{asked.callback}")
    named = asked.issuer == link.issuer or (asked.issuer is None and not link.names_issuer)
    if not named or not at_its_own:
        raise ToolFailed("authorization", "another authorization server has answered")


def _detail(error: ToolFailed | SealBroken) -> str:
    if isinstance(error, SealBroken):
        return str(error)
    return error.fault.detail or error.fault.words
