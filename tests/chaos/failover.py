"""`make failover`: Postgres and NATS fail over under load.

Postgres, by `--way`:
    synchronous: the primary is killed and the standby promoted; a planned switchover; a restart of one server
        after the other. Nothing may be lost.
    asynchronous: the log is held back from the standby for a moment, then the primary is killed, and
        `agentchat repair` is run. It must list what was lost, and nothing else may be lost.
    none: the primary is killed, and starts again on its own disk. Nothing may be lost.
NATS, by `--way nats`: the leader of each stream and of the cluster is killed in turn. Nothing may be lost.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import nats

from agentchat.bus.nats_users import PROVISIONER
from agentchat.bus.stream_settings import NAMES
from agentchat.contracts import subjects
from agentchat.ops import connections, folder_secrets
from agentchat.ops.connections import DATABASE_URL
from agentchat.ops.errors import StackError
from agentchat.ops.servers import nats as nats_server
from agentchat.ops.servers.postgres_server import OWNER
from tests.chaos import closing
from tests.chaos.nats_nodes import META, NODES, are_whole, leaders
from tests.chaos.plan import MIX
from tests.chaos.postgres_pair import SECOND, PostgresPair
from tests.chaos.processes import Kept
from tests.chaos.recording import on_a_stack, record_history
from tests.chaos.records import Fault, History, ModelCall, ToolRun
from tests.chaos.report import Outcome, outcome_of
from tests.chaos.rig import Rig
from tests.chaos.talking import run_clients

POSTGRES_WAYS = ("synchronous", "asynchronous", "none")
WAYS = (*POSTGRES_WAYS, "nats")
_EITHER = f'ANY 1 ("postgres", "{SECOND}")'
_HELD_BACK_SECONDS = 1.0
_PUBLISHED_SECONDS = 0.5
"""An event is in EVENTS so long after its commit. A later one can be lost without anyone's knowing it."""
_READY_SECONDS = 60.0
_GONE_SECONDS = 30.0
_NODE_DOWN_SECONDS = 12.0
"""Longer than the other nodes wait before they elect a leader (4 to 9 s)."""
_POLL_SECONDS = 0.05

Action = Callable[[], Awaitable[None]]


@contextlib.contextmanager
def _step(rig: Rig, name: str) -> Iterator[None]:
    began = rig.clock.now()
    yield
    load = os.getloadavg()[0]
    print(f"{name}, {began:.0f} to {rig.clock.now():.0f} s, load {load:.1f}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _fault(rig: Rig, history: History, kind: str, target: str) -> Iterator[Fault]:
    fault = Fault(kind=kind, target=target, at=rig.clock.now())
    history.faults.append(fault)
    yield fault
    fault.until = fault.ready = rig.clock.now()


class PostgresFailover:
    """Fails over the Postgres servers of a rig."""

    def __init__(self, rig: Rig, history: History, pause: float) -> None:
        assert rig.pair is not None
        self._rig = rig
        self._pair: PostgresPair = rig.pair
        self._kept: Mapping[str, Kept] = rig.kin.kept
        self._history = history
        self._pause = pause
        self._is_synchronous = False
        self.lost: set[str] = set()
        """Conversations of which `agentchat repair` says that they have lost events."""

    async def run(self, way: str, rounds: int) -> None:
        """Perform each action of this way in each round.

        Raises:
            TimeoutError, StackError: The servers are not ready again in time.
        """
        self._is_synchronous = way == "synchronous"
        if self._is_synchronous:
            await self._replicate()
        for number in range(1, rounds + 1):
            for name, action in self._actions(way).items():
                with _step(self._rig, f"round {number}, {name}"):
                    await action()
                    await asyncio.sleep(self._pause)
                    await self._make_whole()

    def _actions(self, way: str) -> Mapping[str, Action]:
        ways: dict[str, dict[str, Action]] = {
            "synchronous": {
                "primary killed, standby promoted": self._fail_over,
                "planned switchover": self._switch_over,
                "each server restarted in turn": self._restart_in_turn,
            },
            "asynchronous": {"primary killed, standby promoted": self._fail_over_with_loss},
            "none": {"primary killed, started again": self._crash},
        }
        return ways[way]

    async def _fail_over(self) -> None:
        primary = self._kept[self._pair.primary]
        primary.hold(wipe=self._pair.data(self._pair.primary))
        with _fault(self._rig, self._history, "kill", "postgres") as fault:
            fault.hit = primary.signal(signal.SIGKILL)
            await self._pair.link.set_mode("refuse")  # what is in it is lost with the primary
            await self._pair.promote()

    async def _fail_over_with_loss(self) -> None:
        await self._pair.link.set_mode("freeze")
        await asyncio.sleep(_HELD_BACK_SECONDS)
        await self._fail_over()
        await self._rig.tail.restart()
        self.lost |= await _repair(self._rig)

    async def _switch_over(self) -> None:
        """Stop the primary, which ends once the standby has everything, and promote the standby."""
        primary = self._kept[self._pair.primary]
        primary.hold()
        with _fault(self._rig, self._history, "term", "postgres") as fault:
            fault.hit = primary.signal(signal.SIGINT)
            async with asyncio.timeout(_GONE_SECONDS):
                while primary.pid is not None:  # noqa: ASYNC110 - its keeper notes it
                    await asyncio.sleep(_POLL_SECONDS)
            await self._pair.promote()

    async def _restart_in_turn(self) -> None:
        """Restart the standby, on which no commit waits meanwhile, then switch over."""
        standby = self._kept[self._pair.standby]
        await self._pair.set_synchronous(self._kept, "")
        ready = len(standby.became_ready)
        with _fault(self._rig, self._history, "term", "postgres") as fault:
            fault.hit = standby.signal(signal.SIGINT)
            await standby.wait_ready_again(ready, _READY_SECONDS)
        await self._replicate()
        await self._switch_over()

    async def _crash(self) -> None:
        primary = self._kept[self._pair.primary]
        with _fault(self._rig, self._history, "kill", "postgres") as fault:
            fault.hit = primary.signal(signal.SIGKILL)
            async with asyncio.timeout(_READY_SECONDS):
                await primary.ready.wait()

    async def _make_whole(self) -> None:
        """Make the server that is down the standby. It was wiped if it was killed."""
        await self._pair.link.set_mode("pass")
        for kept in self._kept.values():
            kept.release()
        await self._rig.kin.wait_ready(_READY_SECONDS)
        await self._replicate()

    async def _replicate(self) -> None:
        await self._pair.caught_up(self._rig.environment.database_url)
        if self._is_synchronous:
            await self._pair.set_synchronous(self._kept, _EITHER)


class NatsFailover:
    """Kills leaders of a rig whose NATS has three nodes."""

    def __init__(self, rig: Rig, history: History, pause: float) -> None:
        self._rig = rig
        self._history = history
        self._pause = pause
        self._nodes = {name: rig.kin.kept[name] for name in NODES}

    async def run(self, rounds: int) -> None:
        """Kill the leader of each stream, and of the cluster, once in each round.

        Raises:
            TimeoutError: The nodes do not agree again in time.
        """
        for number in range(1, rounds + 1):
            for stream in (*NAMES, META):
                with _step(self._rig, f"round {number}, leader of {stream} killed"):
                    await self._kill(await self._leader(stream))
                    await self._until_whole()
                    await asyncio.sleep(self._pause)

    async def _kill(self, name: str) -> None:
        node = self._nodes[name]
        node.hold()
        starts = len(node.became_ready)
        with _fault(self._rig, self._history, "kill", name) as fault:
            fault.hit = node.signal(signal.SIGKILL)
            await asyncio.sleep(_NODE_DOWN_SECONDS)
            node.release()
            await node.wait_ready_again(starts, _READY_SECONDS)

    async def _leader(self, stream: str) -> str:
        async with asyncio.timeout(_READY_SECONDS):
            while True:
                found = await leaders([each.process for each in self._nodes.values()])
                if name := found.get(stream):
                    return name
                await asyncio.sleep(_POLL_SECONDS)

    async def _until_whole(self) -> None:
        async with asyncio.timeout(_READY_SECONDS):
            while not await are_whole([each.process for each in self._nodes.values()]):  # noqa: ASYNC110 - polled
                await asyncio.sleep(_POLL_SECONDS)


def _find_unpublished(history: History) -> list[str]:
    """Return the asks that were under way just before a kill, for their client, the model or a tool."""
    kills = [each.at for each in history.faults if each.kind == "kill"]
    spans = [(each.ask, each.began, each.ended) for each in history.exchanges]
    calls: list[ModelCall | ToolRun] = [*history.model, *history.tools]
    spans += [(call.ask, call.at, call.ended or call.at) for call in calls]
    return sorted(
        {
            ask
            for ask, began, ended in spans
            if any(began <= at and at - _PUBLISHED_SECONDS <= ended for at in kills)
        }
    )


async def _repair(rig: Rig) -> set[str]:
    """Run `agentchat repair`; return the conversations that it lists. Raises TimeoutError, StackError."""
    child = await closing.start_command(
        rig, "repair", "--json", output=asyncio.subprocess.PIPE, added=_addresses_for_repair(rig)
    )
    async with asyncio.timeout(_READY_SECONDS):
        output, errors = await child.communicate()
    if child.returncode != 0:
        raise StackError(f"agentchat repair: {errors.decode()}")
    lost = msgspec.json.decode(output)["lost"]
    return set(lost["conversations"]) if lost else set()


def _addresses_for_repair(rig: Rig) -> dict[str, str]:
    """Build the settings of `agentchat repair`, which sets a sequence and empties EVENTS: no service may."""
    kept = folder_secrets.load_or_create_secrets(rig.folder.secrets)
    servers = rig.environment.database_url.rpartition("@")[2]
    password = folder_secrets.derive_password(kept.servers_key, "postgres", OWNER)
    return {
        DATABASE_URL: f"postgresql://{OWNER}:{password}@{servers}",
        connections.NATS_URL: rig.environment.nats_url,
        connections.PROVISIONER_URL: nats_server.build_url(
            urlsplit(rig.environment.nats_url).port or 0, kept.servers_key, PROVISIONER
        ),
        connections.SECRET_KEY: kept.secret_key,
    }


async def _compare_feed(rig: Rig) -> list[str]:
    """Return how EVENTS differs from the log."""
    published = await _read_feed(rig)
    log = {(event.position, event.conversation, event.state["at"]) for event in await closing.all_events(rig)}
    lost, missing = set(published) - log, log.difference(published)
    positions = [position for position, _, _ in published]
    differences = [f"the log does not have {len(lost)} events of EVENTS"] if lost else []
    if missing:
        differences.append(f"EVENTS does not have {len(missing)} events of the log")
    if positions != sorted(set(positions)):
        differences.append("EVENTS is not in the order of the log")
    return differences


async def _read_feed(rig: Rig) -> list[tuple[int, str, str]]:
    """Read all of EVENTS: position, conversation and time. Another event can have a lost one's position."""
    published: list[tuple[int, str, str]] = []
    client = await nats.connect(rig.environment.nats_url.split(","))
    try:
        reading = await client.jetstream().subscribe(
            "chat.events.>", stream=subjects.EVENTS, ordered_consumer=True
        )
        while True:
            message = await reading.next_msg(timeout=10)
            stated = message.headers or {}
            position = int(stated[subjects.POSITION_HEADER])
            at = msgspec.json.decode(message.data)["at"]
            published.append((position, stated[subjects.CONVERSATION_HEADER], at))
            if message.metadata.num_pending == 0:
                return published
    finally:
        await client.close()


async def record(
    way: str, folder: Path, *, seed: int, rounds: int, streams: int, pause: float
) -> tuple[History, list[str]]:
    """Fail over on a stack of its own in `folder`; return how EVENTS differs from the log too."""
    on_nats = way == "nats"
    options = {"links": on_nats, "spares": True, "standby": not on_nats, "nats_cluster": on_nats}
    async with record_history(folder, seed, **options) as (rig, load, history):
        async with run_clients(rig, load, history, [MIX] * streams):
            if on_nats:
                await NatsFailover(rig, history, pause).run(rounds)
            else:
                failover = PostgresFailover(rig, history, pause)
                await failover.run(way, rounds)
                history.lost_conversations = sorted(failover.lost)
        await closing.settle(rig, history.final, load.people.decide_all)
        differences = await _compare_feed(rig)
    if way == "asynchronous":
        history.unpublished_asks = _find_unpublished(history)
    return history, differences


def run(given: argparse.Namespace) -> Outcome:
    """Fail if a message is lost or doubled, unless an asynchronous standby lost it and `repair` listed it."""
    if given.way not in WAYS:
        raise SystemExit(f"--way must be one of {', '.join(WAYS)}")
    numbers = {name: getattr(given, name) for name in ("seed", "rounds", "streams", "pause")}
    history, differences = on_a_stack(partial(record, given.way, **numbers), given.keep)
    return outcome_of(
        f"failover-{given.way}-{given.seed}",
        history,
        text="\n".join(f"FAILED: {each}" for each in differences),
        failed=bool(differences),
    )


OPTIONS: dict[str, object] = {"way": "synchronous", "rounds": 3, "streams": 12, "pause": 6.0, "keep": ""}
