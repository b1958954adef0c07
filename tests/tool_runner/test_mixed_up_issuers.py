"""RFC 9700 4.4: an authorization server of an attacker, which leads a person to an honest one for its code.

The honest server, the SDK's, does not say in its answers who has answered (RFC 9207).
"""

from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from starlette.responses import JSONResponse, RedirectResponse

from agentchat.contracts.authorizations import derive_callback
from agentchat.directory.agent_config import McpServer
from agentchat.runtime.postgres import Pool
from tests.tool_runner.authorization_scene import ANOTHER, CALLBACK, Scene, finish, follow_link
from tests.tool_runner.authorization_server import CLIENT, Protected, run_protected
from tests.tool_runner.runner import make_agent


class Attack:
    """The agent's tool server is the attacker's; the honest one has a client that was registered by hand."""

    def __init__(self, scene: Scene, honest: Protected) -> None:
        self.scene = scene
        self.attacker = scene.server
        self.honest = honest
        self.allow = [f"127.0.0.1:{each.port}" for each in (self.attacker, honest)]
        honest.register(f"{CALLBACK}/{derive_callback(honest.origin)}")
        self.attacker.answers["/token"] = JSONResponse({"error": "invalid_grant"}, status_code=400)
        self.attacker.answers["/register"] = JSONResponse(
            {"client_id": CLIENT, "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"},
            status_code=201,
        )

    def set_metadata(self, authorization_endpoint: str, **more: object) -> None:
        origin = self.attacker.origin
        named = {
            "issuer": origin,
            "authorization_endpoint": authorization_endpoint,
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "response_types_supported": ["code"],
        }
        self.attacker.answers["/.well-known/oauth-authorization-server"] = JSONResponse(named | more)

    @property
    def codes(self) -> list[str]:
        """Return the codes that reached the attacker, with their verifiers."""
        return [each for each in self.attacker.forms if "code=" in each]


@pytest.fixture
async def attack(migrated_database_url: str, pool: Pool) -> AsyncIterator[Attack]:
    async with run_protected() as attacker, run_protected() as honest:
        agent = await make_agent(migrated_database_url, McpServer(name="shop", url=attacker.url))
        yield Attack(Scene(attacker, agent, pool, migrated_database_url), honest)


async def test_anothers_authorization_endpoint_is_not_linked_to(attack: Attack) -> None:
    attack.set_metadata(f"{attack.honest.origin}/authorize")
    await attack.scene.set(grant="authorization_code")
    async with attack.scene.open_worker(*attack.allow) as worker:
        link = await attack.scene.link(worker)
    assert link.url == ""
    assert "has another origin than the issuer" in link.detail


async def test_foreign_endpoint_needs_response_with_issuer(attack: Attack) -> None:
    attack.set_metadata(
        f"{attack.honest.origin}/authorize", authorization_response_iss_parameter_supported=True
    )
    own = f"{CALLBACK}/{derive_callback(attack.attacker.origin)}"
    attack.honest.register(own)  # as one may who registers clients there
    await attack.scene.set(grant="authorization_code")
    async with attack.scene.open_worker(*attack.allow) as worker:
        answer = await attack.scene.open_link(worker)
        assert answer.code is not None
        assert (await finish(worker, answer)).detail == ANOTHER
    assert attack.codes == []


@pytest.mark.parametrize("redirect", ["own", "honest"])
async def test_a_code_of_another_issuer_does_not_reach_this_one(attack: Attack, redirect: str) -> None:
    """The attacker's authorization endpoint leads on to the honest one, whose client it names."""
    origin, honest = attack.attacker.origin, attack.honest.origin
    attack.set_metadata(f"{origin}/authorize")
    await attack.scene.set(grant="authorization_code")
    async with attack.scene.open_worker(*attack.allow) as worker:
        link = await attack.scene.link(worker)
        asked = dict(parse_qsl(urlsplit(link.url).query))
        assert asked["redirect_uri"] == f"{CALLBACK}/{derive_callback(origin)}"
        asked["redirect_uri"] = {
            "own": asked["redirect_uri"],
            "honest": f"{CALLBACK}/{derive_callback(honest)}",
        }[redirect]
        del asked["resource"]
        attack.attacker.answers["/authorize"] = RedirectResponse(f"{honest}/authorize?{urlencode(asked)}")
        if redirect == "own":
            with pytest.raises(KeyError, match="location"):  # the honest server does not know it
                await follow_link(link.url)
        else:
            answer = await follow_link(link.url)
            assert answer.code is not None
            assert (await finish(worker, answer)).detail == ANOTHER
    assert attack.codes == []


async def test_endpoint_of_other_origin_is_used_if_issuer_is_named(
    attack: Attack,
) -> None:
    """The two are one and the same's: a server whose pages are at another host."""
    server, pages = attack.attacker, attack.honest
    attack.set_metadata(f"{pages.origin}/login", authorization_response_iss_parameter_supported=True)
    server.answers["/token"] = JSONResponse({"access_token": "of-the-code"})
    await attack.scene.set(grant="authorization_code")
    async with attack.scene.open_worker(*attack.allow) as worker:
        link = await attack.scene.link(worker)
        asked = dict(parse_qsl(urlsplit(link.url).query))
        back = {"state": asked["state"], "code": "c", "iss": server.origin}
        pages.answers["/login"] = RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")
        assert (await finish(worker, await follow_link(link.url))).ok
        assert await attack.scene.open_tokens(worker).get_token() == "of-the-code"


def test_an_issuer_is_the_same_with_and_without_the_slash_of_its_root() -> None:
    assert derive_callback("https://auth.example") == derive_callback("https://auth.example/")
    others = {"https://auth.example/a", "https://auth.example/a/", "https://auth.example:8443"}
    assert len({derive_callback(each) for each in others | {"https://auth.example"}}) == 4
