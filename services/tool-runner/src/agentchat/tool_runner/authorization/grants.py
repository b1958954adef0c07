"""Token requests: RFC 6749 with PKCE (RFC 7636) and resource indicators (RFC 8707)."""

import re
from urllib.parse import quote

import httpx2
import msgspec
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from agentchat.directory.tool_authorizations import Client, IssuedTokens, PendingLink
from agentchat.tool_runner.authorization.authorization_requests import AuthorizationHttp, made
from agentchat.tool_runner.authorization.discovery import TokenSource
from agentchat.tool_runner.faults import ToolFailed

_CODE = re.compile(r"[\x20-\x7e]{1,64}\Z")
_TOKEN = re.compile(r"[\x21-\x7e]+\Z")
_LONGEST_SECONDS = 10 * 366 * 86400


class Issued(msgspec.Struct, frozen=True):
    """Tokens, and the seconds for which the access token lasts, if that was stated."""

    tokens: IssuedTokens
    expires_in: int | None

    def __repr__(self) -> str:
        return f"Issued(expires_in={self.expires_in})"


class _Refusal(msgspec.Struct):
    error: str = ""


async def by_credentials(http: AuthorizationHttp, client: Client, found: TokenSource) -> Issued:
    """A token for the client itself. Raises ToolFailed."""
    asked = {"grant_type": "client_credentials", "resource": found.resource}
    if found.scope:
        asked["scope"] = found.scope
    endpoint = str(found.metadata.token_endpoint)
    before = IssuedTokens(
        access="", refresh=None, scope=found.scope, endpoint=endpoint, resource=found.resource
    )
    return await _ask(http, client, before, asked)


async def by_code(http: AuthorizationHttp, link: PendingLink, code: str) -> Issued:
    """Tokens for what a person has allowed. Raises ToolFailed."""
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
    return await _ask(http, link.client, before, asked)


async def by_refresh(http: AuthorizationHttp, client: Client, tokens: IssuedTokens) -> Issued:
    """The next tokens; where no other refresh token is issued the old one stays. Raises ToolFailed."""
    asked = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh or "",
        "resource": tokens.resource,
    }
    return await _ask(http, client, tokens, asked)


async def _ask(
    http: AuthorizationHttp, client: Client, before: IssuedTokens, asked: dict[str, str]
) -> Issued:
    headers = {"accept": "application/json"}
    if asked["grant_type"] != "client_credentials":  # as public clients have to, and others may
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
        raise _refused(answer)
    try:
        issued = OAuthToken.model_validate_json(answer.content)
    except ValidationError as error:
        raise _no_token() from error
    if not all(_TOKEN.match(each) for each in (issued.access_token, issued.refresh_token or "none")):
        raise _no_token()
    tokens = msgspec.structs.replace(
        before,
        access=issued.access_token,
        refresh=issued.refresh_token or before.refresh,
        scope=issued.scope or before.scope,
    )
    lasts = None if issued.expires_in is None else min(max(issued.expires_in, 0), _LONGEST_SECONDS)
    return Issued(tokens, lasts)


def _post(endpoint: str, asked: dict[str, str], headers: dict[str, str]) -> httpx2.Request:
    return made(httpx2.Request, "POST", endpoint, data=asked, headers=headers)


def _no_token() -> ToolFailed:
    return ToolFailed("protocol", "the token endpoint's answer holds no token")


def _refused(answer: httpx2.Response) -> ToolFailed:
    """Of a refusal the code alone: what else it says is a stranger's, and may hold what was sent."""
    try:
        code = msgspec.json.decode(answer.content, type=_Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = ""
    code = code if _CODE.match(code) else ""
    if answer.status_code in (400, 401, 403) and code not in ("temporarily_unavailable", "server_error"):
        return ToolFailed(
            "authorization", f"the authorization server refused it: {code or answer.status_code}"
        )
    return ToolFailed("unreachable", f"the authorization server: HTTP {answer.status_code}")
