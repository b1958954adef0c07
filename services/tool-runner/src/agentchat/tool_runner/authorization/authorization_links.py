"""Create the link by which an administrator authorizes an agent, and handle the callback.

The requests come from administration.admin_authorizations (`chat.tools.authorize`) and
gateway.api.oauth_callback (`chat.tools.authorized`). The link is stored sealed in the database, so any worker
can finish it, and its state can be used once.
"""

import secrets
from urllib.parse import urlencode

from mcp.client.auth import OAuthRegistrationError
from mcp.client.auth.oauth2 import PKCEParameters, check_registration_usable
from mcp.client.auth.utils import create_client_registration_request, handle_registration_response
from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata
from pydantic import AnyUrl

from agentchat.contracts import authorizations, wire
from agentchat.contracts.http import OAUTH_CALLBACK
from agentchat.contracts.ids import make_id
from agentchat.directory.errors import SealBroken
from agentchat.directory.tool_authorizations import (
    Authorization,
    OAuthClient,
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
from agentchat.net_guard.permitted_addresses import look_up_for
from agentchat.runtime import logs
from agentchat.runtime.postgres import acquire_connection
from agentchat.tool_runner.authorization import grants
from agentchat.tool_runner.authorization.authorization_http import build_request
from agentchat.tool_runner.authorization.discovery import TokenSource, discover
from agentchat.tool_runner.authorization.tokens import Authorizations
from agentchat.tool_runner.faults import ToolFailed

LINK_SECONDS = 600
_CLIENT_NAME = "Agent Chat Service"


class AuthorizationLinks:
    """The handlers of `chat.tools.authorize` and `chat.tools.authorized`."""

    def __init__(self, authorizations: Authorizations, redirect_uri: str | None) -> None:
        self._all = authorizations
        self._redirect_uri = redirect_uri
        self._log = logs.get_logger("authorization")

    async def begin(self, data: bytes) -> bytes:
        """Decode an AuthorizeServer, create the link, return an encoded AuthorizationLinked.

        Raises:
            DecodeError, DatabaseUnavailable
        """
        request = wire.decode_message(authorizations.AuthorizeServer, data)
        try:
            with look_up_for(request.account_id):
                url = await self._create_link(
                    ToolServerKey(request.account_id, request.agent_id, request.server)
                )
            return wire.encode(authorizations.AuthorizationLinked(url=url))
        except (ToolFailed, SealBroken) as error:
            return wire.encode(authorizations.AuthorizationLinked(detail=_describe(error)))

    async def finish(self, data: bytes) -> bytes:
        """Decode a FinishAuthorization, get the tokens, return an encoded AuthorizationFinished.

        Raises:
            DecodeError, DatabaseUnavailable
        """
        request = wire.decode_message(authorizations.FinishAuthorization, data)
        try:
            await self._finish(request)
            return wire.encode(authorizations.AuthorizationFinished(ok=True))
        except (ToolFailed, SealBroken) as error:
            self._log.warning("authorization_failed", fault=str(error))
            return wire.encode(authorizations.AuthorizationFinished(ok=False, detail=_describe(error)))

    async def _create_link(self, place: ToolServerKey) -> str:
        if self._redirect_uri is None:
            raise ToolFailed(
                "authorization",
                "AGENTCHAT_PUBLIC_URL is not set, so the authorization server could not redirect back",
            )
        async with acquire_connection(self._all.pool) as conn:
            found = await find(conn, self._all.sealer, place)
        if found is None or found.settings.grant != "authorization_code":
            raise ToolFailed("authorization", "the server is not configured for authorization_code")
        server = await discover(self._all.http, found.url, found.settings)
        _check_origin(server.metadata)
        endpoint = str(server.metadata.authorization_endpoint)
        try:
            self._all.http.guard.check_url(endpoint)
        except AddressRefused as error:
            raise ToolFailed("address", f"the authorization endpoint: {error}") from error
        redirect_uri = f"{self._redirect_uri}/{authorizations.derive_callback(server.issuer)}"
        client = await self._choose_client(found, server, redirect_uri)
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
        async with acquire_connection(self._all.pool) as conn:
            await keep_link(conn, self._all.sealer, place, found.id, state, link, LINK_SECONDS)
        request = {
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
            "resource": server.resource,
        }
        if server.scope:
            request["scope"] = server.scope
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(request)}"

    async def _choose_client(
        self, found: Authorization, server: TokenSource, redirect_uri: str
    ) -> OAuthClient:
        """Return the configured client, or register one now (RFC 7591). Raises ToolFailed."""
        if found.settings.client_id is not None and found.secrets.client is not None:
            return found.secrets.client
        if server.metadata.registration_endpoint is None:
            raise ToolFailed(
                "authorization", "the authorization server does not register clients: set a client_id"
            )
        wanted = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect_uri)],
            client_name=_CLIENT_NAME,
            application_type="web",
            scope=server.scope,
            token_endpoint_auth_method=found.settings.client_authentication,
        )
        request = build_request(create_client_registration_request, server.metadata, wanted, server.issuer)
        try:
            registered = await handle_registration_response(await self._all.http.send(request))
            check_registration_usable(registered)
        except OAuthRegistrationError as error:
            raise ToolFailed(
                "authorization", "the authorization server did not register the client"
            ) from error
        return OAuthClient(
            id=registered.client_id,
            secret=registered.client_secret,
            authentication=registered.token_endpoint_auth_method or found.settings.client_authentication,
        )

    async def _finish(self, request: authorizations.FinishAuthorization) -> None:
        async with acquire_connection(self._all.pool) as conn:
            stored_link = await take_link(conn, self._all.sealer, request.state)
        if stored_link is None:
            raise ToolFailed("authorization", "the link has expired or was already used")
        place, authorization_id, link = stored_link
        _check_issuer(link, request)
        if request.code is None:
            raise ToolFailed("authorization", "the authorization server refused the request")
        with look_up_for(place.account_id):
            issued = await grants.exchange_code(self._all.http, link, request.code)
        async with lock_authorization(self._all.pool, place) as conn:
            kept = SealedSecrets(client=link.client, tokens=issued.tokens)
            stored = await keep_tokens(
                conn, self._all.sealer, place, authorization_id, kept, issued.expires_in, new_id=make_id()
            )
        if not stored:
            raise ToolFailed("authorization", "the authorization was configured again in the meantime")
        self._log.info("authorized", agent_id=place.agent_id, server=place.server)


def _check_origin(metadata: OAuthMetadata) -> None:
    """Check that the endpoint belongs to the issuer, or that responses name the issuer.

    Otherwise an issuer could send people to another one and receive their codes (RFC 9700 4.4).

    Raises:
        ToolFailed
    """
    endpoint, issuer = metadata.authorization_endpoint, metadata.issuer
    own = (endpoint.scheme, endpoint.host, endpoint.port) == (issuer.scheme, issuer.host, issuer.port)
    if not own and not metadata.authorization_response_iss_parameter_supported:
        raise ToolFailed(
            "authorization",
            "the authorization endpoint has another origin than the issuer, and the metadata do not promise "
            "that responses name the issuer (authorization_response_iss_parameter_supported)",
        )


def _check_issuer(link: PendingLink, request: authorizations.FinishAuthorization) -> None:
    """Check by redirect URI and `iss` (RFC 9207) that the right server responded.

    Raises ToolFailed.
    """
    at_its_own = link.redirect_uri.endswith(f"{OAUTH_CALLBACK}/{request.callback}")
    named = request.issuer == link.issuer or (request.issuer is None and not link.names_issuer)
    if not named or not at_its_own:
        raise ToolFailed("authorization", "another authorization server has responded")


def _describe(error: ToolFailed | SealBroken) -> str:
    if isinstance(error, SealBroken):
        return str(error)
    return error.fault.detail or error.fault.words
