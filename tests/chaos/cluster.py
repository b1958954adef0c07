"""`make cluster`: three NATS nodes are upgraded and fail, one way after the other, under load.

Services reach all nodes. Each fault is a step; what clients saw of it, and what became of its messages, is
counted by step.
"""

import argparse
import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from bus.streams import STREAMS
from ops.servers.server_files import nats_server
from tests.chaos.checker import why_invalid
from tests.chaos.checker.view import View
from tests.chaos.drain import talking
from tests.chaos.nats_nodes import META, are_whole, leaders, server_of
from tests.chaos.plan import MIX
from tests.chaos.processes import Kept
from tests.chaos.recording import on_a_stack, recorded
from tests.chaos.records import Exchange, Fault, History
from tests.chaos.report import Outcome, outcome_of
from tests.chaos.rig import Rig
from tests.chaos.upgrade import Figures, Step, figures_of, step_of

BEFORE = "2.14.6"
"""The nats-server that the nodes are rolled from."""
NODES = ("nats-1", "nats-2", "nats-3")
SAME_MACHINE = ("gateway-1", "orchestrator-1", "tool-runner-1")
"""Services on the machine of the node that is cut off."""
_DOWN_SECONDS = 12.0
"""Longer than the others wait before they elect another leader (4 to 9 s)."""
_CUT_SECONDS = 20.0
_WHOLE_SECONDS = 90.0
_LOOK_SECONDS = 0.05


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a step came to: its messages, and what clients waited for, in seconds (`Figures`).

    `lost`: accepted messages that have no end in the log; `doubled`: those with two replies.
    `silence`: the longest time in which a stream that had begun was sent nothing.
    """

    figures: Figures
    messages: int
    lost: int
    doubled: int
    silence: float


class Cluster:
    """Acts on a rig whose NATS has several nodes; `steps` is what was done."""

    def __init__(self, rig: Rig, history: History, quiet: float) -> None:
        self.steps: list[Step] = []
        self._rig = rig
        self._history = history
        self._quiet = quiet
        self._nodes = {name: rig.kin.kept[name] for name in NODES}

    async def run(self, program: str) -> None:
        """All faults, one after the other; `program` is the nats-server to roll to.

        Raises TimeoutError where the nodes do not find together again.
        """
        async with self._step("rest", "no change"):
            await asyncio.sleep(_CUT_SECONDS)
        for name in NODES:
            async with self._step("upgrade", name):
                await self._replace(name, signal.SIGUSR2, program)
        for name in NODES:
            async with self._step("restart", name):
                await self._replace(name, signal.SIGTERM, program)
        for stream in (*(each["name"] for each in STREAMS), META):
            async with self._step("leader killed", stream):
                await self._kill((await self._leader(stream),), _DOWN_SECONDS)
        async with self._step("node cut off", "from its peers"):
            await self._cut(await self._leader("REQUESTS"), _among_nodes)
        async with self._step("node cut off", "with the services of its machine"):
            await self._cut(await self._leader("REQUESTS"), _of_nats)
        async with self._step("node cut off", "with services that reach nothing else"):
            await self._cut(await self._leader("REQUESTS"), _of_servers)
        async with self._step("two nodes down", "and back"):
            leader = await self._leader("REQUESTS")
            await self._kill((leader, next(name for name in NODES if name != leader)), _CUT_SECONDS)

    @contextlib.asynccontextmanager
    async def _step(self, phase: str, of: str) -> AsyncIterator[None]:
        """Ends when the nodes are whole again, and have been so for a while."""
        async with step_of(self._rig, self.steps, phase, of):
            yield
            await self._whole()
            await asyncio.sleep(self._quiet)

    async def _whole(self) -> None:
        async with asyncio.timeout(_WHOLE_SECONDS):
            while not await are_whole([each.process for each in self._nodes.values()]):  # noqa: ASYNC110 - polled
                await asyncio.sleep(_LOOK_SECONDS)

    async def _leader(self, stream: str) -> str:
        async with asyncio.timeout(_WHOLE_SECONDS):
            while True:
                found = await leaders([each.process for each in self._nodes.values()])
                if name := found.get(stream):
                    return name
                await asyncio.sleep(_LOOK_SECONDS)

    async def _replace(self, name: str, number: signal.Signals, program: str) -> None:
        """End a node in order, and start it with this program; SIGUSR2 has it send its clients away first."""
        kept = self._nodes[name]
        kept.process = msgspec.structs.replace(kept.process, argv=(program, *kept.process.argv[1:]))
        kind = "lame duck" if number == signal.SIGUSR2 else "term"
        ends, readies = len(kept.codes), len(kept.became_ready)
        fault = self._fault(kind, name, hit=kept.signal(number))
        await self._until(lambda: len(kept.codes) > ends)
        fault.until = self._rig.clock.now()
        await self._ready(fault, kept, readies)

    async def _kill(self, names: Iterable[str], seconds: float) -> None:
        hit: list[tuple[Fault, Kept, int]] = []
        for name in names:
            kept = self._nodes[name]
            kept.hold()
            readies = len(kept.became_ready)
            hit.append((self._fault("kill", name, hit=kept.signal(signal.SIGKILL)), kept, readies))
        await asyncio.sleep(seconds)
        for fault, kept, _ in hit:
            kept.release()
            fault.until = self._rig.clock.now()
        for fault, kept, readies in hit:
            await self._ready(fault, kept, readies)

    async def _cut(self, node: str, is_cut: Callable[[str, str], bool]) -> None:
        """For a while nothing passes by those links that `is_cut` says of this node."""
        links = [link for link in self._rig.proxies if is_cut(node, link)]
        used = [link for link in links if await self._rig.proxies[link].set_mode("freeze")]
        faults = [self._fault("freeze", link, hit=True) for link in used]
        await asyncio.sleep(_CUT_SECONDS)
        for link in links:
            await self._rig.proxies[link].set_mode("pass")
        for fault in faults:
            fault.until = self._rig.clock.now()

    def _fault(self, kind: str, target: str, *, hit: bool) -> Fault:
        fault = Fault(kind=kind, target=target, at=self._rig.clock.now(), hit=hit)
        self._history.faults.append(fault)
        return fault

    async def _ready(self, fault: Fault, kept: Kept, before: int) -> None:
        await self._until(lambda: len(kept.became_ready) > before)
        fault.ready = kept.became_ready[before]

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(_WHOLE_SECONDS):
            while not holds():  # noqa: ASYNC110 - a keeper notes it
                await asyncio.sleep(_LOOK_SECONDS)


def _among_nodes(node: str, link: str) -> bool:
    return link.startswith("nats-") and node in link.split(">")


def _of_nats(node: str, link: str) -> bool:
    """Those of its services to other nodes too."""
    service, _, server = link.partition(">")
    kept_apart = service in SAME_MACHINE and server.startswith("nats-") and server != node
    return kept_apart or _among_nodes(node, link)


def _of_servers(node: str, link: str) -> bool:
    """All links of its services, but to the node itself; clients still reach the gateway."""
    service, _, server = link.partition(">")
    return (service in SAME_MACHINE and server != node) or _among_nodes(node, link)


def seen_of(step: Step, view: View) -> Seen:
    """Of the messages that were first sent in the step."""
    first = {ask: each[0].began for ask, each in view.exchanges_of.items()}
    own = [ask for ask, at in first.items() if step.began <= at < step.ended]
    silences = [_silence(each) for ask in own for each in view.exchanges_of[ask]]
    return Seen(
        figures=figures_of(step, view.history),
        messages=len(own),
        lost=sum(_is_lost(view, ask) for ask in own),
        doubled=sum(sum(len(run.of("run_completed")) for run in view.runs_of_ask[ask]) > 1 for ask in own),
        silence=round(max(silences, default=0.0), 2),
    )


def _is_lost(view: View, ask: str) -> bool:
    """Whether a client may take it for saved, and the log has neither reply, failure nor cancellation."""
    if not any(each.accepted for each in view.exchanges_of[ask]):
        return False
    return not any(run.of("run_completed", "run_failed", "run_cancelled") for run in view.runs_of_ask[ask])


def _silence(exchange: Exchange) -> float:
    """The longest between two pieces of a stream; a run that waits for its turn has not begun."""
    at = [when for when, _ in exchange.arrivals]
    return max((b - a for a, b in itertools.pairwise(at[1:])), default=0.0)


def text_of(seen: list[Seen]) -> str:
    """For a terminal, and for docs/change/reliability.md."""
    head = ("fault", "messages", "lost", "doubled", "pause", "slowest", "silence", "but done")
    lines = [head, ("---",) * len(head)]
    for each in seen:
        step = each.figures.step
        others = ", ".join(f"{name} {count}" for name, count in each.figures.outcomes.items())
        numbers = (each.messages, each.lost, each.doubled)
        seconds = (each.figures.pause, each.figures.slowest, each.silence)
        lines.append(
            (f"{step.phase}: {step.of}", *map(str, numbers), *(f"{one:.2f}" for one in seconds), others)
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


async def _failed(given: argparse.Namespace, folder: Path) -> tuple[list[Step], History]:
    program = server_of(given.nats_before)
    replaced = {name: (program, "-c", str(folder / f"{name}.conf")) for name in NODES}
    running = recorded(folder, given.seed, replaced=replaced, spares=True, nats_nodes=len(NODES))
    async with running as (rig, load, history):
        history.not_run = ["a full disk", "a clock that is off"]
        cluster = Cluster(rig, history, given.quiet)
        mixes = [MIX if number % 2 else {"slow": 1} for number in range(given.streams)]
        async with talking(rig, load, history, mixes):
            await cluster.run(given.program)
        return cluster.steps, history


def run(given: argparse.Namespace) -> Outcome:
    """It has failed too where an accepted message is lost or answered twice."""
    given.program = str(nats_server())
    steps, history = on_a_stack(partial(_failed, given), given.keep)
    view = View(history)
    seen = [seen_of(step, view) for step in steps]
    return outcome_of(
        f"cluster-{given.seed}",
        history,
        text=text_of(seen),
        failed=any(each.lost or each.doubled for each in seen),
        invalid=why_invalid(history),
        cluster=seen,
    )


OPTIONS: dict[str, object] = {"streams": 16, "quiet": 4.0, "nats-before": BEFORE, "keep": ""}
