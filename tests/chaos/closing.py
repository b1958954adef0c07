"""The end of a run: all is healed, and what is left is looked at."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import nats
import nats.errors
import nats.js.errors
import psycopg
from redis.asyncio import Redis

from agentchat.contracts import subjects
from agentchat.contracts.timings import ADMIT_LEASE_SECONDS
from agentchat.ops.demo_env import Environment
from tests.chaos.load import Access
from tests.chaos.model_log import provider_key
from tests.chaos.records import Event, Final
from tests.chaos.rig import Rig
from tests.chaos.tail import read_events
from tests.chaos.tool_log import server_key
from tests.system.scanning import files_holding, places_of

QUIET_SECONDS = 30.0
_TRIES = 3
_RENEWED_SECONDS = 4.0
"""Workers renew the slots of their runs every 3 s."""
_ENDED = "('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1')"
_AT_REST = {
    "open runs": "SELECT trace_id FROM conversation_events WHERE topic = 'run_started.v1' "
    "EXCEPT "
    f"SELECT trace_id FROM conversation_events WHERE topic IN {_ENDED}",
    "leases": "SELECT trace_id FROM run_leases WHERE expires_at > now()",
    "waiting": "SELECT trace_id FROM waiting_line WHERE expires_at > now()",
    "behind the log": "SELECT name FROM projection_positions WHERE name <> 'events_feed' AND position < "
    "(SELECT max(notification_id) FROM conversation_events)",
    "behind the log in EVENTS": "SELECT name FROM projection_positions WHERE name = 'events_feed' AND "
    "position < (SELECT max(notification_id) FROM conversation_events)",
    "parked events": "SELECT projection FROM parked_events",
}


async def settle(rig: Rig, final: Final, decide: Callable[[], Awaitable[None]]) -> None:
    """Wait until all is at rest, for so long at most; what is not is in `unsettled`.

    What runs wait for is decided: their clients may have gone.
    """
    try:
        async with asyncio.timeout(QUIET_SECONDS):
            while unsettled := await _list_unsettled(rig.environment):
                final.unsettled = unsettled
                await decide()
                await asyncio.sleep(0.25)
    except TimeoutError:
        return
    final.quiet, final.unsettled = True, await slots_that_stay(rig.environment.redis_url)


async def _list_unsettled(environment: Environment) -> list[str]:
    found: list[str] = []
    async with await psycopg.AsyncConnection.connect(environment.database_url, autocommit=True) as connection:
        for what, query in _AT_REST.items():
            rows = await (await connection.execute(query.encode())).fetchall()
            found += [f"{what}: {len(rows)}, {rows[0][0]}"] if rows else []
    return [*found, *await _list_pending_messages(environment.nats_url)]


async def _list_pending_messages(nats_url: str) -> list[str]:
    client = await nats.connect(nats_url.split(","))
    found = []
    try:
        jetstream = client.jetstream()
        for stream in (subjects.REQUESTS, subjects.TOOLS):
            for info in await jetstream.consumers_info(stream):
                left = (info.num_pending or 0) + (info.num_ack_pending or 0)
                found += [f"{stream}: {left} messages"] if left else []
        dead = await jetstream.stream_info(subjects.DEAD)
        if dead.state.messages:
            found.append(f"{subjects.DEAD}: {dead.state.messages} messages")
    except nats.js.errors.NotFoundError as error:
        found.append(f"NATS: {error}")
    finally:
        await client.close()
    return found


async def slots_that_stay(redis_url: str) -> list[str]:
    """Slots that somebody renews, or that are held for longer than the lease of one that nobody does."""
    redis = Redis.from_url(redis_url, decode_responses=True)
    try:
        before = await _slots(redis)
        await asyncio.sleep(_RENEWED_SECONDS)
        after = await _slots(redis)
        seconds, _ = await redis.time()
    finally:
        await redis.aclose()
    latest = (seconds + ADMIT_LEASE_SECONDS) * 1000
    return [name for name, until in after.items() if until > min(before.get(name, 0.0), latest)]


async def _slots(redis: Any) -> dict[str, float]:
    """Account and trace to the end of its lease, in milliseconds of Unix time."""
    return {
        f"{key} {trace}": float(until)
        async for key in redis.scan_iter(match="limits:*:slots")
        for trace, until in await redis.zrange(key, 0, -1, withscores=True)
    }


async def all_events(rig: Rig) -> list[Event]:
    return await read_events(rig.environment.database_url, rig.clock)


def conversations_of(events: list[Event], access: Mapping[str, Access]) -> dict[str, tuple[str, str]]:
    """Every thread, with the account's name and the agent that it was begun with, but for one that asks."""
    names = {each.account_id: name for name, each in access.items()}
    kinds = {agent: kind for each in access.values() for kind, agent in each.agents.items()}
    owners = {
        e.conversation: names[e.state["account_id"]] for e in events if e.kind == "conversation_started"
    }
    agents = {
        e.conversation: kinds[e.state["agent_id"]] for e in reversed(events) if e.kind == "message_saved"
    }
    agents = {conversation: "short" if kind == "asking" else kind for conversation, kind in agents.items()}
    return {conversation: (owner, agents[conversation]) for conversation, owner in owners.items()}


async def prove_replay(rig: Rig, final: Final, *, rebuilds: int) -> None:
    """Compare the read models with the log: as they are, and built again.

    Each build but the last is killed on its way.
    """
    final.replay["as they were"] = await _replay(rig, "verify")
    for number in range(rebuilds):
        killed = await _replay(rig, "rebuild", kill_after=0.3 + 0.2 * number)
        if not killed:
            final.replay[f"rebuilt, time {number + 1}"] = await _replay(rig, "rebuild")
        final.replay[f"the same, time {number + 1}"] = await _replay(rig, "verify")


async def start_command(
    rig: Rig,
    *arguments: str,
    output: int = asyncio.subprocess.DEVNULL,
    added: Mapping[str, str] | None = None,
) -> asyncio.subprocess.Process:
    """Start `agentchat` with these arguments on the rig's stack. `added` is added to its environment."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentchat.ops.main", *arguments),
        env=os.environ
        | {
            "AGENTCHAT_DATABASE_URL": rig.environment.database_url,
            "AGENTCHAT_RUN_DIR": str(rig.folder.path),
            **(added or {}),
        },
        stdout=output,
        stderr=output,
    )


async def _replay(rig: Rig, command: str, kill_after: float | None = None) -> bool:
    child = await start_command(rig, "replay", command)
    try:
        async with asyncio.timeout(kill_after or 120):
            return await child.wait() == 0
    except TimeoutError:
        child.kill()
        await child.wait()
        return False


async def _search_words(rig: Rig, words: list[str]) -> dict[str, list[str]] | None:
    """Where each word stands; None where a stream could not be read to its end in some tries."""
    for _ in range(_TRIES):
        with contextlib.suppress(nats.errors.TimeoutError):
            return await places_of(rig, words)
    return None


async def search(rig: Rig, final: Final) -> None:
    """Look for the secrets of this run in all that it has kept, and for messages in its logs."""
    secrets = [each.api_key for each in rig.access.values()]
    secrets += [make(name) for make in (provider_key, server_key) for name in rig.access]
    secrets.append(rig.environment.admin_token)
    places = await _search_words(rig, secrets)
    if places is None:
        return
    final.leaks = [f"a secret in {place}" for found in places.values() for place in found]
    final.leaks += [f"a message in {path}" for path in files_holding(rig.folder.logs, ["[[u:"])]
    final.searched = len(secrets) + 1
