"""Discover the authorization server that a tool server trusts.

MCP uses RFC 9728 and RFC 8414 for this. The SDK supplies the order of addresses, the parsing and the checks
of issuers. Its `OAuthClientProvider` is not used: it blocks a session's other calls while one runs, keeps a
link's state in the memory of one process, and does not store where and when to refresh a token (decision 66).
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
from agentchat.tool_runner.authorization.authorization_http import AuthorizationHttp, build_request
from agentchat.tool_runner.faults import ToolFailed

_ADVERTISED_SCOPE_CHARS = 2048
_SCOPE = re.compile(SCOPE)


class TokenSource(msgspec.Struct, frozen=True):
    """The authorization server that issues tokens for `resource`, and the scope to request."""

    metadata: OAuthMetadata
    resource: str
    scope: str | None

    @property
    def issuer(self) -> str:
        """Return the issuer that the metadata name."""
        return str(self.metadata.issuer)


async def discover(http: AuthorizationHttp, url: str, settings: OAuthSettings) -> TokenSource:
    """Read the metadata of the tool server, then of the authorization server named there.

    If an issuer is configured, no other one is accepted. Raises ToolFailed.
    """
    probe = build_request(httpx2.Request, "GET", url, headers={"accept": "text/event-stream"})
    challenge = await http.head(probe)
    resource = await _find_resource_metadata(http, url, challenge)
    issuer = _choose_issuer(url, resource, settings.issuer)
    metadata = await _find_server_metadata(http, url, issuer, named=resource is not None)
    scope = settings.scope or _join_advertised_scope(
        get_client_metadata_scopes(
            extract_scope_from_www_auth(challenge), resource, metadata, [settings.grant, "refresh_token"]
        )
    )
    return TokenSource(
        metadata,
        resource_url_from_server_url(url) if resource is None else str(resource.resource),
        scope,
    )


async def _find_resource_metadata(
    http: AuthorizationHttp, url: str, challenge: httpx2.Response
) -> ProtectedResourceMetadata | None:
    """Return the tool server's metadata; None for a server older than RFC 9728.

    Raises ToolFailed.
    """
    stated = (
        extract_resource_metadata_from_www_auth(challenge) if challenge.status_code in (401, 403) else None
    )
    for address in build_protected_resource_metadata_discovery_urls(stated, url):
        answer = await http.send(build_request(create_oauth_metadata_request, address))
        if answer.status_code >= 500 or answer.status_code == 429:
            raise ToolFailed("unreachable", f"resource metadata: HTTP {answer.status_code}")
        found = await handle_protected_resource_response(answer)
        if found is not None:
            if not check_resource_allowed(resource_url_from_server_url(url), str(found.resource)):
                raise ToolFailed("authorization", "the resource metadata describe another server")
            return found
    return None


def _join_advertised_scope(named: str | None) -> str | None:
    """Return the scope from the metadata, with single spaces.

    Raises ToolFailed if it is invalid.
    """
    scope = " ".join(part for part in (named or "").split(" ") if part)
    if not scope:
        return None
    if len(scope) > _ADVERTISED_SCOPE_CHARS or not _SCOPE.match(scope):
        raise ToolFailed("authorization", "the scope in the metadata is invalid: configure one")
    return scope


def _choose_issuer(url: str, resource: ProtectedResourceMetadata | None, wanted: str | None) -> str:
    """Choose the issuer.

    Raises ToolFailed if the tool server does not name the configured one.
    """
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
    raise ToolFailed("authorization", "the tool server names another issuer than the configured one")


async def _find_server_metadata(
    http: AuthorizationHttp, url: str, issuer: str, *, named: bool
) -> OAuthMetadata:
    for address in build_oauth_authorization_server_metadata_discovery_urls(issuer if named else None, url):
        answer = await http.send(build_request(create_oauth_metadata_request, address))
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
    raise ToolFailed("authorization", "the authorization server's metadata were not found")
