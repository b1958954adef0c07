"""`make upgrade`: the release before is replaced by this version under load, taken back, and replaced again.

Services are replaced one after the other, in the order of docs/operate/production.md; the way back is the
reverse. Both versions are there for a while at each step. In the last phase services are killed too.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import nats

from contracts import subjects
from ops.process import run_command
from tests.chaos import closing
from tests.chaos.checker import why_invalid
from tests.chaos.drain import restart, talking
from tests.chaos.faults import Nemesis
from tests.chaos.load import Load
from tests.chaos.plan import ACCOUNTS, MIX_OF_3, Blow
from tests.chaos.recording import on_a_stack, recorded
from tests.chaos.records import Exchange, History
from tests.chaos.recovery import first_delta
from tests.chaos.release import BEFORE, FINISH, REOPEN, STAY, python_of
from tests.chaos.report import Outcome, outcome_of
from tests.chaos.restarts import Restart, late_exits, seen_by_clients
from tests.chaos.rig import Rig
from tests.notifier.receiver import Receiver, receiving

ORDER = ("projector", "notifier", "gateway", "tool-runner", "orchestrator")
"""Of an upgrade, after the migrations; two of each."""
KILLS = "forward with kills"
"""The phase in which services are killed."""
_MODULES = {each: each.replace("-", "_") for each in ORDER} | {"database": "ops.prepare"}
_PLAIN = ("short", "long")
"""Agents whose text waits for nothing but us: not for a person, nor for a slow reply before it."""
_ANSWERS = ("200", "503", "ConnectError", "ReadError", "RemoteProtocolError")
"""To other requests: a client knows to ask again, which a load balancer does for it."""
_KILL_SECONDS = (3.0, 6.0)
_READY_SECONDS = 60.0
_WEBHOOK_SECONDS = 60.0
_RUN_ENDS = {"run_completed": "run.completed", "run_failed": "run.failed", "run_cancelled": "run.cancelled"}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a phase, with the time in which both versions ran."""

    phase: str
    of: str
    began: float
    ended: float


@contextlib.asynccontextmanager
async def step_of(rig: Rig, steps: list[Step], phase: str, of: str) -> AsyncIterator[None]:
    """The block is a step, which is added to `steps` and said on stderr."""
    began = rig.clock.now()
    yield
    steps.append(Step(phase=phase, of=of, began=began, ended=rig.clock.now()))
    print(
        f"{phase}: {of}, {began:.0f} to {rig.clock.now():.0f} s, load {os.getloadavg()[0]:.1f}",
        file=sys.stderr,
        flush=True,
    )


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What clients saw of a step, in seconds.

    `pause`: the longest time in which no reply began at any client; `slowest`: the longest from a message to
    its text, failed attempts included. `outcomes`: what became of requests, but for `done`. `errors`: what no
    client may see.
    """

    step: Step
    pause: float
    slowest: float
    outcomes: dict[str, int]
    errors: list[str]


class Pair(NamedTuple):
    """The interpreters of the two versions, and the commands of the later (`release`)."""

    before: str
    after: str
    finish: str
    reopen: str


class Upgrade:
    """Replaces the processes of a rig whose services run the release before."""

    def __init__(self, rig: Rig, load: Load, history: History, pair: Pair, aside: float) -> None:
        self.steps: list[Step] = []
        self.restarts: list[Restart] = []
        self._rig = rig
        self._load = load
        self._history = history
        self._pair = pair
        self._aside = aside
        self._replaced = ""
        """The process that is being replaced: it is not killed meanwhile."""

    async def run(self) -> None:
        """Forward, back, and forward again. Raises TimeoutError where a process does not stop or start."""
        async with step_of(self._rig, self.steps, "before", "no change"):
            await asyncio.sleep(self._aside)
        await self._command("forward", "migrate")
        await self._replace("forward", ORDER, self._pair.after)
        await self._command("forward", self._pair.finish)
        await self._command("back", self._pair.reopen)
        back = [each for each in reversed(ORDER) if each not in STAY]
        await self._replace("back", back, self._pair.before)
        async with self._kills():
            await self._replace(KILLS, [each for each in ORDER if each in back], self._pair.after)
        await self._command("after", self._pair.finish)
        async with step_of(self._rig, self.steps, "after", "no change"):
            await asyncio.sleep(self._aside)

    async def _replace(self, phase: str, services: Sequence[str], python: str) -> None:
        for name in [f"{service}-{number}" for service in services for number in (1, 2)]:
            kept = self._rig.kin.kept[name]
            async with step_of(self._rig, self.steps, phase, name):
                self._replaced = name
                async with asyncio.timeout(_READY_SECONDS):
                    await kept.ready.wait()
                kept.process = msgspec.structs.replace(kept.process, argv=(python, *kept.process.argv[1:]))
                self.restarts.append(await restart(self._rig, self._load, self._history, name))
                self._replaced = ""
                await asyncio.sleep(self._aside)

    async def _command(self, phase: str, command: str) -> None:
        """By the later version, as the owner of the database; "" is none."""
        if command:
            async with step_of(self._rig, self.steps, phase, command):
                argv = (self._pair.after, "-m", "ops.main", *command.split())
                output = await run_command(argv, env=self._rig.kin.kept["database"].process.env)
                assert output.code == 0, output.text
                await asyncio.sleep(self._aside)

    @contextlib.asynccontextmanager
    async def _kills(self) -> AsyncIterator[None]:
        """While the block runs, a service is killed now and then."""
        nemesis, chance = Nemesis(self._rig), random.Random(self._history.seed)
        names = [f"{service}-{number}" for service in ORDER for number in (1, 2)]

        async def kill() -> None:
            while True:
                await asyncio.sleep(chance.uniform(*_KILL_SECONDS))
                target = chance.choice([each for each in names if each != self._replaced])
                at = self._rig.clock.now()
                await nemesis.run([Blow(at=at, kind="kill", target=target, seconds=0.0)])

        killing = asyncio.create_task(kill())
        try:
            yield
        finally:
            killing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killing
            await nemesis.heal()
            self._history.faults += nemesis.faults


def figures_of(step: Step, history: History) -> Figures:
    """Of the requests of a step."""
    begun = sorted(at for at in map(reply_began, history.exchanges) if step.began <= at <= step.ended)
    places = [step.began, *begun, step.ended]
    own = [each for each in history.exchanges if step.began <= each.began < step.ended]
    seen = seen_by_clients(msgspec.structs.replace(history, exchanges=own))
    return Figures(
        step=step,
        pause=round(max(after - at for at, after in itertools.pairwise(places)), 2),
        slowest=round(max(_waits(step, history), default=0.0), 2),
        outcomes={name: count for name, count in seen.outcomes.items() if name != "done"},
        errors=seen.errors,
    )


def unexplained(steps: Sequence[Step], history: History) -> list[str]:
    """Errors of requests that were over before the kills began, or began after them."""
    kills = [step for step in steps if step.phase == KILLS]
    began, ended = kills[0].began, kills[-1].ended
    own = [each for each in history.exchanges if each.ended < began or each.began > ended]
    return seen_by_clients(msgspec.structs.replace(history, exchanges=own)).errors


def reply_began(exchange: Exchange) -> float:
    """When its first delta came, or its JSON; -1 where neither did."""
    if exchange.form == "json":
        return exchange.ended if exchange.status == 200 and exchange.end == "eof" else -1.0
    return first_delta(exchange)


def _waits(step: Step, history: History) -> Iterator[float]:
    """For each message that was first sent in the step, how long until its stream had text."""
    plain = {each.ask for each in history.asks if each.agent in _PLAIN}
    first: dict[str, float] = {}
    for each in history.exchanges:
        if each.ask not in plain or each.form == "json":
            continue
        first.setdefault(each.ask, each.began)
        if (at := first_delta(each)) >= 0 and step.began <= (sent := first.pop(each.ask)) < step.ended:
            yield at - sent


async def _ask_other_things(rig: Rig, load: Load, answers: Counter[str]) -> None:
    """Until cancelled: lists, messages, titles and joined streams, at each gateway; counts answers."""
    headers = {"X-Api-Key": rig.access[ACCOUNTS[0]].api_key}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as http:
        for number in itertools.count():
            await asyncio.sleep(0.2)
            own = [
                e for e in load.exchanges if e.account == ACCOUNTS[0] and e.conversation and e.status == 200
            ]
            if not own:
                continue
            base = f"http://127.0.0.1:{rig.client_ports[number % 2]}/v1"
            path, trace = f"{base}/conversations/{own[-1].conversation}", own[-1].headers["x-trace-id"]
            for what, method, url in (
                ("list", "GET", f"{base}/conversations"),
                ("messages", "GET", f"{path}/messages"),
                ("title", "PATCH", path),
                ("join", "GET", f"{base}/chat/{trace}/events"),
            ):
                body = {"title": f"number {number}"} if method == "PATCH" else None
                try:
                    answered = str((await http.request(method, url, json=body)).status_code)
                except httpx.HTTPError as error:
                    answered = type(error).__name__
                answers[f"{what} {answered}"] += 1


async def _endpoint(rig: Rig, receiver: Receiver) -> None:
    """A webhook endpoint of the first account, for all ends of runs."""
    body = {"url": receiver.url("/upgrade"), "events": sorted(_RUN_ENDS.values())}
    headers = {"X-Api-Key": rig.access[ACCOUNTS[0]].api_key}
    async with httpx.AsyncClient(base_url=rig.environment.base_url, headers=headers, trust_env=False) as http:
        (await http.post("/v1/webhook_endpoints", json=body)).raise_for_status()


async def _webhooks(rig: Rig, receiver: Receiver) -> tuple[int, list[str]]:
    """How many came again, and which have not come within a minute."""
    events = await closing.all_events(rig)
    account = rig.access[ACCOUNTS[0]].account_id
    own = {e.conversation for e in events if e.state.get("account_id") == account}
    wanted = {e.position for e in events if e.kind in _RUN_ENDS and e.conversation in own}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_WEBHOOK_SECONDS):
            while wanted - (came := {each.message["data"]["position"] for each in receiver.received}):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.25)
    again = len(receiver.received) - len({each.id for each in receiver.received})
    return again, [f"no webhook came for position {position}" for position in sorted(wanted - came)]


async def feed_differences(rig: Rig) -> list[str]:
    """How EVENTS differs from the log: each event once, in its order."""
    client = await nats.connect(rig.environment.nats_url)
    positions: list[int] = []
    try:
        reading = await client.jetstream().subscribe(
            "chat.events.>", stream=subjects.EVENTS, ordered_consumer=True
        )
        while True:
            message = await reading.next_msg(timeout=10)
            positions.append(int((message.headers or {})[subjects.POSITION_HEADER]))
            if message.metadata.num_pending == 0:
                break
    finally:
        await client.close()
    log = [event.position for event in await closing.all_events(rig)]
    if positions == log:
        return []
    return [
        f"EVENTS has {len(positions)} events, the log {len(log)}; in order: {positions == sorted(positions)}"
    ]


async def _upgraded(
    given: argparse.Namespace, pair: Pair, folder: Path
) -> tuple[Upgrade, History, list[str], str]:
    replaced = {name: (pair.before, "-m", module) for name, module in _MODULES.items()}
    running = recorded(folder, given.seed, replaced=replaced, links=False, spares=True)
    async with receiving() as receiver, running as (rig, load, history):
        await _endpoint(rig, receiver)
        upgrade = Upgrade(rig, load, history, pair, given.aside)
        mixes = [MIX_OF_3 if number % 2 else {"slow": 1} for number in range(given.streams)]
        answers: Counter[str] = Counter()
        others = asyncio.create_task(_ask_other_things(rig, load, answers))
        async with talking(rig, load, history, mixes):
            await upgrade.run()
        others.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await others
        await closing.settle(rig, history.final, load.people.decide_all)
        again, wrong = await _webhooks(rig, receiver)
        webhooks = f"{len(receiver.received)} webhooks, {again} of them again"
        wrong += [f"{what}: {count}" for what, count in answers.items() if what.split()[1] not in _ANSWERS]
        rest = ", ".join(f"{what}: {count}" for what, count in sorted(answers.items()))
        return upgrade, history, [*wrong, *await feed_differences(rig)], f"{webhooks}; {rest}"


def text_of(figures: Sequence[Figures]) -> str:
    """For a terminal."""
    lines = [
        "step: longest time in which no reply began, longest from a message to its text, outcomes but done"
    ]
    for each in figures:
        outcomes = ", ".join(f"{name} {count}" for name, count in each.outcomes.items())
        step = each.step
        lines.append(
            f"  {step.phase}, {step.of} ({step.ended - step.began:.1f} s): "
            f"{each.pause:.2f} s, {each.slowest:.2f} s, {outcomes}"
        )
        lines += [f"    {error}" for error in each.errors[:5]]
    return "\n".join(lines)


def run(given: argparse.Namespace) -> Outcome:
    """It has failed too where a client saw an error that no kill explains, or something is missing."""
    after = python_of(given.after) if given.after else sys.executable
    pair = Pair(python_of(given.before), after, given.finish, given.reopen)
    upgrade, history, wrong, webhooks = on_a_stack(partial(_upgraded, given, pair), given.keep)
    figures = [figures_of(step, history) for step in upgrade.steps]
    errors = unexplained(upgrade.steps, history)
    late = late_exits(upgrade.restarts)
    return outcome_of(
        f"upgrade-{given.seed}",
        history,
        text="\n".join([text_of(figures), webhooks, *late, *wrong]),
        failed=bool(errors or late or wrong),
        invalid=why_invalid(history),
        upgrade=figures,
    )


OPTIONS: dict[str, object] = {
    "streams": 24,
    "aside": 4.0,
    "keep": "",
    "before": BEFORE,
    "after": "",
    "finish": FINISH,
    "reopen": REOPEN,
}
