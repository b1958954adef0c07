"""`make failover`: Postgres fails over under load, with a synchronous standby, an asynchronous one, and none.

synchronous: the primary is killed and the standby promoted; a planned switchover; a restart of one server
    after the other, as for a minor version. Nothing may be lost.
asynchronous: the log is held back from the standby for a moment, then the primary is killed. What was lost
    must be found by comparing EVENTS with the log, and nothing else may be lost.
none: the primary is killed, and starts again on its own disk.
"""

import argparse
import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from bus import Bus
from conversations.event_store.timelines import left_out
from ops.replay.lost_events import LostEvents, lost_between
from runtime.postgres import open_pool
from tests.chaos import closing
from tests.chaos.checker import check, why_invalid
from tests.chaos.drain import talking
from tests.chaos.load import conversation_of
from tests.chaos.plan import MIX_OF_3
from tests.chaos.postgres_pair import SECOND, PostgresPair
from tests.chaos.processes import Kept
from tests.chaos.recording import on_a_stack, recorded
from tests.chaos.records import Fault, History, ModelCall, ToolRun, Violation
from tests.chaos.report import Outcome, outcome_of
from tests.chaos.rig import Rig
from tests.chaos.upgrade import Figures, Step, feed_differences, figures_of, step_of, text_of

WAYS = ("synchronous", "asynchronous", "none")
_EITHER = f'ANY 1 ("postgres", "{SECOND}")'
_HELD_BACK_SECONDS = 1.0
_SLACK_SECONDS = 0.5
"""From the end of that moment to the kill."""
_READY_SECONDS = 60.0
_GONE_SECONDS = 30.0


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What became of accepted messages. `lost`: their ids; `found`: those of them whose conversation
    `agentchat replay lost` lists; `unexplained`: violations that are of no lost event.

    With an asynchronous standby an event can be acted on and lost before it has reached EVENTS: a model or a
    tool that was called while the log was held back explains what is wrong with its run, but no lost message.
    """

    accepted: int
    lost: list[str]
    found: list[str]
    doubled: int
    unexplained: list[str]
    events: list[LostEvents]


class Failover:
    """Does it to the servers of a rig; `steps`: when."""

    def __init__(self, rig: Rig, history: History, aside: float) -> None:
        assert rig.pair is not None
        self.steps: list[Step] = []
        self._rig = rig
        self._pair: PostgresPair = rig.pair
        self._kept: Mapping[str, Kept] = rig.kin.kept
        self._history = history
        self._aside = aside
        self._synchronous = False

    async def run(self, way: str, rounds: int) -> None:
        """Raises TimeoutError, StackError."""
        async with step_of(self._rig, self.steps, "before", "no change"):
            await asyncio.sleep(self._aside)
        if way == "synchronous":
            self._synchronous = True
            await self._replicate()
        for number in range(1, rounds + 1):
            for what, action in self._actions(way).items():
                async with step_of(self._rig, self.steps, f"{way} {number}", what):
                    await action()
                    await asyncio.sleep(self._aside)
                async with step_of(self._rig, self.steps, f"{way} {number}", "what is down made the standby"):
                    await self._whole_again()

    def _actions(self, way: str) -> dict[str, Callable[[], Awaitable[None]]]:
        ways: dict[str, dict[str, Callable[[], Awaitable[None]]]] = {
            "synchronous": {
                "primary killed, standby promoted": self._fail_over,
                "planned switchover": self._switch_over,
                "each server restarted in turn": self._restart_in_turn,
            },
            "asynchronous": {"primary killed, standby promoted": partial(self._fail_over, held_back=True)},
            "none": {"primary killed, started again": self._crash},
        }
        return ways[way]

    async def _fail_over(self, *, held_back: bool = False) -> None:
        primary, link = self._kept[self._pair.primary], self._pair.link
        if held_back:
            await link.set_mode("freeze")
            await asyncio.sleep(_HELD_BACK_SECONDS)
        primary.hold(wipe=self._pair.data(self._pair.primary))
        with self._fault("kill") as fault:
            fault.hit = primary.signal(signal.SIGKILL)
            await link.set_mode("refuse")  # what is in it is lost with the primary
            await self._pair.promote()

    async def _switch_over(self) -> None:
        """It ends by itself once the standby has everything, and follows as it is."""
        primary = self._kept[self._pair.primary]
        primary.hold()
        with self._fault("term") as fault:
            fault.hit = primary.signal(signal.SIGINT)
            async with asyncio.timeout(_GONE_SECONDS):
                while primary.pid is not None:  # noqa: ASYNC110 - its keeper notes it
                    await asyncio.sleep(0.02)
            await self._pair.promote()

    async def _restart_in_turn(self) -> None:
        """The standby first, on which no commit waits meanwhile, then a switchover."""
        standby = self._kept[self._pair.standby]
        await self._pair.set_synchronous(self._kept, "")
        ready = len(standby.became_ready)
        with self._fault("term") as fault:
            fault.hit = standby.signal(signal.SIGINT)
            async with asyncio.timeout(_READY_SECONDS):
                while len(standby.became_ready) == ready:  # noqa: ASYNC110 - the same
                    await asyncio.sleep(0.02)
        await self._replicate()
        await self._switch_over()

    async def _crash(self) -> None:
        primary = self._kept[self._pair.primary]
        with self._fault("kill") as fault:
            fault.hit = primary.signal(signal.SIGKILL)
            async with asyncio.timeout(_READY_SECONDS):
                await primary.ready.wait()

    async def _whole_again(self) -> None:
        """The server that is down becomes the standby. It is wiped first where it was killed."""
        await self._pair.link.set_mode("pass")
        for kept in self._kept.values():
            kept.release()
        await self._rig.kin.wait_ready(_READY_SECONDS)
        await self._replicate()

    async def _replicate(self) -> None:
        await self._pair.caught_up(self._rig.environment.database_url)
        if self._synchronous:
            await self._pair.set_synchronous(self._kept, _EITHER)

    @contextlib.contextmanager
    def _fault(self, kind: str) -> Iterator[Fault]:
        fault = Fault(kind=kind, target="postgres", at=self._rig.clock.now())
        self._history.faults.append(fault)
        yield fault
        fault.until = fault.ready = self._rig.clock.now()


def loss_of(history: History, events: Sequence[LostEvents], held_back: float = 0.0) -> Loss:
    """Judge the messages of a history whose log has lost events. `held_back`: for how many seconds the log
    was, before each kill.
    """
    gone = {each for lost in events for each in lost.conversations}
    conversations = {each.ask: conversation_of(each) or each.conversation for each in history.exchanges}
    touched = gone | {ask for ask, conversation in conversations.items() if conversation in gone}
    touched |= {
        trace
        for each in history.exchanges
        if each.ask in touched and (trace := each.headers.get("x-trace-id"))
    }
    touched |= {event.trace for event in history.events if event.conversation in gone}
    unseen = touched | _active_before_kills(history, held_back)
    violations = check(history)
    lost = sorted({each.of for each in violations if each.invariant == "I1" and "and lost" in each.evidence})
    return Loss(
        accepted=len({each.ask for each in history.exchanges if each.accepted}),
        lost=lost,
        found=[ask for ask in lost if ask in touched],
        doubled=sum(_is_double(each) for each in violations),
        unexplained=[f"{e.invariant} {e.of}: {e.evidence}" for e in violations if e.of not in unseen],
        events=list(events),
    )


def _active_before_kills(history: History, held_back: float) -> set[str]:
    """The asks whose model or tools were called while the log was held back; none where it was not."""
    if not held_back:
        return set()
    kills = [each.at for each in history.faults if each.kind == "kill"]
    calls: list[ModelCall | ToolRun] = [*history.model, *history.tools]
    return {
        call.ask
        for call in calls
        if any(call.at <= at and at - held_back <= (call.ended or call.at) for at in kills)
    }


def _is_double(violation: Violation) -> bool:
    stored = violation.invariant == "I1" and "times" in violation.evidence
    return stored or (violation.invariant == "I3" and "replies are saved" in violation.evidence)


async def _lost_events(rig: Rig) -> list[LostEvents]:
    """As `agentchat replay lost` finds them."""
    async with (
        open_pool(rig.environment.database_url, role=None) as pool,
        Bus.connect(rig.environment.nats_url, name="rig") as bus,
    ):
        found = [
            await lost_between(bus, each.last_position, each.first_position) for each in await left_out(pool)
        ]
    return [each for each in found if each is not None]


async def _failed_over(
    given: argparse.Namespace, folder: Path
) -> tuple[list[Step], History, list[LostEvents], list[str]]:
    async with recorded(folder, given.seed, links=False, spares=True, standby=True) as (rig, load, history):
        failover = Failover(rig, history, given.aside)
        async with talking(rig, load, history, [MIX_OF_3] * given.streams):
            await failover.run(given.way, given.rounds)
        await closing.settle(rig, history.final, load.people.decide_all)
        return failover.steps, history, await _lost_events(rig), await feed_differences(rig)


def text_of_loss(loss: Loss) -> str:
    """For a terminal."""
    lines = [
        f"{loss.accepted} accepted messages: {len(loss.lost)} lost, {len(loss.found)} of them found by "
        f"comparing EVENTS with the log; {loss.doubled} answered twice"
    ]
    lines += [
        f"  EVENTS has {each.events} events of {len(each.conversations)} conversations more"
        for each in loss.events
    ]
    return "\n".join([*lines, *loss.unexplained[:20]])


def _errors(figures: Sequence[Figures]) -> str:
    found: Counter[str] = Counter()
    for each in figures:
        found.update(each.outcomes)
    return ", ".join(f"{name} {count}" for name, count in found.most_common())


def run(given: argparse.Namespace) -> Outcome:
    """It has failed where a message is lost that may not be, or that nothing shows to be lost."""
    if given.way not in WAYS:
        raise SystemExit(f"--way must be one of {', '.join(WAYS)}")
    steps, history, events, feed = on_a_stack(partial(_failed_over, given), given.keep)
    figures = [figures_of(step, history) for step in steps]
    is_asynchronous = given.way == "asynchronous"
    loss = loss_of(history, events, _HELD_BACK_SECONDS + _SLACK_SECONDS if is_asynchronous else 0.0)
    wrong = [] if is_asynchronous else feed
    bad = bool(wrong or loss.unexplained or set(loss.lost) - set(loss.found))
    bad |= bool(loss.doubled) and not is_asynchronous  # the claim of a key can be lost with the commit
    outcome = outcome_of(
        f"failover-{given.way}-{given.seed}",
        history,
        text="\n".join([text_of(figures), _errors(figures), text_of_loss(loss), *wrong]),
        failed=bad,
        invalid=why_invalid(history),
        failover=[figures, loss],
    )
    return outcome._replace(failed=bad) if is_asynchronous else outcome


OPTIONS: dict[str, object] = {"way": "synchronous", "rounds": 3, "streams": 12, "aside": 6.0, "keep": ""}
