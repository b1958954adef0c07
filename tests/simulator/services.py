"""The services' own code, put together as their `worker` modules do, on simulated servers."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, cast

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts.messages import CancelRequested, ChatRequested
from agentchat.contracts.tool_messages import ToolsListed
from agentchat.contracts.updates import Broken, Finished, Started, TextUpdate, Update
from agentchat.conversations.event_store.conversation_cache import Cache
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.idempotency.claim_writer import Claims
from agentchat.conversations.leases.leases import Leases
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.gateway.access.idempotency_header import IdempotencyKey
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.runs.event_stream import RunFollower
from agentchat.gateway.runs.follow_frames import FollowedRuns
from agentchat.gateway.runs.run_request import STREAM, RunRequest, ViewKind
from agentchat.gateway.runs.submit_request import Submission
from agentchat.orchestrator.heartbeat import run_heartbeat
from agentchat.orchestrator.inbox.inbox import Inbox
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.tools.tool_list_cache import ToolListings
from agentchat.orchestrator.worker import _drain
from agentchat.projector.run_sweeper import Sweeper
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.tool_runner.calls.executor import Executor
from agentchat.tool_runner.calls.handler import HELD_PER_SLOT, CallHandler
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.database_clock import DatabaseClock
from agentchat.tool_runner.journal import Journal
from tests.simulator.bus import SimBus
from tests.simulator.database import SimLog, SimPool, SimWriter
from tests.simulator.model import (
    ACCOUNT,
    AGENT,
    LISTED,
    Asked,
    SimAgents,
    SimModel,
    SimModels,
    SimTools,
    SimToolServer,
)
from tests.simulator.plan import Request
from tests.simulator.postgres import Postgres
from tests.simulator.process import Process
from tests.simulator.world import World

_SLOTS = 4


class _Admitted:
    allowed = True
    code = None
    retry_after_s = None


class SimLimiter:
    """Lets everybody in."""

    async def admit(self, *_: Any, **__: Any) -> _Admitted:
        return _Admitted()

    async def release(self, *_: Any, **__: Any) -> None:
        return None

    async def hold(self, *_: Any) -> None:
        return None


async def orchestrate(process: Process, postgres: Postgres, bus: SimBus, asked: Asked) -> None:
    """Run what `orchestrator.worker.run_worker` runs."""
    pool = SimPool(process, postgres)
    parts = WorkerServices(
        bus=cast(Any, bus),
        store=ConversationStore(SimLog(pool), cast(Any, SimWriter(pool)), Cache()),
        log=SimLog(pool),
        leases=Leases(cast(Any, pool), process.name),
        line=WaitingLine(cast(Any, pool), process.name),
        limiter=cast(Any, SimLimiter()),
        agents=cast(Any, SimAgents(process, postgres)),
        listings=ToolListings(cast(Any, bus.rpc)),
        models=cast(Any, SimModels(SimModel(process, postgres, asked))),
        pool=cast(Any, pool),
        files=cast(Any, None),
        schema_checks=cast(Any, None),
        name=process.name,
        run_slots=_SLOTS,
        stop=process.stop,
    )
    following = await bus.traces.follow_cancels(parts.register.cancel)
    beating = process.spawn(run_heartbeat(parts))
    line = process.spawn(parts.line.follow(cast(Any, pool)))
    process.spawn(_drain(parts))
    await bus.queues.consume("REQUESTS", Inbox(parts).handle, slots=_SLOTS, stop=process.stop)
    beating.cancel()
    line.cancel()
    await following.close()


async def run_tools(process: Process, postgres: Postgres, bus: SimBus, tools: SimTools) -> None:
    """Run what `tool_runner.worker.run_tool_runner` runs."""
    pool = SimPool(process, postgres)
    agents = SimAgents(process, postgres)
    executor = Executor(
        cast(Any, bus),
        cast(Any, agents),
        cast(Any, SimToolServer(process, tools)),
        Journal(cast(Any, pool), f"{process.name}/{process.world.new_id()}"),
        DatabaseClock(cast(Any, pool)),
        _SLOTS,
    )
    files: Any = None  # its tools return no files
    inbox = CallHandler(cast(Any, bus), executor, ResultQuota(), files)
    following = await bus.traces.follow_cancels(executor.cancel)
    draining = process.spawn(_put_back(process, executor))
    await bus.queues.consume("TOOLS", inbox.handle, slots=_SLOTS * HELD_PER_SLOT, stop=process.stop)
    draining.cancel()
    await following.close()


async def _put_back(process: Process, executor: Executor) -> None:
    await process.stop.wait()
    executor.close()


async def project(process: Process, postgres: Postgres, bus: SimBus) -> None:
    """The sweeper of `projector.worker`."""
    pool = SimPool(process, postgres)
    sweeper = Sweeper(cast(Any, bus), SimLog(pool), cast(Any, pool))
    sweeping = process.spawn(_sweep(sweeper))
    await process.stop.wait()
    sweeping.cancel()


async def _sweep(sweeper: Sweeper) -> None:
    sweeper._tidied = asyncio.get_running_loop().time()  # what is tidied away is no part of this
    await sweeper.run()


class Caller:
    """One request's caller: what he asks, and all that he is told. `lives` are his connections in turn.

    `run_trace`: of the run that answers him, which is another's if his message steers.
    """

    def __init__(self, world: World, request: Request, postgres: Postgres) -> None:
        self.request = request
        self.trace_id = self.run_trace = f"{request.number + 1:032x}"
        self.conversation_id: str | None = None
        self.is_new = True
        self.accepted = False
        self.refused: str | None = None
        self.done = False
        self.cancels = False
        self.lives: list[list[Update]] = []
        self._world = world
        self._postgres = postgres

    @property
    def answer(self) -> str:
        """What the reply must be."""
        number = int(self.run_trace, 16) - 1
        return next(each.content for each in self._world.plan.requests if each.number == number)

    @property
    def last(self) -> Update | None:
        """What he heard last."""
        return self.lives[-1][-1] if self.lives and self.lives[-1] else None

    def hear(self, updates: list[Update]) -> None:
        """Note what the gateway sends, and whether it is true at that moment (I4)."""
        for update in updates:
            self._world.note(f"caller {self.request.key} hears {_describe_update(update)}")
            self.lives[-1].append(update)
            if isinstance(update, Started):
                self.accepted = True
            if isinstance(update, Started) and (self.run_trace, "user") not in self._postgres.messages:
                self._world.report("I1", f"{self.request.key} is accepted and not saved")
            elif isinstance(update, Finished):
                saved = self._postgres.messages.get((self.run_trace, "assistant"))
                message = update.message
                if saved != (message.id, message.content, message.token_count):
                    self._world.report("I4", f"{self.request.key} is done and not saved so")


class Gateway:
    """One gateway: what `gateway.service` puts together, as far as chats need it."""

    def __init__(self, process: Process, postgres: Postgres, bus: SimBus) -> None:
        self.process = process
        self.bus = bus
        self.pool = SimPool(process, postgres)
        self.claims = Claims(cast(Any, self.pool))
        self.log = SimLog(self.pool)
        self.runs = FollowedRuns(cast(Any, bus), self.log)
        self._postgres = postgres

    async def serve(self) -> None:
        """As `gateway.service`: tick, and drain at the end."""
        async with self.runs.run_ticker():
            await self.process.stop.wait()
            await self.runs.drain()

    async def ask(self, caller: Caller) -> None:
        """POST /v1/chat or /v1/chat/stream."""
        request = caller.request
        now = self._postgres.time()
        caller.lives.append([])
        chat = ChatRequested(
            trace_id=caller.trace_id,
            attempt=1,
            account_id=ACCOUNT,
            agent_id=AGENT,
            conversation_id=caller.conversation_id or "",
            new_conversation=caller.is_new,
            message_id=f"m{request.number}",
            message=request.key,
            form="form1" if request.streaming else "json",
            requested_at=now,
            deadline=now,
            on_busy=request.on_busy,
        )
        if self.runs.stopping:
            caller.refused = "server_shutdown"
            return
        try:
            request_of_chat = cast(Any, _HttpRequest(self))
            view = ViewKind(streaming=chat.form != "json")
            wanted = RunRequest(form=chat.form, agent_id=AGENT, view=view)
            started = await Submission(request_of_chat, chat, IdempotencyKey(), wanted, None).submit()
            caller.run_trace = started.claim.trace_id
            async with contextlib.aclosing(started.run):
                await self._listen(caller, started.run)
        except Refusal as refusal:
            caller.refused = refusal.row.code
        except (BusUnavailable, DatabaseUnavailable):
            caller.refused = "overloaded"

    async def join(self, caller: Caller) -> None:
        """GET /v1/chat/{trace_id}/events."""
        caller.lives.append([])
        try:
            run = await self.runs.follow(
                caller.run_trace, caller.conversation_id or "", STREAM, from_beginning=True
            )
            async with contextlib.aclosing(run):
                await self._listen(caller, run)
        except (Refusal, BusUnavailable, DatabaseUnavailable):  # also of one that stops
            return

    async def _listen(self, caller: Caller, run: RunFollower) -> None:
        while True:
            caller.hear(run.take())
            if run.ended:
                return
            await run.wait()

    async def cancel(self, caller: Caller) -> None:
        """POST /v1/chat/{trace_id}/cancel."""
        caller.cancels = True  # also where the call then fails: it may have got there
        with contextlib.suppress(BusUnavailable):
            await self.bus.traces.cancel(CancelRequested(trace_id=caller.trace_id, account_id=ACCOUNT))


class _Context:
    trace_id = ""
    conversation_id: str | None = None


class _Slot:
    def hand_over(self) -> None:
        return None

    async def take(self, _trace_id: str) -> None:
        return None

    async def give_back(self) -> None:
        return None


class _HttpRequest:
    """What starting a run needs of a request to the gateway."""

    def __init__(self, services: "Gateway") -> None:
        self.services = services
        self.context = _Context()
        self.scope = {"state": {"admitted": SimpleNamespace(slot=_Slot())}}


def is_local(update: Update | None) -> bool:
    """Whether another connection may hear more."""
    return (
        update is None
        or (isinstance(update, Broken) and update.local)
        or not isinstance(update, Finished | Broken)
    )


def list_tools(processes: dict[str, Process]) -> ToolsListed:
    """What some tool-runner says. Raises BusUnavailable where there is none."""
    if any(name.startswith("tool-runner") and each.reached for name, each in processes.items()):
        return LISTED
    raise BusUnavailable("no tool-runner")


def _describe_update(update: Update) -> str:
    match update:
        case TextUpdate():
            return repr(update.text)
        case Finished():
            return f"Finished {update.message.content!r}"
        case Broken():
            return f"Broken {update.code}"
        case _:
            return type(update).__name__
