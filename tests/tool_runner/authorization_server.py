"""An MCP server and its authorization server in this process, made of the SDK's parts for both.

The client credentials grant, which the SDK's token endpoint does not have, is this file's own.
"""

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.ports import find_free_port
from tests.tool_runner.sdk_server import serve_app

CLIENT, SECRET = "the-client", "the-client-secret"


class Issuer:
    """Issues and revokes tokens, rotates refresh tokens, and takes a second use of one for a theft."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.expires_in = 3600
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.spent: set[str] = set()
        self.grants: list[str] = []
        self.thefts = 0
        self.loses_answers = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        self.grants.append("authorization_code")
        return self.issue(client.client_id, refreshable=True, scopes=authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        if refresh_token in self.spent:
            self.thefts += 1
            self.refresh.clear()
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.grants.append("refresh_token")
        self.asked.set()
        await self.may_answer.wait()
        if self.loses_answers:
            raise TokenError("invalid_request")
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        self.spent.add(refresh_token.token)
        return self.issue(client.client_id, refreshable=True, scopes=refresh_token.scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError

    async def exchange_identity_assertion(self, *_: object) -> OAuthToken:
        raise NotImplementedError

    def issue(self, client_id: str, *, refreshable: bool, scopes: Sequence[str] = ()) -> OAuthToken:
        token = AccessToken(
            token=f"access-{secrets.token_urlsafe(16)}",
            client_id=client_id,
            scopes=list(scopes),
            resource=self.resource,
        )
        self.access[token.token] = token
        refresh = None
        if refreshable:
            refresh = f"refresh-{secrets.token_urlsafe(16)}"
            self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=list(scopes))
        return OAuthToken(access_token=token.token, expires_in=self.expires_in, refresh_token=refresh)


class Protected:
    """The server at `url`: the tool `whoami`, which repeats the token it was asked with."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}/mcp"
        self.issuer = Issuer(self.url)
        self.resource_metadata: dict[str, object] | None = None
        self.answers: dict[str, Response] = {}
        """By path, in the place of its own."""
        self.seen: list[str] = []
        self.forms: list[str] = []
        """What was posted to the token endpoint."""

    def build_app(self) -> ASGIApp:
        mcp = MCPServer(
            "protected",
            auth_server_provider=self.issuer,
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(self.origin),
                resource_server_url=AnyHttpUrl(self.url),
                validate_token_resource=True,
                client_registration_options=ClientRegistrationOptions(enabled=True),
            ),
        )

        @mcp.tool()
        def whoami() -> str:
            return f"asked with {self.seen[-1]}"

        inner = mcp.streamable_http_app()

        async def answer_or_forward(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            request = Request(scope, receive)
            body = await request.body()
            if answer := await self._answer(request):
                await answer(scope, receive, send)
                return
            self.seen += [value.removeprefix("Bearer ") for value in request.headers.getlist("authorization")]

            async def read_first() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            first = [read_first]

            async def receive_replayed() -> Message:
                return await (first.pop()() if first else receive())

            await inner(scope, receive_replayed, send)

        return answer_or_forward

    async def _answer(self, request: Request) -> Response | None:
        if request.url.path == "/token":
            self.forms.append((await request.body()).decode())
        if (answer := self.answers.get(request.url.path)) is not None:
            return answer
        if "oauth-protected-resource" in request.url.path and self.resource_metadata is not None:
            return JSONResponse(self.resource_metadata)
        if request.url.path != "/token":
            return None
        form = await request.form()
        if form["grant_type"] != "client_credentials":
            return None
        self.issuer.grants.append("client_credentials")
        basic = request.headers.get("authorization", "")
        expected = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if basic != expected:
            return JSONResponse({"error": "invalid_client", "error_description": basic}, status_code=401)
        asked = str(form.get("scope", ""))
        issued = self.issuer.issue(CLIENT, refreshable=False, scopes=asked.split())
        return JSONResponse(issued.model_dump(exclude_none=True))

    def register(self, redirect_uri: str) -> None:
        """Register a client by hand."""
        self.issuer.clients[CLIENT] = OAuthClientInformationFull(
            client_id=CLIENT,
            client_secret=SECRET,
            token_endpoint_auth_method="client_secret_basic",
            redirect_uris=[AnyUrl(redirect_uri)],
        )


@asynccontextmanager
async def run_protected() -> AsyncIterator[Protected]:
    """Run a protected server on loopback."""
    made = Protected(find_free_port())
    async with serve_app(made.build_app(), made.port):
        try:
            yield made
        finally:
            made.issuer.may_answer.set()
