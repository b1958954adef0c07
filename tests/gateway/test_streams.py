"""Streams in both forms: exactly the specification's events, in order."""

import httpx

from agentchat.contracts import errors
from tests.gateway.client import Client, check_problem, is_accepted
from tests.gateway.conftest import Accounts, StartGateway
from tests.gateway.worker import Worker


async def test_form_1_ends_after_a_tool_without_a_read_of_the_log(client: Client, worker: Worker) -> None:
    """Nothing of the run is in the log here, so an end that waited for it would not come."""
    async with is_accepted(client, worker, form=1) as (turn, events):
        await turn.tool("find", "{}")
        await turn.delta("ok")
        await turn.complete(tool_calls=1)
        assert [event["type"] for event in await events.rest()] == ["meta", "delta", "done"]


async def test_the_deployment_chooses_the_form_that_a_request_does_not(
    http: httpx.AsyncClient, start_gateway: StartGateway, accounts: Accounts, worker: Worker
) -> None:
    process = await start_gateway(AGENTCHAT_STREAM_FORM="2")
    async with is_accepted(accounts.free.at(http, process), worker) as (turn, events):
        assert (await events.next())["type"] == "start"
        await turn.answer_from_here("ok")
        assert (await events.rest())[-1]["type"] == "done"
    starter = accounts.starter.at(http, process)
    check_problem(await starter.post("/v1/chat/stream"), 403, "plan_upgrade_required")
    async with is_accepted(starter, worker, form=1) as (turn, events):
        assert (await events.next())["type"] == "meta"
        await turn.complete("")


async def test_form_2_is_not_for_the_starter_plan(starter: Client, worker: Worker) -> None:
    check_problem(await starter.post("/v1/chat/stream", x_stream_form="2"), 403, "plan_upgrade_required")
    async with is_accepted(starter, worker, form=1) as (turn, events):
        await turn.answer_from_here("ok")
        assert [event["type"] for event in await events.rest()] == ["meta", "delta", "done"]


async def test_a_code_that_is_not_in_the_table_is_not_shown(client: Client, worker: Worker) -> None:
    async with is_accepted(client, worker) as (turn, events):
        await turn.fail("secret_detail", "")
        error = (await events.rest())[-1]
    assert error == {
        "type": "error",
        "code": "internal_error",
        "message": errors.ERRORS["internal_error"].title,
    }
