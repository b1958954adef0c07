"""Where authorization servers send browsers back to, with a tool-runner that the test plays."""

from contextlib import AbstractAsyncContextManager

import httpx

from agentchat.contracts import subjects
from agentchat.contracts.authorizations import AuthorizationFinished, FinishAuthorization, derive_callback
from agentchat.gateway.access.wrong_key_limit import WRONG_AT_ONCE
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import StartGateway
from tests.gateway.worker import Worker

STATE = "s" * 43
OWN = f"/v1/oauth/callback/{derive_callback('https://auth.example')}"


def answer_with(
    worker: Worker, answer: AuthorizationFinished
) -> AbstractAsyncContextManager[list[FinishAuthorization]]:
    """Whatever comes back is answered so; gives what comes."""
    return worker.answer_requests(subjects.TOOLS_AUTHORIZED, FinishAuthorization, answer)


async def test_what_comes_back_is_handed_on_and_the_browser_is_told(client: Client, worker: Worker) -> None:
    async with answer_with(worker, AuthorizationFinished(ok=True)) as heard:
        answer = await client.http.get(
            f"{client.url}{OWN}?code=c%2Fd&state={STATE}&iss=https%3A%2F%2Fauth.example&x=y"
        )
        assert answer.status_code == 200
        assert answer.text == "The agent is authorised at its tool server. This window can be closed.\n"
        assert answer.headers["referrer-policy"] == "no-referrer"
        for other in ("/v1/oauth/callback", "/v1/oauth/callback/x", f"{OWN}x", OWN[:-1] + "."):
            path = f"{client.url}{other}?code=c&state={STATE}"
            check_problem(await client.http.get(path), 404, "not_found")
    issuer = "https://auth.example"
    assert heard == [
        FinishAuthorization(state=STATE, code="c/d", issuer=issuer, callback=derive_callback(issuer))
    ]


async def test_a_failed_authorization_gives_its_reason(client: Client, worker: Worker) -> None:
    async with answer_with(worker, AuthorizationFinished(ok=False, detail="the link is over")) as heard:
        answer = await client.http.get(f"{client.url}{OWN}?error=access_denied&state={STATE}")
    assert "the link is over" in check_problem(answer, 404, "not_found")["detail"]
    assert heard == [FinishAuthorization(state=STATE, callback=derive_callback("https://auth.example"))]


async def test_an_invalid_state_is_refused_at_the_gateway(client: Client, worker: Worker) -> None:
    async with answer_with(worker, AuthorizationFinished(ok=True)) as heard:
        for query in (
            "",
            "state=",
            f"state={STATE}!",
            f"state={STATE}&code={'c' * 5000}",
        ):
            answer = await client.http.get(f"{client.url}{OWN}?{query}")
            check_problem(answer, 400, "invalid_request")
    assert heard == []


async def test_an_address_that_guesses_states_is_asked_to_wait(
    start_gateway: StartGateway, worker: Worker
) -> None:
    process = await start_gateway({"access.wrong_key_limit.SECONDS_EACH": 3600.0})
    async with (
        answer_with(worker, AuthorizationFinished(ok=False, detail="there is no such link")) as heard,
        httpx.AsyncClient(base_url=process.url) as browser,
    ):
        for number in range(WRONG_AT_ONCE + 1):
            answer = await browser.get(f"{OWN}?state={number:043d}")
            assert answer.status_code == 404
        check_problem(await browser.get(f"{OWN}?state={STATE}"), 429, "rate_limited")
    assert len(heard) == WRONG_AT_ONCE + 1
