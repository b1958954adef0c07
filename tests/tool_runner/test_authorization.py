"""OAuth 2.1 at tool servers, tried on the SDK's own authorization server and resource server."""

import asyncio
import signal
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from starlette.responses import JSONResponse, Response

from agentchat.administration import admin_mcp_servers
from agentchat.administration.admin_authorizations import AuthorizationBody
from agentchat.bus.bus import Bus
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.contracts.authorizations import (
    FinishAuthorization,
    derive_callback,
)
from agentchat.directory.agent_config import McpServer
from agentchat.runtime.postgres import Connection, Pool
from agentchat.tool_runner.faults import ToolFailed
from tests.tool_runner.authorization_scene import ANOTHER, Scene, finish
from tests.tool_runner.authorization_server import SECRET, run_protected
from tests.tool_runner.conftest import Connections, call
from tests.tool_runner.runner import SECONDS, Calls, make_agent, make_environ, start_runner

NO_SUCH_LINK = "the link has expired or was already used"


@pytest.fixture
async def scene(migrated_database_url: str, pool: Pool) -> AsyncIterator[Scene]:
    async with run_protected() as server:
        agent = await make_agent(migrated_database_url, McpServer(name="shop", url=server.url))
        yield Scene(server, agent, pool, migrated_database_url)


async def test_client_token_is_sent_and_never_shown(
    scene: Scene, fresh_nats_url: str, migrated_database_url: str, conn: Connection
) -> None:
    await scene.set_credentials()
    env = make_environ(fresh_nats_url, migrated_database_url, [f"127.0.0.1:{scene.server.port}"])
    async with start_runner(env), Bus.connect(fresh_nats_url, name="test") as bus:
        calls = Calls(bus)
        (found,) = await calls.check(scene.agent)
        assert found.ok, found.detail
        first, second = [await calls.finish(scene.agent.call("whoami", "shop")) for _ in range(2)]
    assert not first.is_error
    assert "asked with [hidden]" in first.output
    assert "access-" not in first.output + second.output
    assert scene.server.issuer.grants == ["client_credentials"]
    assert set(scene.server.seen) == set(scene.server.issuer.access)
    shown = await scene.get_authorization()
    assert (shown.status, shown.detail) == ("authorized", "")
    assert shown.expires_at is not None
    stored = await (await conn.execute("SELECT mcp_authorizations::text FROM mcp_authorizations")).fetchall()
    assert stored
    assert not any(secret in str(stored) for secret in (SECRET, SECRET.encode().hex(), "access-"))


async def test_refused_client_fails_call_and_check(
    scene: Scene, fresh_nats_url: str, migrated_database_url: str
) -> None:
    await scene.set_credentials("another-secret")
    env = make_environ(fresh_nats_url, migrated_database_url, [f"127.0.0.1:{scene.server.port}"])
    async with start_runner(env), Bus.connect(fresh_nats_url, name="test") as bus:
        calls = Calls(bus)
        finished = await calls.finish(scene.agent.call("whoami", "shop"))  # first: a queue waits for a worker
        (found,) = await calls.check(scene.agent)
    assert not found.ok
    assert (
        found.detail == "Needs authorisation: the authorization server refused the request: invalid_client."
    )
    assert finished.is_error
    assert "The tool server needs authorisation by an administrator." in finished.output
    assert (await scene.get_authorization()).status == "needs_authorization"


async def test_a_link_authorises_once_and_its_state_is_taken_once(scene: Scene) -> None:
    await scene.set(grant="authorization_code")
    async with scene.open_worker() as worker, scene.open_worker() as another:
        answer = await scene.open_link(worker)
        assert (await finish(another, answer)).ok, "whichever worker is asked"
        assert (await scene.get_authorization()).status == "authorized"
        assert (await finish(worker, answer)).detail == NO_SUCH_LINK
        assert (await scene.open_tokens(worker).get_token()) in scene.server.issuer.access
    assert scene.server.issuer.grants == ["authorization_code"]


async def test_link_expires_and_is_replaced(scene: Scene, conn: Connection) -> None:
    await scene.set(grant="authorization_code")
    async with scene.open_worker() as worker:
        first = await scene.open_link(worker)
        second = await scene.open_link(worker)
        assert (await finish(worker, first)).detail == NO_SUCH_LINK
        await conn.execute("UPDATE mcp_authorizations SET link_until = clock_timestamp()")
        assert (await finish(worker, second)).detail == NO_SUCH_LINK
        third = await scene.open_link(worker)
        await scene.set(grant="authorization_code")
        assert (await finish(worker, third)).detail == NO_SUCH_LINK
        refused = msgspec.structs.replace(await scene.open_link(worker), code=None)
        assert not (await finish(worker, refused)).ok
        stranger = msgspec.structs.replace(await scene.open_link(worker), issuer="https://other.example")
        assert (await finish(worker, stranger)).detail == ANOTHER
        elsewhere = msgspec.structs.replace(
            await scene.open_link(worker), callback=derive_callback("https://x.example")
        )
        assert (await finish(worker, elsewhere)).detail == ANOTHER
    assert scene.server.issuer.grants == []


async def test_two_workers_that_refresh_at_once_use_a_refresh_token_once(scene: Scene) -> None:
    scene.server.issuer.expires_in = 5
    async with scene.open_worker() as worker, scene.open_worker() as another:
        await scene.authorize(worker)
        scene.server.issuer.expires_in = 3600
        got = await asyncio.gather(
            scene.open_tokens(worker).get_token(), scene.open_tokens(another).get_token()
        )
    assert got[0] == got[1]
    assert scene.server.issuer.grants == ["authorization_code", "refresh_token"]
    assert scene.server.issuer.thefts == 0


async def test_a_rotated_refresh_token_is_the_one_for_the_next_time(scene: Scene) -> None:
    scene.server.issuer.expires_in = 5
    async with scene.open_worker() as worker, scene.open_worker() as another:
        await scene.authorize(worker)
        first = await scene.open_tokens(worker).get_token()
        second = await scene.open_tokens(another).get_token()
    assert first != second
    assert scene.server.issuer.grants == ["authorization_code", "refresh_token", "refresh_token"]
    assert scene.server.issuer.thefts == 0


async def test_a_token_that_the_server_refuses_is_refreshed(scene: Scene) -> None:
    async with scene.open_worker() as worker:
        await scene.authorize(worker)
        tokens = scene.open_tokens(worker)
        refused = await tokens.get_token()
        instead = await tokens.refresh(refused)
        assert instead not in (refused, None)
        assert await tokens.refresh(str(instead)) is None, "not at each refusal: it is of no use"
    assert scene.server.issuer.grants == ["authorization_code", "refresh_token"]


async def test_rejected_token_is_refreshed_and_request_resent(scene: Scene) -> None:
    issuer = scene.server.issuer
    async with scene.open_worker() as worker:
        await scene.authorize(worker)
        async with scene.open_server(worker) as server:
            assert not (await call(server, "whoami")).is_error
            issuer.access.clear()
            assert not (await call(server, "whoami")).is_error
            assert scene.server.seen[-1] in issuer.access
            issuer.access.clear()
            with pytest.raises(ToolFailed) as failed:
                await call(server, "whoami")
            assert failed.value.fault.kind == "credentials", "not a token for each refusal"
    assert issuer.grants == ["authorization_code", "refresh_token"]


async def test_revoked_refresh_token_needs_a_new_link(scene: Scene) -> None:
    scene.server.issuer.expires_in = 5
    async with scene.open_worker() as worker:
        await scene.authorize(worker)
        scene.server.issuer.refresh.clear()
        for _ in range(2):
            with pytest.raises(ToolFailed) as failed:
                await scene.open_tokens(worker).get_token()
            assert failed.value.fault.kind == "authorization"
        shown = await scene.get_authorization()
        assert shown.status == "needs_authorization"
        assert shown.detail == "the authorization server refused the request: invalid_grant"
        scene.server.issuer.expires_in = 3600
        assert (await finish(worker, await scene.open_link(worker))).ok
        assert await scene.open_tokens(worker).get_token() in scene.server.issuer.access


@pytest.mark.slow
async def test_killed_refresh_leaves_lock_and_token_to_next_runner(
    scene: Scene, fresh_nats_url: str, migrated_database_url: str
) -> None:
    issuer = scene.server.issuer
    issuer.expires_in = 5
    async with scene.open_worker() as worker:
        await scene.authorize(worker)
    issuer.may_answer.clear()
    issuer.asked.clear()
    env = make_environ(fresh_nats_url, migrated_database_url, [f"127.0.0.1:{scene.server.port}"])
    async with Bus.connect(fresh_nats_url, name="test") as bus:
        async with start_runner(env) as first:
            doomed = asyncio.create_task(Calls(bus).finish(scene.agent.call("whoami", "shop")))
            async with asyncio.timeout(SECONDS):
                await issuer.asked.wait()
            first.signal(signal.SIGKILL)
            await first.wait_for_end()
            doomed.cancel()
        issuer.loses_answers = True
        issuer.may_answer.set()
        async with start_runner(env):
            issuer.loses_answers = False
            issuer.expires_in = 3600
            finished = await Calls(bus).finish(scene.agent.call("whoami", "shop"))
    assert not finished.is_error, finished.output
    assert issuer.thefts == 0


async def test_metadata_lead_to_no_private_address(scene: Scene, connections: Connections) -> None:
    await scene.set(grant="authorization_code")
    trap = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = trap.sockets[0].getsockname()[1]
    async with trap, scene.open_worker() as worker:
        for address in ("https://169.254.169.254", f"http://127.0.0.1:{port}", "https://[::ffff:127.0.0.1]"):
            scene.server.resource_metadata = {
                "resource": scene.server.url,
                "authorization_servers": [address],
            }
            link = await scene.link(worker)
            assert not link.url
            assert link.detail
    reached = {address[1] for address in connections.tried if len(address) > 1 and address[0] == "127.0.0.1"}
    assert port not in reached
    assert not any(address[0].startswith("169.254") for address in connections.tried if address)


async def test_another_server_than_the_configured_issuer_gets_no_secret(scene: Scene) -> None:
    async with (
        run_protected() as other,
        scene.open_worker(f"127.0.0.1:{scene.server.port}", f"127.0.0.1:{other.port}") as worker,
    ):
        await scene.set_credentials()
        scene.server.resource_metadata = {
            "resource": scene.server.url,
            "authorization_servers": [other.origin],
        }
        with pytest.raises(ToolFailed, match="another issuer"):
            await scene.open_tokens(worker).get_token()
    assert other.issuer.grants == []


@pytest.mark.parametrize("field", ["access_token", "refresh_token"])
async def test_a_token_that_no_request_can_carry_is_refused(scene: Scene, field: str) -> None:
    scene.server.answers["/token"] = JSONResponse({"access_token": "a", field: "line\nbreak"})
    await scene.set_credentials()
    async with scene.open_worker() as worker:
        with pytest.raises(ToolFailed, match="holds no token"):
            await scene.open_tokens(worker).get_token()


async def test_a_lifetime_too_long_to_store_is_cut(scene: Scene) -> None:
    scene.server.answers["/token"] = JSONResponse({"access_token": "a", "expires_in": 10**30})
    await scene.set_credentials()
    async with scene.open_worker() as worker:
        assert await scene.open_tokens(worker).get_token() == "a"
    assert (await scene.get_authorization()).expires_at is not None


@pytest.mark.parametrize("field", ["token_endpoint", "registration_endpoint"])
async def test_an_address_that_no_request_can_have_is_refused_in_words(scene: Scene, field: str) -> None:
    origin = scene.server.origin
    endpoints = {
        f"{name}_endpoint": f"{origin}/{name}" for name in ("authorization", "token", "registration")
    }
    endpoints |= {"registration_endpoint": f"{origin}/register", field: origin + "/x" * 35_000}
    metadata = {"issuer": origin, "response_types_supported": ["code"], **endpoints}
    scene.server.answers["/.well-known/oauth-authorization-server"] = JSONResponse(metadata)
    await scene.set(grant="authorization_code")
    async with scene.open_worker() as worker:
        detail = (link := await scene.link(worker)).detail
        if field == "token_endpoint":
            state = parse_qs(urlsplit(link.url).query)["state"][0]
            asked = FinishAuthorization(state=state, code="x", callback=derive_callback(origin))
            detail = (await finish(worker, asked)).detail
        assert detail == "the metadata contain an invalid address"


async def test_a_refused_registration_is_reported_in_any_encoding(scene: Scene) -> None:
    headers = {"content-type": "text/plain; charset=base64"}
    scene.server.answers["/register"] = Response(b"\xff\x00no", status_code=400, headers=headers)
    await scene.set(grant="authorization_code")
    async with scene.open_worker() as worker:
        assert (await scene.link(worker)).detail == "the authorization server did not register the client"


async def test_an_authorisation_is_for_the_address_that_it_was_set_for(scene: Scene) -> None:
    await scene.set_credentials()
    async with scene.open_worker() as worker:
        elsewhere = worker.open_tokens(scene.place, f"{scene.server.origin}/other")
        with pytest.raises(ToolFailed, match="at this address"):
            await elsewhere.get_token()
    assert scene.server.issuer.grants == []


@pytest.mark.parametrize(
    "scope",
    ['orders "all"', "orders\\all", "orders  all", " orders", "orders ", "größe", "a\n", "", "x" * 1025],
)
def test_a_scope_is_tokens_with_a_space_between_two(scope: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.scope"):
        msgspec.convert({"grant": "authorization_code", "scope": scope}, AuthorizationBody)


async def test_an_invalid_scope_of_metadata_goes_into_no_link(scene: Scene) -> None:
    scene.server.resource_metadata = {
        "resource": scene.server.url,
        "authorization_servers": [scene.server.origin],
        "scopes_supported": ['orders "all"'],
    }
    await scene.set(grant="authorization_code")
    async with scene.open_worker() as worker:
        assert "the scope in the metadata is invalid" in (await scene.link(worker)).detail
    assert scene.server.issuer.clients == {}


async def test_settings_that_cannot_work_are_refused(scene: Scene) -> None:
    with pytest.raises(Invalid, match="client_secret"):
        await scene.set(grant="client_credentials", issuer="https://auth.example", client_id="c")
    with pytest.raises(Invalid, match="issuer"):
        await scene.set(grant="authorization_code", client_id="c")
    with pytest.raises(Invalid, match="issuer"):
        await scene.set(grant="authorization_code", issuer="file:///etc/passwd", client_id="c")


async def test_an_authorisation_goes_with_its_server(scene: Scene) -> None:
    await scene.set_credentials()
    await admin_mcp_servers.remove(scene.admin, scene.agent.agent_id, "shop")
    with pytest.raises(NotFound):
        await scene.get_authorization()
    async with scene.open_worker() as worker:
        with pytest.raises(ToolFailed, match="not authorised at this address"):
            await scene.open_tokens(worker).get_token()
