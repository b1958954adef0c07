"""Lost frames, outages of NATS and Postgres: late, never wrong."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from agentchat.bus.bus import Bus
from agentchat.contracts import events, frames, ids
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log, LogEntry
from agentchat.gateway.runs.follow_frames import FollowedRun, RunKey
from agentchat.gateway.runs.run_from_log import RunReader
from agentchat.gateway.runs.run_request import ViewKind
from agentchat.ops.prepare import migrate
from agentchat.runtime.postgres import Pool, open_pool
from tests.bus.nats_server import NatsServer
from tests.conversations.postgres_server import PostgresServer
from tests.gateway import event_streams, stored
from tests.gateway.client import Client, check_problem, is_accepted
from tests.gateway.conftest import Accounts, StartProcess, make_account
from tests.gateway.worker import Worker


def join_text(seen: list[dict[str, object]]) -> str:
    return "".join(str(event["content"]) for event in seen if event["type"] == "delta")


@pytest.mark.parametrize("completed", [False, True])
async def test_a_run_with_an_unreadable_event_is_followed_to_its_end(
    client: Client, store: ConversationStore, accounts: Accounts, completed: bool
) -> None:
    """Of its text only what is known to be whole."""
    asked = stored.request(accounts.free)
    said, replied, reply, done = stored.has_ended(asked, "It has shipped.", ids.make_id())
    await stored.write(store, asked, said)
    failed = events.RunFailed(
        trace_id=asked.trace_id, at=stored.AT, code="internal_error", message="Unreadable."
    )
    end = mapper.encode_pairs([replied, reply, done] if completed else [failed])
    await store.append_stored(asked.conversation_id, 4, [("unheard_of.v9", b"\xff"), *end])
    seen = [json.loads(data) for _, data in await event_streams.read(client, asked.trace_id)]
    if completed:
        assert [event["type"] for event in seen] == ["meta", "delta", "done"]
        assert join_text(seen) == "It has shipped."
    else:
        assert [(event["type"], event.get("code")) for event in seen] == [
            ("meta", None),
            ("error", "internal_error"),
        ]


@pytest.mark.slow
async def test_a_run_survives_a_restart_of_nats(
    http: httpx.AsyncClient,
    nats_server: NatsServer,
    start_process: StartProcess,
    accounts: Accounts,
    store: ConversationStore,
) -> None:
    process = await start_process(AGENTCHAT_NATS_URL=nats_server.url)
    client = accounts.free.at(http, process)
    async with Bus.connect(nats_server.url, name="test-worker") as bus:
        worker = Worker(bus)
        consuming = asyncio.create_task(worker.run())
        back = asyncio.Event()
        bus.on_reconnect(back.set)
        async with is_accepted(client, worker) as (turn, events_read):
            await stored.write(store, turn.request)
            await turn.delta("He")
            assert [(await events_read.next())["type"] for _ in range(2)] == ["meta", "delta"]
            await nats_server.kill(wipe=True)
            check_problem(await client.chat(), 503, "overloaded")
            assert (await http.get(f"{process.url}/readyz")).status_code == 503
            await turn.delta("ll", lost=True)
            await nats_server.start()
            await back.wait()
            await process.line("nats_reconnected")
            await stored.add(store, turn.request, *stored.has_ended(turn.request, "Hello"))
            await turn.delta("o")
            await turn.complete("Hello")
            seen = await events_read.rest()
        assert join_text(seen) == "llo"
        assert seen[-1]["type"] == "done"
        waiting = asyncio.create_task(client.chat())
        await (await worker.next()).answer("again")
        assert (await waiting).json()["message"]["content"] == "again"
        worker.stop.set()
        await consuming


class HeldLog(Log):
    """A log whose second answer is held until `release` is set: the first is asked for an end alone."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.answered, self.release = asyncio.Event(), asyncio.Event()
        self._reads = 0

    async def read_run_rows(
        self, conversation_id: str, trace_id: str, after_version: int = 0
    ) -> list[LogEntry]:
        rows = await super().read_run_rows(conversation_id, trace_id, after_version)
        self._reads += 1
        if self._reads == 2:
            self.answered.set()
            await self.release.wait()
        return rows


async def test_run_that_starts_during_log_read_is_not_lost(
    fresh_nats_url: str, pool: Pool, accounts: Accounts
) -> None:
    log, asked = HeldLog(pool), stored.request(accounts.free)
    key = RunKey(asked.trace_id, ViewKind(calls_at_end=False), publication=1)
    async with Bus.connect(fresh_nats_url, name="test-gateway") as bus:
        reader = RunReader(log, asked.conversation_id, asked.trace_id)
        run = FollowedRun(bus.traces, reader, key, from_beginning=True)
        await run.follow()
        try:
            await log.answered.wait()
            run.deliver(frames.Accepted(seq=1, attempt=1, conversation_id=asked.conversation_id))
            log.release.set()
            await run.wait_until_caught_up()
            assert (run.view.started, run.view.ended) == (True, False)
        finally:
            await run.close()


@pytest.mark.slow
async def test_postgres_outage_is_503_within_seconds_then_recovers(
    http: httpx.AsyncClient, start_process: StartProcess, worker: Worker, tmp_path: Path
) -> None:
    postgres = PostgresServer(tmp_path)
    await postgres.create()
    await postgres.start()
    await migrate(postgres.url)
    async with open_pool(postgres.url) as pool:
        account = await make_account(pool, "Unlimited")
    process = await start_process(AGENTCHAT_DATABASE_URL=postgres.url)
    client = account.at(http, process)
    loop = asyncio.get_running_loop()
    assert (await client.get("/v1/conversations")).status_code == 200
    postgres.freeze()
    for call in (client.chat(), client.get("/v1/conversations")):
        began = loop.time()
        response = await call
        check_problem(response, 503, "overloaded")
        assert loop.time() - began < 30
        assert int(response.headers["retry-after"]) >= 1
    began = loop.time()
    assert (await http.get(f"{process.url}/healthz")).status_code == 200
    assert loop.time() - began < 15
    assert (await http.get(f"{process.url}/readyz")).json()["checks"]["postgres"] != "ok"
    postgres.thaw()
    began = loop.time()
    while (await client.get("/v1/conversations")).status_code != 200:
        assert loop.time() - began < 40
    waiting = asyncio.create_task(client.chat())
    await (await worker.next()).answer("well")
    assert (await waiting).status_code == 200
    await process.stop()  # before its server
    await postgres.stop()
