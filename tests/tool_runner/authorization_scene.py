"""An agent at a protected tool server, and what administrators, persons and workers do about its tokens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec

from agentchat.administration import Admin, admin_authorizations
from agentchat.administration.admin_authorizations import AuthorizationBody, ShownAuthorization
from agentchat.contracts import wire
from agentchat.contracts.authorizations import (
    AuthorizationFinished,
    AuthorizationLinked,
    AuthorizeServer,
    FinishAuthorization,
)
from agentchat.directory.secret_encryption import Sealer
from agentchat.directory.tool_authorizations import ToolServerKey
from agentchat.net_guard import Guard
from agentchat.runtime.postgres import Pool, open_pool
from agentchat.tool_runner.authorization.authorization_http import AuthorizationHttp
from agentchat.tool_runner.authorization.authorization_links import AuthorizationLinks
from agentchat.tool_runner.authorization.tokens import AccessTokens, Authorizations
from agentchat.tool_runner.servers.agent_servers import AuthorizedServer
from agentchat.tool_runner.servers.tool_servers import ServerPool, ToolServer
from tests.tool_runner.authorization_server import CLIENT, SECRET, Protected
from tests.tool_runner.runner import SECRET_KEY, Agent

SEALER = Sealer.from_setting(SECRET_KEY)
CALLBACK = "https://chat.example/v1/oauth/callback"
ANOTHER = "another authorization server has responded"


class Scene:
    """An agent whose tool server wants tokens, and one worker's share of the work with them."""

    def __init__(self, server: Protected, agent: Agent, pool: Pool, database_url: str) -> None:
        self.server = server
        self.database_url = database_url
        self.agent = agent
        self.admin = Admin(pool=pool, sealer=SEALER, actor="test")
        self.place = ToolServerKey(agent.account_id, agent.agent_id, "shop")

    async def set(self, **settings: str) -> ShownAuthorization:
        body = msgspec.convert(settings, AuthorizationBody)
        return await admin_authorizations.put(self.admin, self.agent.agent_id, "shop", body)

    async def set_credentials(self, secret: str = SECRET) -> ShownAuthorization:
        return await self.set(
            grant="client_credentials", issuer=self.server.origin, client_id=CLIENT, client_secret=secret
        )

    async def get_authorization(self) -> ShownAuthorization:
        return await admin_authorizations.get(self.admin, self.agent.agent_id, "shop")

    @asynccontextmanager
    async def open_worker(self, *allow: str) -> AsyncIterator[Authorizations]:
        guard = Guard(allow or [f"127.0.0.1:{self.server.port}"])
        http = AuthorizationHttp(guard, httpx2.create_ssl_context())
        async with open_pool(self.database_url, role=None, min_size=0, max_size=8) as pool:
            yield Authorizations(pool, SEALER, http)
            await http.aclose()

    def open_tokens(self, worker: Authorizations) -> AccessTokens:
        return worker.open_tokens(self.place, self.server.url)

    async def link(self, worker: Authorizations) -> AuthorizationLinked:
        asked = AuthorizeServer(account_id=self.agent.account_id, agent_id=self.agent.agent_id, server="shop")
        answer = await AuthorizationLinks(worker, CALLBACK).begin(wire.encode(asked))
        return wire.decode_message(AuthorizationLinked, answer)

    async def open_link(self, worker: Authorizations) -> FinishAuthorization:
        """Open the link as a person who agrees; return the callback's parameters."""
        link = await self.link(worker)
        assert link.url, link.detail
        return await follow_link(link.url)

    @asynccontextmanager
    async def open_server(
        self, worker: Authorizations, authorization_id: str = "1"
    ) -> AsyncIterator[ToolServer]:
        """Open the server as a runner calls it, with this authorisation of the agent's."""
        guard = Guard([f"127.0.0.1:{self.server.port}"])
        servers = ServerPool(guard, httpx2.create_ssl_context(), worker)
        config = AuthorizedServer(
            name="shop", url=self.server.url, agent_id=self.agent.agent_id, authorization_id=authorization_id
        )
        yield servers.get(self.agent.account_id, config)
        await servers.close(5.0)

    async def authorize(self, worker: Authorizations) -> None:
        await self.set(grant="authorization_code")
        assert (await finish(worker, await self.open_link(worker))).ok


async def follow_link(url: str) -> FinishAuthorization:
    """Follow the link and return the callback's parameters, as the gateway hands them on."""
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(url)
        while not (location := answer.headers["location"]).startswith(CALLBACK):
            answer = await browser.get(location)
    parts = urlsplit(location)
    given = parse_qs(parts.query)
    callback = parts.path.removeprefix(urlsplit(CALLBACK).path).removeprefix("/")
    return FinishAuthorization(
        state=given["state"][0],
        code=given["code"][0],
        issuer=given.get("iss", [None])[0],
        callback=callback,
    )


async def finish(worker: Authorizations, asked: FinishAuthorization) -> AuthorizationFinished:
    answer = await AuthorizationLinks(worker, CALLBACK).finish(wire.encode(asked))
    return wire.decode_message(AuthorizationFinished, answer)
