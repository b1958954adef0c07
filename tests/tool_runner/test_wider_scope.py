"""403 with `insufficient_scope` of a tool server: a wider authorisation, by a link or at once."""

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from bus import Bus
from directory.agents import McpServer
from runtime.postgres import Pool
from tests.tool_runner.authorization_server import CLIENT, SECRET, protected
from tests.tool_runner.conftest import call
from tests.tool_runner.runner import Calls, environ, make_agent, running
from tests.tool_runner.test_authorization import Scene, finish
from tool_runner.authorization.scopes import beyond, together, wanted_scope
from tool_runner.faults import ToolFailed
from tool_runner.servers.pool import ToolServer

CALL, LISTING, OPENING = b'"tools/call"', b'"tools/list"', b'"server/discover"'
WORDS = "The tool server wants a wider scope than this agent has: an administrator has to authorise it."


@pytest.fixture
async def scene(migrated_database_url: str, pool: Pool) -> AsyncIterator[Scene]:
    async with protected() as server:
        agent = await make_agent(migrated_database_url, McpServer(name="shop", url=server.url))
        yield Scene(server, agent, pool, migrated_database_url)


async def refused(server: ToolServer) -> str:
    with pytest.raises(ToolFailed) as failed:
        await call(server, "whoami")
    assert failed.value.fault.kind == "scope"
    return failed.value.fault.words


async def set_credentials(scene: Scene) -> None:
    await scene.set(
        grant="client_credentials",
        issuer=scene.server.origin,
        client_id=CLIENT,
        client_secret=SECRET,
        scope="read",
    )


@pytest.mark.parametrize("part", [CALL, LISTING, OPENING])
async def test_the_next_link_asks_for_the_old_and_the_new_scope(scene: Scene, part: bytes) -> None:
    async with scene.worker() as worker:
        await scene.authorize(worker)
        scene.server.wants[part] = "files:write"
        async with scene.used(worker) as server:
            assert await refused(server) == WORDS
        shown = await scene.shown()
        assert shown.status == "needs_authorization"
        assert shown.detail == "the tool server wants the scope files:write"
        assert shown.expires_at is not None, "what needs no wider scope goes on"
        scene.server.wants[part] = "files:write mail"
        async with scene.used(worker) as server:
            assert await refused(server) == WORDS
        link = await scene.link(worker)
        (asked,) = parse_qs(urlsplit(link.url).query)["scope"]
        assert set(asked.split()) == {"files:write", "mail"}
        assert (await finish(worker, await scene.opened(worker))).ok
        assert ((await scene.shown()).status, (await scene.shown()).detail) == ("authorized", "")
        async with scene.used(worker, "2") as server:
            assert not (await call(server, "whoami")).is_error
    assert scene.server.issuer.grants == ["authorization_code", "authorization_code"]


async def test_model_and_check_are_told_of_the_scope_that_is_missing(
    scene: Scene, fresh_nats_url: str, migrated_database_url: str
) -> None:
    async with scene.worker() as worker:
        await scene.authorize(worker)
    scene.server.wants[LISTING] = "write"
    env = environ(fresh_nats_url, migrated_database_url, [f"127.0.0.1:{scene.server.port}"])
    async with running(env), Bus.connect(fresh_nats_url, name="test") as bus:
        calls = Calls(bus)
        finished = await calls.finish(scene.agent.call("whoami", "shop"))  # first: a queue waits for a worker
        (found,) = await calls.checked(scene.agent)
    assert found.detail == "Needs authorisation: the tool server wants the scope write."
    assert finished.is_error
    assert WORDS in finished.output


async def test_a_refresh_does_not_make_up_for_a_missing_scope(scene: Scene) -> None:
    async with scene.worker() as worker:
        await scene.authorize(worker)
        scene.server.wants[CALL] = "write"
        async with scene.used(worker) as server:
            await refused(server)
        tokens = scene.tokens(worker)
        assert await tokens.instead_of(await tokens.current()) is not None
        shown = await scene.shown()
        assert (shown.status, shown.detail) == (
            "needs_authorization",
            "the tool server wants the scope write",
        )
        (asked,) = parse_qs(urlsplit((await scene.link(worker)).url).query)["scope"]
        assert asked == "write"
    assert scene.server.issuer.grants == ["authorization_code", "refresh_token"]


async def test_a_client_gets_the_wider_scope_at_once(scene: Scene) -> None:
    await set_credentials(scene)
    scene.server.wants[CALL] = "write"
    async with scene.worker() as worker, scene.used(worker) as server:
        for _ in range(2):
            assert not (await call(server, "whoami")).is_error
        assert scene.server.issuer.asked_for == ["read", "read write"]
        assert (await scene.shown()).status == "authorized"
        scene.server.issuer.access.clear()
        scene.server.issuer.expires_in = 5
        another = scene.tokens(worker)
        assert await another.instead_of(await another.current()) is not None
    assert scene.server.issuer.asked_for == ["read", "read write", "read write"]


async def test_a_client_that_may_not_have_the_scope_keeps_what_it_has(scene: Scene) -> None:
    await set_credentials(scene)
    scene.server.issuer.may_grant = {"read"}
    scene.server.wants[CALL] = "write"
    async with scene.worker() as worker, scene.used(worker) as server:
        for _ in range(2):
            assert await refused(server) == WORDS
        assert scene.server.issuer.asked_for == ["read", "read write"], "not at each call"
        shown = await scene.shown()
        assert shown.status == "needs_authorization"
        assert shown.detail == (
            "the tool server wants the scope write, and the authorization server refused it: invalid_scope"
        )
        scene.server.wants.clear()
        assert not (await call(server, "whoami")).is_error


async def test_a_server_that_is_never_content_gets_one_more_token(scene: Scene) -> None:
    await set_credentials(scene)
    scene.server.wants[CALL] = "write"
    scene.server.issuer.may_grant = {"read", "write"}
    async with scene.worker() as worker, scene.used(worker) as server:
        await server.tools()
        issue = scene.server.issuer.issue

        def less(client_id: str, *, refreshable: bool, scopes: object = ()) -> object:
            return issue(client_id, refreshable=refreshable)

        scene.server.issuer.issue = less  # type: ignore[method-assign, assignment]
        for _ in range(2):
            await refused(server)
        assert scene.server.issuer.asked_for == ["read", "read write"]
        assert (await scene.shown()).status == "needs_authorization"


@pytest.mark.parametrize(
    ("challenge", "wanted"),
    [
        ('Bearer error="insufficient_scope", scope="a b:c"', "a b:c"),
        ("Bearer scope=a, error=insufficient_scope", "a"),
        ('Bearer error="insufficient_scope"', None),
        ('Bearer error="invalid_token", scope="a"', None),
        ('Bearer error="insufficient_scope", scope="a  b"', None),
        ('Bearer error="insufficient_scope", scope="a\\b"', None),
        ('Bearer error="insufficient_scope", scope="ä"', None),
        ('Bearer error="insufficient_scope", scope="a\tb"', None),
        ('Bearer error="insufficient_scope", scope="x-the-token"', None),
        (f'Bearer error="insufficient_scope", scope="{"a" * 1025}"', None),
        (f'Bearer error="insufficient_scope", scope="a", x="{"a" * 5000}"', None),
    ],
)
def test_a_scope_is_what_rfc_6749_says(challenge: str, wanted: str | None) -> None:
    assert (
        wanted_scope(403, httpx2.Headers({b"www-authenticate": challenge.encode()}), ["the-token"]) == wanted
    )


def test_scopes_are_put_together_within_bounds() -> None:
    assert together(None, "a b", 'no "scope"', "b c") == "a b c"
    assert together("a" * 1024, "b" * 1024) is None
    assert beyond("a b", "b c") == "c"
    assert beyond("a", "a") == "a"
