"""Which authorization server a tool server trusts: RFC 9728 and RFC 8414, as MCP has them.

The order of addresses, the parsing and the checks of issuers are the SDK's. Its `OAuthClientProvider` is not
used: it keeps a session's other calls waiting while one runs, holds a link's state in the memory of one
process, and does not store where or when a token is to be refreshed (decision 66).
"""

import re

import httpx2
import msgspec
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    issuers_match,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

from agentchat.directory.tool_authorizations import SCOPE, OAuthSettings
from agentchat.tool_runner.authorization.authorization_requests import AuthorizationHttp, made
from agentchat.tool_runner.faults import ToolFailed

_ADVERTISED_SCOPE_CHARS = 2048
_SCOPE = re.compile(SCOPE)


class TokenSource(msgspec.Struct, frozen=True):
    """Where tokens for `resource` are to be had, and with which scope."""

    metadata: OAuthMetadata
    resource: str
    scope: str | None

    @property
    def issuer(self) -> str:
        return str(self.metadata.issuer)


async def discover(http: AuthorizationHttp, url: str, settings: OAuthSettings) -> TokenSource:
    """Ask the tool server at `url`, then the authorization server that it names.

    If an issuer is configured, no other one is accepted. Raises ToolFailed.
    """
    probe = made(httpx2.Request, "GET", url, headers={"accept": "text/event-stream"})
    challenge = await http.head(probe)
    resource = await _resource(http, url, challenge)
    issuer = _issuer(url, resource, settings.issuer)
    metadata = await _metadata(http, url, issuer, named=resource is not None)
    scope = settings.scope or _advertised_scope(
        get_client_metadata_scopes(
            extract_scope_from_www_auth(challenge), resource, metadata, [settings.grant, "refresh_token"]
        )
    )
    return TokenSource(
        metadata,
        resource_url_from_server_url(url) if resource is None else str(resource.resource),
        scope,
    )


async def _resource(
    http: AuthorizationHttp, url: str, challenge: httpx2.Response
) -> ProtectedResourceMetadata | None:
    """Return what the tool server says of itself; None for one older than RFC 9728. Raises ToolFailed."""
    stated = (
        extract_resource_metadata_from_www_auth(challenge) if challenge.status_code in (401, 403) else None
    )
    for address in build_protected_resource_metadata_discovery_urls(stated, url):
        answer = await http.send(made(create_oauth_metadata_request, address))
        if answer.status_code >= 500 or answer.status_code == 429:
            raise ToolFailed("unreachable", f"resource metadata: HTTP {answer.status_code}")
        found = await handle_protected_resource_response(answer)
        if found is not None:
            if not check_resource_allowed(resource_url_from_server_url(url), str(found.resource)):
                raise ToolFailed("authorization", "the resource metadata are of another server")
            return found
    return None


def _advertised_scope(named: str | None) -> str | None:
    """Return the scope that servers' metadata name, with a space between two parts. Raises ToolFailed."""
    scope = " ".join(part for part in (named or "").split(" ") if part)
    if not scope:
        return None
    if len(scope) > _ADVERTISED_SCOPE_CHARS or not _SCOPE.match(scope):
        raise ToolFailed("authorization", "the servers' metadata name a scope that is none: set one")
    return scope


def _issuer(url: str, resource: ProtectedResourceMetadata | None, wanted: str | None) -> str:
    """Choose the issuer. Raises ToolFailed if the tool server leads to another one than is configured."""
    if resource is None:
        parts = httpx2.URL(url)
        advertised = [f"{parts.scheme}://{parts.netloc.decode('ascii')}"]
    else:
        advertised = [str(server) for server in resource.authorization_servers]
    if wanted is None:
        return advertised[0]
    for issuer in advertised:
        if issuers_match(issuer, wanted):
            return issuer
    raise ToolFailed("authorization", "the tool server leads to another issuer than the configured one")


async def _metadata(http: AuthorizationHttp, url: str, issuer: str, *, named: bool) -> OAuthMetadata:
    for address in build_oauth_authorization_server_metadata_discovery_urls(issuer if named else None, url):
        answer = await http.send(made(create_oauth_metadata_request, address))
        ok, found = await handle_auth_metadata_response(answer)
        if not ok:
            raise ToolFailed("unreachable", f"authorization server metadata: HTTP {answer.status_code}")
        if found is not None:
            try:
                if not issuers_match(str(found.issuer), issuer):
                    validate_metadata_issuer(found, issuer)
            except OAuthFlowError as error:
                raise ToolFailed("authorization", "the metadata name another issuer") from error
            return found
    raise ToolFailed("authorization", "no authorization server metadata were found")
