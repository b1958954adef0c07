"""Request tokens: RFC 6749 with PKCE (RFC 7636) and resource indicators (RFC 8707)."""

import re
from urllib.parse import quote

import httpx2
import msgspec
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from agentchat.directory.tool_authorizations import IssuedTokens, OAuthClient, PendingLink
from agentchat.tool_runner.authorization.authorization_http import AuthorizationHttp, build_request
from agentchat.tool_runner.authorization.discovery import TokenSource
from agentchat.tool_runner.faults import ToolFailed

_CODE = re.compile(r"[\x20-\x7e]{1,64}\Z")
_TOKEN = re.compile(r"[\x21-\x7e]+\Z")
_LONGEST_SECONDS = 10 * 366 * 86400
_MISSING = "the token endpoint's response holds no token"


class TokenGrant(msgspec.Struct, frozen=True):
    """Issued tokens, and the access token's lifetime in seconds if the server stated it."""

    tokens: IssuedTokens
    expires_in: int | None

    def __repr__(self) -> str:
        return f"TokenGrant(expires_in={self.expires_in})"


class _Refusal(msgspec.Struct):
    error: str = ""


async def request_client_token(
    http: AuthorizationHttp, client: OAuthClient, source: TokenSource
) -> TokenGrant:
    """Request a token for the client itself. Raises ToolFailed."""
    asked = {"grant_type": "client_credentials", "resource": source.resource}
    if source.scope:
        asked["scope"] = source.scope
    endpoint = str(source.metadata.token_endpoint)
    before = IssuedTokens(
        access="", refresh=None, scope=source.scope, endpoint=endpoint, resource=source.resource
    )
    return await _request_tokens(http, client, before, asked)


async def exchange_code(http: AuthorizationHttp, link: PendingLink, code: str) -> TokenGrant:
    """Exchange the code of a person's consent for tokens. Raises ToolFailed."""
    asked = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": link.redirect_uri,
        "code_verifier": link.verifier,
        "resource": link.resource,
    }
    before = IssuedTokens(
        access="", refresh=None, scope=link.scope, endpoint=link.endpoint, resource=link.resource
    )
    return await _request_tokens(http, link.client, before, asked)


async def refresh_tokens(http: AuthorizationHttp, client: OAuthClient, tokens: IssuedTokens) -> TokenGrant:
    """Refresh the tokens; without a new refresh token the old one is kept. Raises ToolFailed."""
    asked = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh or "",
        "resource": tokens.resource,
    }
    return await _request_tokens(http, client, tokens, asked)


async def _request_tokens(
    http: AuthorizationHttp, client: OAuthClient, before: IssuedTokens, asked: dict[str, str]
) -> TokenGrant:
    headers = {"accept": "application/json"}
    if asked["grant_type"] != "client_credentials":  # required of public clients, allowed for others
        asked["client_id"] = client.id
    if client.secret is not None and client.authentication == "client_secret_basic":
        pair = httpx2.BasicAuth(quote(client.id, safe=""), quote(client.secret, safe=""))
        request = next(pair.sync_auth_flow(_post(before.endpoint, asked, headers)))
    else:
        asked["client_id"] = client.id
        if client.secret is not None:
            asked["client_secret"] = client.secret
        request = _post(before.endpoint, asked, headers)
    answer = await http.send(request)
    if answer.status_code not in (200, 201):
        raise _explain_refusal(answer)
    try:
        issued = OAuthToken.model_validate_json(answer.content)
    except ValidationError as error:
        raise ToolFailed("protocol", _MISSING) from error
    if not all(_TOKEN.match(each) for each in (issued.access_token, issued.refresh_token or "none")):
        raise ToolFailed("protocol", _MISSING)
    tokens = msgspec.structs.replace(
        before,
        access=issued.access_token,
        refresh=issued.refresh_token or before.refresh,
        scope=issued.scope or before.scope,
    )
    lasts = None if issued.expires_in is None else min(max(issued.expires_in, 0), _LONGEST_SECONDS)
    return TokenGrant(tokens, lasts)


def _post(endpoint: str, asked: dict[str, str], headers: dict[str, str]) -> httpx2.Request:
    return build_request(httpx2.Request, "POST", endpoint, data=asked, headers=headers)


def _explain_refusal(answer: httpx2.Response) -> ToolFailed:
    """Build the failure only from the error code, since other text may repeat secrets."""
    try:
        code = msgspec.json.decode(answer.content, type=_Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = ""
    code = code if _CODE.match(code) else ""
    if answer.status_code in (400, 401, 403) and code not in ("temporarily_unavailable", "server_error"):
        return ToolFailed(
            "authorization", f"the authorization server refused the request: {code or answer.status_code}"
        )
    return ToolFailed("unreachable", f"the authorization server: HTTP {answer.status_code}")
