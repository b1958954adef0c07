"""Rate limits, slots and the month's tokens, at two gateways that share a Redis of the test's own."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from redis.asyncio import Redis

from agentchat.administration import admin_accounts
from agentchat.administration.admin_values import AccountChanges
from agentchat.contracts import ids
from agentchat.contracts.values import Usage
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.projections import runs_table
from agentchat.directory.api_keys import Caller
from agentchat.gateway.access.reads_and_streams import READS_AT_ONCE, STREAMS_PER_RUN, AccountBounds
from agentchat.runtime.postgres import open_pool
from agentchat.runtime.prices import Price, Prices
from tests.administrator import administrator, plan_with, put_plan
from tests.gateway import stored
from tests.gateway.client import Client, check_problem, is_accepted
from tests.gateway.conftest import Account, StartProcess, make_account
from tests.gateway.embedded import run_embedded_gateway
from tests.gateway.worker import Worker
from tests.limits.conftest import Valkey
from tests.limits.given import move_to
from tests.ports import find_free_port
from tests.support.embedded_service import EmbeddedService
from tests.support.scraped import scrape

RUNS = 7
TOKENS = 1_000_000
BOUND = 15.0  # 0.25 s, and a machine that has other things to do; 59 s as the Redis client comes

WIDE = plan_with(
    "Wide", requests_per_minute=6000, concurrent_runs=RUNS, tokens_per_month=TOKENS, max_message_bytes=100
)
PER_USER = plan_with(
    "PerUser", user_requests_per_minute=2, user_concurrent_runs=1, user_tokens_per_month=TOKENS
)
NARROW = msgspec.structs.replace(WIDE, name="Narrow", form2_streaming=False, requests_per_minute=10)


class Gateways(msgspec.Struct, frozen=True):
    """Two gateways and the Redis that they share."""

    running: tuple[EmbeddedService, EmbeddedService]
    valkey: Valkey
    database_url: str


@pytest.fixture(scope="module")
async def gateways(
    environ: dict[str, str], migrated_database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateways]:
    async with open_pool(migrated_database_url) as pool:
        for plan in (WIDE, NARROW, PER_USER):
            await put_plan(pool, plan)
    valkey = Valkey(tmp_path_factory.mktemp("valkey"))
    await valkey.start()
    settings = environ | {"AGENTCHAT_REDIS_URL": valkey.url}
    async with run_embedded_gateway(settings) as one, run_embedded_gateway(settings) as two:
        yield Gateways((one, two), valkey, migrated_database_url)
    await valkey.kill()


@pytest.fixture
async def redis(gateways: Gateways) -> AsyncIterator["Redis"]:
    async with Redis.from_url(gateways.valkey.url, decode_responses=True) as client:
        yield client


PRICES = Prices(models={"m": Price(input=2, output=0)})


async def create_account(gateways: Gateways, plan: str, **budgets: Any) -> Account:
    async with open_pool(gateways.database_url) as pool:
        account = await make_account(pool, plan)
        await admin_accounts.change(administrator(pool), account.account_id, AccountChanges(**budgets))
        return account


def open_clients(gateways: Gateways, http: httpx.AsyncClient, account: Account) -> list[Client]:
    return [Client(http, gateway.url, account.key, account.agent) for gateway in gateways.running]


async def spend(gateways: Gateways, account: Account, tokens: int, user_id: str | None = None) -> None:
    """A run of the account that ended just now."""
    request = msgspec.structs.replace(stored.request(account), user_id=user_id)
    usage = Usage(input_tokens=tokens)
    end = [
        msgspec.structs.replace(event, at=move_to(), **({"usage": usage} if hasattr(event, "usage") else {}))
        for event in stored.has_ended(request, "Hello", ids.make_id())
    ]
    async with open_store(gateways.database_url) as store:
        await stored.write(store, request, *end)
    async with open_pool(gateways.database_url) as pool:
        await stored.project(pool, runs_table.build_projection(PRICES))


def read_states(response: httpx.Response) -> dict[str, dict[str, int]]:
    """RateLimit by policy: {"minute": {"r": 9, "t": 6}}; every item is checked to be well formed."""
    found: dict[str, dict[str, int]] = {}
    for item in response.headers["ratelimit"].split(", "):
        matched = re.fullmatch(r'"([\w-]+)";r=(\d+)(?:;t=(\d+))?', item)
        assert matched, item
        name, remaining, reset = matched.groups()
        found[name] = {"r": int(remaining)} | ({"t": int(reset)} if reset else {})
    return found


async def test_every_authenticated_response_has_the_limits(
    gateways: Gateways, http: httpx.AsyncClient, worker: Worker
) -> None:
    account = await create_account(gateways, "Narrow")
    client, _ = open_clients(gateways, http, account)
    policy = '"minute";q=10;w=60, "runs";q=7;qu="concurrent-requests", "month";q=1000000;qu="tokens"'

    async def post_chat(path: str, form: int | None = None) -> httpx.Response:
        headers = {} if form is None else {"x_stream_form": str(form)}
        asking = asyncio.create_task(client.post(path, content=b'{"message":"told"}', **headers))
        await (await worker.next("told")).answer()
        return await asking

    responses = [
        await post_chat("/v1/chat"),
        await post_chat("/v1/chat/stream", 1),
        await client.post(x_agent_id="x"),
        await client.post(x_agent_id=ids.make_id()),
        await client.post(content_type="text/plain"),
        await client.post(content=b"{}"),
        await client.post(content=json.dumps({"message": "x" * 101}).encode()),
        await client.post(content=b'{"message":"hi","conversation_id":"x"}'),
        await client.post("/v1/chat/stream", x_stream_form="2"),
        await client.post("/v1/chat/stream", x_stream_form="3"),
        await client.post(),
    ]
    assert [response.status_code for response in responses] == [
        *(200, 200, 404, 404, 415, 400, 413, 404, 403, 400, 429)
    ]
    for response in responses:
        assert response.headers["ratelimit-policy"] == policy
    # The worker of this test frees no slot of its two runs; each request but the last has one of its own.
    assert [read_states(response)["runs"]["r"] for response in responses] == [6, 5, *[4] * 8, 5]
    assert [read_states(response)["minute"]["r"] for response in responses] == [*range(9, -1, -1), 0]
    assert all(1 <= read_states(response)["minute"]["t"] <= 60 for response in responses)
    month = read_states(responses[-1])["month"]
    assert month["r"] == TOKENS
    assert 1 <= month["t"] <= 31 * 86400
    assert 1 <= int(responses[-1].headers["retry-after"]) <= 6
    for bare in (await client.post(x_api_key="sk-ac-x"), await client.get("/v1/conversations")):
        assert not {"ratelimit", "ratelimit-policy"} & bare.headers.keys()


@pytest.mark.parametrize(
    ("plan", "user", "code", "state"),
    [("Wide", None, "quota_exceeded", "month"), ("PerUser", "ada", "user_quota_exceeded", "user-month")],
)
async def test_a_spent_month_is_refused_until_the_next(
    gateways: Gateways, http: httpx.AsyncClient, plan: str, user: str | None, code: str, state: str
) -> None:
    account = await create_account(gateways, plan)
    client, _ = open_clients(gateways, http, account)
    await spend(gateways, account, TOKENS, user_id=user)
    refused = await client.post(x_user_id=user)
    check_problem(refused, 429, code)
    month = read_states(refused)[state]
    assert (month["r"], month["t"]) == (0, int(refused.headers["retry-after"]))
    if user is None:
        assert read_states(await client.chat("again"))["runs"]["r"] == RUNS - 1, "it keeps no place"
    else:
        check_problem(await client.post(x_agent_id="unknown", x_user_id="bob"), 404, "agent_not_found")


async def test_a_users_limits_hold_for_that_user_alone(gateways: Gateways, http: httpx.AsyncClient) -> None:
    account = await create_account(gateways, "PerUser")
    client, other = open_clients(gateways, http, account)
    for remaining, at in ((1, client), (0, other)):
        told = await at.post(x_agent_id="unknown", x_user_id="ada")
        check_problem(told, 404, "agent_not_found")
        states = read_states(told)
        assert (states["user-minute"]["r"], states["user-runs"]["r"]) == (remaining, 0)
        assert states["user-month"]["r"] == TOKENS
    refused = await client.post(x_user_id="ada")
    check_problem(refused, 429, "user_rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    check_problem(await client.post(x_agent_id="unknown", x_user_id="bob"), 404, "agent_not_found")
    assert "ratelimit" not in (await client.post(x_agent_id="unknown")).headers, "no user, no limit"


async def test_a_spent_budget_is_refused_until_the_next_month(
    gateways: Gateways, http: httpx.AsyncClient
) -> None:
    account = await create_account(gateways, "Enterprise", monthly_budget=0.3, user_monthly_budget=0.1)
    client, _ = open_clients(gateways, http, account)
    await spend(gateways, account, 50_000, user_id="ada")
    refused = await client.post(x_user_id="ada")
    check_problem(refused, 429, "user_budget_exceeded")
    assert 1 <= int(refused.headers["retry-after"]) <= 31 * 86400
    check_problem(await client.post(x_agent_id="unknown", x_user_id="bob"), 404, "agent_not_found")
    other = await create_account(gateways, "Enterprise", monthly_budget=0.3)
    client, not_cached = open_clients(gateways, http, other)
    await spend(gateways, other, 149_999)
    check_problem(await client.post(x_agent_id="unknown"), 404, "agent_not_found")
    await spend(gateways, other, 1)
    check_problem(await not_cached.post(), 429, "budget_exceeded")


async def test_a_repeat_tells_every_number_and_takes_no_run(
    gateways: Gateways, http: httpx.AsyncClient, worker: Worker
) -> None:
    account = await create_account(gateways, "Wide")
    client, other = open_clients(gateways, http, account)
    key = ids.make_id()
    asking = asyncio.create_task(client.post(content=b'{"message":"again"}', idempotency_key=key))
    turn = await worker.next("again")
    repeating = asyncio.create_task(other.post(content=b'{"message":"again"}', idempotency_key=key))
    await turn.answer()
    first, repeat = await asking, await repeating
    assert repeat.headers["x-trace-id"] == first.headers["x-trace-id"]
    assert repeat.headers["ratelimit-policy"] == first.headers["ratelimit-policy"]
    assert read_states(repeat).keys() == {"minute", "runs", "month"}
    assert read_states(repeat)["runs"] == read_states(first)["runs"] == {"r": RUNS - 1}
    assert read_states(repeat)["month"]["r"] == TOKENS


async def test_reads_and_writes_have_rate_limits_of_their_own(
    gateways: Gateways, http: httpx.AsyncClient, redis: "Redis"
) -> None:
    account = await create_account(gateways, "Narrow")
    client, _ = open_clients(gateways, http, account)
    trace, conversation = ids.make_id().replace("-", ""), ids.make_id()
    calls = [
        ("GET", "/v1/conversations"),
        ("GET", f"/v1/conversations/{conversation}"),
        ("GET", f"/v1/conversations/{conversation}/messages"),
        ("DELETE", f"/v1/conversations/{conversation}"),
        ("POST", f"/v1/chat/{trace}/cancel"),
        ("GET", f"/v1/chat/{trace}/events"),
    ]
    headers = {"X-Api-Key": account.key}
    before = [await http.request(method, client.url + path, headers=headers) for method, path in calls]
    assert [answer.status_code for answer in before] == [200, 404, 404, 503, 404, 404]  # no worker deletes
    used_up = int((time.time() + 60) * 1e6)  # as 600 a minute have it that were all taken at once
    await redis.set(f"limits:{{{account.account_id}}}:reads", used_up)
    for method, path in calls:
        refused = await http.request(method, client.url + path, headers=headers)
        check_problem(refused, 429, "rate_limited")
        assert refused.headers["retry-after"] == "1"
    check_problem(await client.post(content=b"{}"), 400, "invalid_request")
    await redis.delete(f"limits:{{{account.account_id}}}:reads")
    await redis.set(f"limits:{{{account.account_id}}}:writes", used_up)
    thread = f"{client.url}/v1/conversations/{conversation}"
    for method, url in (("PATCH", thread), ("POST", f"{thread}/fork")):
        check_problem(await http.request(method, url, headers=headers, json={}), 429, "rate_limited")


async def test_an_account_reconnects_to_so_many_streams_at_once(
    gateways: Gateways, http: httpx.AsyncClient, worker: Worker
) -> None:
    account = await create_account(gateways, "Wide")
    client, other = open_clients(gateways, http, account)
    async with is_accepted(client, worker, message="read by many") as (turn, _):
        async with open_store(gateways.database_url) as store:
            await stored.write(store, turn.request)
        path, headers = f"/v1/chat/{turn.request.trace_id}/events", {"X-Api-Key": account.key}

        async def read(move_to: Client) -> httpx.Response:
            return await http.send(
                http.build_request("GET", move_to.url + path, headers=headers), stream=True
            )

        streams = await asyncio.gather(*(read(client) for _ in range(STREAMS_PER_RUN * RUNS)))
        assert {stream.status_code for stream in streams} == {200}
        check_problem(await client.get(path), 429, "rate_limited")
        elsewhere = await read(other)
        assert elsewhere.status_code == 200, "each gateway counts its own"
        await turn.answer_from_here("Done.")
        for stream in (*streams, elsewhere):
            await stream.aread()
        assert (await client.get(path)).status_code == 200


async def test_account_has_few_reads_at_once_without_delaying_others() -> None:
    account_bounds = AccountBounds()
    one, other = (Caller(account_id=name, plan=WIDE, key_id="k", now=move_to()) for name in ("one", "other"))
    inside, gate = asyncio.Queue[str](), asyncio.Event()

    async def read(caller: Caller) -> None:
        async with account_bounds.hold_read(caller):
            inside.put_nowait(caller.account_id)
            await gate.wait()

    async with asyncio.TaskGroup() as readers:
        for caller in (*[one] * 10, other):
            readers.create_task(read(caller))
        entered = [await inside.get() for _ in range(READS_AT_ONCE + 1)]
        assert sorted(entered) == ["one"] * READS_AT_ONCE + ["other"]
        assert inside.empty()
        gate.set()
    assert inside.qsize() == 10 - READS_AT_ONCE


@pytest.mark.slow
async def test_what_a_killed_gateway_held_comes_back_by_its_lease(
    gateways: Gateways, http: httpx.AsyncClient, redis: "Redis", start_process: StartProcess
) -> None:
    account = await create_account(gateways, "Wide")
    _, other = open_clients(gateways, http, account)
    killed = await start_process(AGENTCHAT_REDIS_URL=gateways.valkey.url)
    client = account.at(http, killed)
    slots = f"limits:{{{account.account_id}}}:slots"
    half = client.bytes("/v1/chat")[:-2]
    writers = [(await asyncio.open_connection("127.0.0.1", killed.port))[1] for _ in range(RUNS)]
    for writer in writers:
        writer.write(half)
    async with asyncio.timeout(30):
        while await redis.zcard(slots) < RUNS:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
    await killed.stop()
    for writer in writers:
        writer.close()
    check_problem(await other.post(content=b"{}"), 429, "rate_limited")
    held: Any = await redis.zrange(slots, 0, -1, withscores=True)
    assert max(end for _, end in held) / 1000 <= time.time() + 61
    # Their minute passes: the same as their leases having begun a minute earlier.
    await redis.zadd(slots, {trace: end - 61_000 for trace, end in held})
    check_problem(await other.post(content=b"{}"), 400, "invalid_request")


@pytest.mark.slow
async def test_frozen_redis_falls_back_to_local_limits_and_is_counted(
    gateways: Gateways, http: httpx.AsyncClient, start_process: StartProcess
) -> None:
    port = find_free_port()
    own = {"AGENTCHAT_REDIS_URL": gateways.valkey.url, "AGENTCHAT_HEALTH_PORT": str(port)}
    process = await start_process(**own)
    client = (await create_account(gateways, "Narrow")).at(http, process)
    assert (await client.post(content=b"{}")).status_code == 400
    gateways.valkey.freeze()
    took: list[float] = []
    for _ in range(11):
        began = time.monotonic()
        response = await client.post(content=b"{}")
        took.append(time.monotonic() - began)
    gateways.valkey.thaw()
    assert max(took) < BOUND
    check_problem(response, 429, "rate_limited")  # ten here, next to the one that Redis knows of
    await process.line("redis_away")
    await process.line("redis_back")
    local = await scrape(port, "agentchat_limits_decided_locally_total")
    assert local["reason=timeout"] >= 1
    assert local["reason=open"] >= 8
    assert (await scrape(port, "agentchat_limits_refused_total"))["code=rate_limited"] >= 1
