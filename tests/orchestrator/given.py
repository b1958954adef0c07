"""A system around orchestrators: a database with an account, a bus, callers who ask and listen."""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from nats.aio.client import Client

from agentchat.administration import admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.agent_versions import change_agent, create_agent, delete_agent
from agentchat.bus.bus import Bus
from agentchat.contracts import events, frames, subjects, wire
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import CancelRequested, ChatRequested, DeadLettered
from agentchat.contracts.values import AgentFacts
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.opening_rules import StartRun, decide_opening
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.directory.secret_encryption import Sealer
from agentchat.orchestrator.services import DEFAULT, Timings
from agentchat.orchestrator.settings import Settings
from agentchat.orchestrator.worker import run_worker
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.administrator import administrator
from tests.orchestrator.scripted import Answer, Exchange, ScriptedProvider

F = TypeVar("F", bound=frames.LiveFrame)

SECRET = base64.b64encode(bytes(range(32))).decode()
SECONDS = 40.0
_ENDS = frames.Completed | frames.Failed | frames.Refused


class Listener:
    """Hears a trace from before its request was made."""

    def __init__(self, bus: Bus, request: ChatRequested) -> None:
        self.request = request
        self.frames: list[frames.Frame] = []
        self._bus = bus
        self._news = asyncio.Event()

    def on_message(self, frame: frames.Frame) -> None:
        self.frames.append(frame)
        self._news.set()

    async def until(self, kind: type[F], *, count: int = 1, seconds: float = SECONDS) -> F:
        """The first frame of that kind, or the one of that number."""
        async with asyncio.timeout(seconds):
            while True:
                if len(found := self.of(kind)) >= count:
                    return found[count - 1]
                self._news.clear()
                await self._news.wait()

    async def wait_until_ended(self) -> None:
        """Completed, failed or refused."""
        async with asyncio.timeout(SECONDS):
            while not any(isinstance(frame, _ENDS) for frame in self.frames):
                self._news.clear()
                await self._news.wait()

    async def wait_until_said(self, text: str) -> None:
        async with asyncio.timeout(SECONDS):
            while text not in self.text:
                self._news.clear()
                await self._news.wait()

    def of(self, kind: type[F]) -> list[F]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    @property
    def text(self) -> str:
        """The text of the deltas, as a reader puts it together: in order, without overtaken attempts."""
        said, attempt = "", 0
        for frame in self.frames:
            if frame.seq and frame.attempt >= attempt:
                attempt = frame.attempt
                said += frame.text if isinstance(frame, frames.DeltaFrame) else ""
        return said


class World:
    """What a test asks for and looks at."""

    def __init__(
        self, bus: Bus, log: Log, pool: Pool, settings: Settings, account_id: str, provider: ScriptedProvider
    ) -> None:
        self.provider = provider
        self.bus = bus
        self.log = log
        self.settings = settings
        self.account_id = account_id
        self.pool = pool

    async def create_stranger_world(self) -> "World":
        """The same system for another account."""
        return self.create_account_world(await create_account(self.pool))

    def create_account_world(self, account_id: str) -> "World":
        return World(self.bus, self.log, self.pool, self.settings, account_id, self.provider)

    def will(self, *answers: Answer) -> None:
        """What the model says to the next calls; the last answer is given for ever."""
        self.provider.will(*answers)

    @property
    def calls(self) -> list[Exchange]:
        """Those of the model since then."""
        return self.provider.calls

    async def agent(self, model: str = "demo", *, agent_id: str | None = None, **draft: Any) -> str:
        wanted = {"name": "test", "provider_key": "offline"} | draft
        async with acquire_connection(self.pool, seconds=10) as conn:
            return await create_agent(
                conn,
                Sealer.from_setting(SECRET),
                self.account_id,
                AgentDraft(model=model, **wanted),
                actor="tests",
                agent_id=agent_id,
            )

    async def delete_agent(self, agent_id: str) -> None:
        async with acquire_connection(self.pool, seconds=10) as conn:
            await delete_agent(conn, agent_id, actor="tests")

    async def change_agent(self, agent_id: str, **changes: Any) -> None:
        async with acquire_connection(self.pool, seconds=10) as conn:
            await change_agent(
                conn, Sealer.from_setting(SECRET), agent_id, AgentChanges(**changes), actor="tests"
            )

    def request(self, agent_id: str, message: str = "Hello", **fields: Any) -> ChatRequested:
        now = datetime.now(UTC)
        request = ChatRequested(
            trace_id=os.urandom(16).hex(),
            attempt=1,
            account_id=self.account_id,
            agent_id=agent_id,
            conversation_id=make_id(),
            new_conversation=True,
            message_id=make_id(),
            message=message,
            form="form1",
            requested_at=_text(now),
            deadline=_text(now + timedelta(seconds=15)),
        )
        return msgspec.structs.replace(request, **fields)

    def again(self, request: ChatRequested, attempt: int = 2) -> ChatRequested:
        """The same request, published another time."""
        return msgspec.structs.replace(request, attempt=attempt)

    async def request_again(self, request: ChatRequested) -> Listener:
        """As the sweeper does."""
        listener = await self.listen(request)
        await self.bus.queues.request_chat(self.again(request))
        return listener

    async def cancel(self, request: ChatRequested) -> None:
        asked = CancelRequested(trace_id=request.trace_id, account_id=request.account_id)
        await self.bus.traces.cancel(asked)

    async def listen(self, request: ChatRequested) -> Listener:
        listener = Listener(self.bus, request)
        await self.bus.traces.follow_trace(request.trace_id, listener.on_message)
        return listener

    async def ask(self, agent_id: str, message: str = "Hello", **fields: Any) -> Listener:
        listener = await self.listen(self.request(agent_id, message, **fields))
        await self.bus.queues.request_chat(listener.request)
        return listener

    async def chat(self, agent_id: str, message: str = "Hello", **fields: Any) -> Listener:
        """A message whose run has completed."""
        listener = await self.ask(agent_id, message, **fields)
        await listener.until(frames.Completed)
        return listener

    async def store_open_run(self, request: ChatRequested, *more: events.Event) -> Conversation:
        """The request's run in the log, as a worker of old left it, begun when it was requested."""
        conversation = await self.log.load_conversation(request.conversation_id)
        facts = AgentFacts(agent_version=1, model="demo-shop-1")
        opening = decide_opening(conversation, request, facts, now=request.requested_at, expired=False)
        assert isinstance(opening, StartRun)
        async with open_store(self.settings.database_url) as store:
            return await store.append(conversation, [*opening.events, *more])

    async def go_on(self, before: Listener, message: str, **fields: Any) -> Listener:
        """Another message of the same conversation."""
        earlier = before.request
        fields = {"conversation_id": earlier.conversation_id, "new_conversation": False} | fields
        return await self.ask(earlier.agent_id, message, **fields)

    async def continue_chat(self, before: Listener, message: str, **fields: Any) -> Listener:
        """Another message of the same conversation, whose run has completed."""
        listener = await self.go_on(before, message, **fields)
        await listener.until(frames.Completed)
        return listener

    async def publish_raw(self, data: bytes) -> None:
        """Something on the subject of requests that this system would not say."""
        async with self.connect_nats() as nats:
            await nats.jetstream().publish(subjects.format_requests(self.account_id), data)

    async def read_dead_letters(self, stream: str) -> list[DeadLettered]:
        """What is in DEAD of a stream."""
        found = []
        async with self.connect_nats() as nats:
            jetstream = nats.jetstream()
            count = (await jetstream.stream_info("DEAD")).state.messages
            for sequence in range(1, count + 1):
                message = await jetstream.get_msg("DEAD", sequence)
                if message.subject == subjects.format_dead(stream):
                    found.append(wire.decode_message(DeadLettered, message.data or b""))
        return found

    @contextlib.asynccontextmanager
    async def connect_nats(self) -> AsyncIterator[Client]:
        nats = Client()
        await nats.connect(self.settings.nats_url)
        try:
            yield nats
        finally:
            await nats.close()

    async def conversation(self, listener: Listener) -> Conversation:
        return await self.log.load_conversation(listener.request.conversation_id)

    async def run(self, listener: Listener) -> Run:
        run = (await self.conversation(listener)).run(listener.request.trace_id)
        assert run is not None
        return run

    async def outputs(self, listener: Listener) -> dict[str, str]:
        """What the run's tools returned, by call id, as the log has it."""
        stored = await self.events(listener)
        return {event.call_id: event.output for event in stored if isinstance(event, events.ToolReturned)}

    async def events(self, listener: Listener) -> list[events.Event]:
        return await self.log.read_events(listener.request.conversation_id)

    @contextlib.asynccontextmanager
    async def worker(
        self, name: str = "orchestrator-1", *, timings: Timings = DEFAULT, **changes: Any
    ) -> AsyncIterator[asyncio.Event]:
        """An orchestrator in this process, with changed settings; yields what stops it."""
        stop = asyncio.Event()
        settings = msgspec.structs.replace(self.settings, **changes)
        task = asyncio.create_task(run_worker(settings, name, stop, timings))
        try:
            yield stop
        finally:
            stop.set()
            async with asyncio.timeout(SECONDS):
                await task


async def wait_until_logged(
    lines: Sequence[Mapping[str, Any]], wanted: Callable[[Mapping[str, Any]], bool], count: int = 1
) -> Mapping[str, Any]:
    """The last of the first `count` lines that are wanted, of those that `capture_logs` keeps."""
    async with asyncio.timeout(SECONDS):
        while len(found := list(filter(wanted, lines))) < count:  # noqa: ASYNC110 - lines have no event
            await asyncio.sleep(0.02)
    return found[count - 1]


def format_time_ago(seconds: float) -> str:
    """A time that long before now."""
    return _text(datetime.now(UTC) - timedelta(seconds=seconds))


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def create_account(pool: Pool) -> str:
    return (await admin_accounts.create(administrator(pool), NewAccount(name="Tests", plan="Unlimited"))).id
