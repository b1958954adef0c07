"""One attempt at a run: from the frame that begins it to the end that it comes to."""

import asyncio
import contextlib
from collections.abc import Sequence

from opentelemetry.trace import SpanKind

from bus import BusUnavailable
from contracts import events, frames
from contracts.ids import reply_id
from contracts.timings import RUN_SECONDS
from contracts.values import Usage
from conversations.conversation import Conversation, Run
from conversations.errors import StoreUnavailable, VersionConflict
from conversations.turn import CallModel, Step, cancel, conclude, fail
from directory.agents import AgentConfig
from orchestrator.assignment import Assignment
from orchestrator.channel import TraceChannel
from orchestrator.credentials import credentials_of
from orchestrator.fence import Fence
from orchestrator.interruption import Interrupted
from orchestrator.listing import ToolsUnavailable
from orchestrator.models import Credentials, ModelFailure
from orchestrator.output import Output
from orchestrator.parts import Parts
from orchestrator.perform import Performer, said_in_round
from orchestrator.resume import AlreadySent, already_sent
from orchestrator.retrieval import Retriever
from orchestrator.tools import ToolDesk
from orchestrator.turn_loop import run_of, run_turn
from runtime import failpoints, genai, logs, telemetry
from runtime.postgres import DatabaseUnavailable

_APPEND_SECONDS = 10.0
_APPEND_AGAIN_SECONDS = 0.25
_NOTE_SECONDS = 1.0


class Attempt:
    """The attempt that the log has just begun for an assignment."""

    def __init__(self, parts: Parts, assignment: Assignment, agent: AgentConfig) -> None:
        self._parts = parts
        self._assignment = assignment
        self._agent = agent
        self._trace_id = assignment.trace_id
        self._clock = assignment.clock
        self._interruption = assignment.interruption
        assert assignment.lease is not None, "an attempt begins with the lease"
        readers = Fence(parts.bus, assignment.lease)
        self._channel = TraceChannel(readers, self._trace_id, self.run.attempt)
        left = RUN_SECONDS - self._clock.seconds_since(self.run.requested_at)
        self._desk = ToolDesk(parts.bus, agent, self._trace_id, self._clock, self._clock.after(left))
        self._performer: Performer | None = None
        assignment.channel = self._channel
        self._interruption.limit(left)

    @property
    def run(self) -> Run:
        """The run as far as it is in the log."""
        return run_of(self._assignment.conversation, self._trace_id)

    async def go(self) -> Run:
        """Work until the run has ended in the log.

        Raises Interrupted ("shutdown" and "lost"), VersionConflict, StoreUnavailable: then it goes on, here
        or elsewhere.
        """
        with telemetry.tracer().start_as_current_span(
            f"{genai.INVOKE_AGENT} {self._agent.name}",
            kind=SpanKind.INTERNAL,
            attributes={
                genai.OPERATION_NAME: genai.INVOKE_AGENT,
                genai.AGENT_ID: self._agent.agent_id,
                genai.AGENT_NAME: self._agent.name,
                genai.AGENT_VERSION: str(self._agent.version),
                genai.CONVERSATION_ID: self._assignment.conversation.conversation_id,
            },
        ):
            try:
                await self._work()
            except ModelFailure as failure:
                await self._fail(failure.code, str(failure), failure.kind)
            except ToolsUnavailable as error:
                await self._fail("overloaded", "The agent's tools cannot be reached just now.", str(error))
            except Interrupted as interrupted:
                await self._stop(interrupted)
            finally:
                if self.run.state != "running":
                    self._desk.run_ended()
                await self._desk.close()
        return self.run

    async def _work(self) -> None:
        already = await self._begin()
        model = await self._parts.models.of(self._agent.provider)
        credentials = await self._credentials()
        self._performer = Performer(
            agent=self._agent,
            credentials=credentials,
            model=model,
            listings=self._parts.listings,
            desk=self._desk,
            channel=self._channel,
            clock=self._clock,
            already=already,
            retriever=Retriever(self._parts.pool, self._agent, self._parts.embedder),
            output=Output(self._agent, self._parts.schema_checks, model, credentials.base_url),
        )
        await run_turn(
            self._assignment.conversation,
            self._trace_id,
            perform=self._perform,
            append=self._append,
            announce=self._announce,
        )
        await self._conclude()

    async def _begin(self) -> AlreadySent:
        """Say that the attempt has begun; a later one, behind what earlier ones have said."""
        run = self.run
        if run.attempt == 1:
            await self._channel.accept(self._assignment.conversation.conversation_id)
            failpoints.reach("orchestrator-accepted")
            return AlreadySent()
        try:
            kept = await self._parts.bus.frames_of(self._trace_id)
        except BusUnavailable:
            kept = []  # readers will not find this to go on from what they have, and say so
        already = already_sent(run, kept)
        # Kept for the log should the run end before its next round begins.
        self._channel.begin_round(len(run.rounds) + 1, already.text, already.cuts)
        await self._channel.resume(self._assignment.conversation.conversation_id, run.text + already.text)
        await self._announce_missed(run, already)
        return already

    async def _announce_missed(self, run: Run, already: AlreadySent) -> None:
        """Sources, calls and results that were recorded, but whose frames did not go out."""
        if run.sources is not None and not already.sourced:
            await self._channel.send(frames.SourcesFound(seq=0, attempt=0, sources=run.sources))
        for each in run.rounds:
            for call in each.calls:
                if call.call_id not in already.called:
                    await self._channel.send(_called_frame(each.number, call.call_id, call.name, call.input))
                if call.output is not None and call.call_id not in already.returned:
                    await self._channel.send(_returned_frame(call.call_id, call.is_error))

    async def _credentials(self) -> Credentials:
        try:
            return await credentials_of(self._parts, self._agent)
        except DatabaseUnavailable as error:
            raise StoreUnavailable(str(error)) from error

    async def _perform(self, conversation: Conversation, step: Step) -> Sequence[events.Event]:
        performer = self._performer
        assert performer is not None
        if isinstance(step, CallModel) and self._parts.stop.is_set():
            self._interruption.interrupt("shutdown")
        return await self._interruption.allowed(lambda: performer.perform(self._trace_id, conversation, step))

    async def _append(self, conversation: Conversation, new: Sequence[events.Event]) -> Conversation:
        """Append, again and again for some seconds if Postgres is away: the store knows its own events."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _APPEND_SECONDS
        while True:
            try:
                failpoints.reach("orchestrator-before-append")
                following = await self._parts.store.append(conversation, new)
                failpoints.reach("orchestrator-appended")
            except StoreUnavailable:
                if loop.time() > end:
                    raise
                await asyncio.sleep(_APPEND_AGAIN_SECONDS)
            else:
                self._assignment.conversation = following
                return following

    async def _announce(self, done: Sequence[events.Event]) -> None:
        """The live frames of what was appended; then the tools that it asks for are set to work."""
        assert self._performer is not None
        for event in done:
            match event:
                case events.ToolCalled():
                    await self._channel.send(
                        _called_frame(event.round, event.call_id, event.name, event.input)
                    )
                case events.ToolReturned():
                    await self._channel.send(_returned_frame(event.call_id, event.is_error))
                case events.SourcesRetrieved():
                    await self._channel.send(frames.SourcesFound(seq=0, attempt=0, sources=event.sources))
                case events.ModelReplied():
                    self._performer.round_ends()
                case _:
                    pass
        self._desk.recorded(event.call_id for event in done if isinstance(event, events.ToolReturned))
        await self._performer.announce_calls(done)

    async def _conclude(self) -> None:
        """For a log whose last reply asked for no tool and that has no end yet."""
        end = conclude(self.run, message_id=reply_id(self.run.trace_id), now=self._clock.now())
        await self._append(self._assignment.conversation, end)

    async def fail(self, code: str, message: str) -> Run:
        """End the run without a reply, whatever it was doing."""
        await self._fail(code, message, code)
        return self.run

    async def _fail(self, code: str, message: str, kind: str) -> None:
        logs.get_logger("run").warning("run_failing", code=code, kind=kind)
        await self._end(fail(self.run, code, message, self._clock.now(), self._spent()))

    async def _stop(self, interrupted: Interrupted) -> None:
        match interrupted.reason:
            case "cancelled":
                await self._end(cancel(self.run, self._clock.now(), self._spent()))
            case "deadline":
                await self._fail("deadline_exceeded", "The run took longer than ten minutes.", "deadline")
            case "shutdown":
                await self._note_hand_over()
                raise interrupted
            case "lost":
                raise interrupted

    async def _note_hand_over(self) -> None:
        """That this attempt did not fail is known here alone, and what its model call under way has cost."""
        note = events.ReplyLost(
            trace_id=self._trace_id,
            at=self._clock.now(),
            round=self._channel.round or len(self.run.rounds),
            usage=self._unrecorded(),
        )
        with contextlib.suppress(StoreUnavailable, VersionConflict, TimeoutError):
            async with asyncio.timeout(_NOTE_SECONDS):
                await self._parts.store.append(self._assignment.conversation, [note])

    async def _end(self, end: Sequence[events.Event]) -> None:
        """What was said of the round under way is kept with the end; a run that has ended stays as it is."""
        if not end:
            return
        said = said_in_round(self._channel, self._trace_id, self._clock.now())
        await self._append(self._assignment.conversation, [*said, *end])

    def _spent(self) -> Usage:
        return self.run.usage + self._unrecorded()

    def _unrecorded(self) -> Usage:
        return self._performer.unrecorded if self._performer is not None else Usage()


def _called_frame(round_: int, call_id: str, name: str, arguments: dict[str, object]) -> frames.ToolCalled:
    return frames.ToolCalled(seq=0, attempt=0, round=round_, call_id=call_id, name=name, input=arguments)


def _returned_frame(call_id: str, is_error: bool) -> frames.ToolReturned:
    return frames.ToolReturned(seq=0, attempt=0, call_id=call_id, is_error=is_error)
