"""The steps of a run, done: each returns the events that are to be appended for it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from contracts import events
from contracts.ids import reply_id
from contracts.values import ToolSpec, Usage
from conversations.conversation import Call, Conversation, Run, evolve_all
from conversations.history import prompt_for
from conversations.turn import CallModel, Retrieve, RunTools, Step, conclude
from directory.agents import AgentConfig
from orchestrator import model_span
from orchestrator.calls import asked_for, sendable
from orchestrator.channel import TraceChannel
from orchestrator.clock import RunClock
from orchestrator.listing import ToolListings
from orchestrator.models import Credentials, Meter, Model, ModelCall, ModelFailure, OnText, Reply
from orchestrator.models.continuation import Seam
from orchestrator.models.prefix import prompt_sha256, tools_sha256
from orchestrator.output import Output
from orchestrator.resume import AlreadySent
from orchestrator.retrieval import Retriever
from orchestrator.turn_loop import run_of
from runtime import failpoints, logs

_BEFORE_GOING_ON_SECONDS = 0.25
_PAUSED = "The model provider paused its reply and left it unfinished."


class Desk(Protocol):
    """Where the calls of a run are answered: `tools.ToolDesk`, or what a log holds of them."""

    async def ask(self, calls: Iterable[events.ToolCalled | Call], offered: Mapping[str, ToolSpec]) -> None:
        """Have these calls run, while they are waited for."""

    async def collect(
        self, round_number: int, calls: tuple[Call, ...], offered: Mapping[str, ToolSpec]
    ) -> tuple[events.ToolReturned, ...]:
        """What the calls of a round came to, in their order."""


class Performer:
    """Performs the steps of one attempt. `already` is what earlier attempts have sent of the next round."""

    def __init__(
        self,
        *,
        agent: AgentConfig,
        credentials: Credentials,
        model: Model,
        listings: ToolListings,
        desk: Desk,
        channel: TraceChannel,
        clock: RunClock,
        already: AlreadySent,
        retriever: Retriever,
        output: Output,
    ) -> None:
        self._agent = agent
        self._credentials = credentials
        self._model = model
        self._listings = listings
        self._desk = desk
        self._channel = channel
        self._clock = clock
        self._already = already
        self._retriever = retriever
        self._output = output
        self._meter = Meter()
        self._offered: dict[str, ToolSpec] | None = None

    @property
    def unrecorded(self) -> Usage:
        """What the round under way has cost so far."""
        return self._meter.usage

    async def perform(self, trace_id: str, conversation: Conversation, step: Step) -> Sequence[events.Event]:
        """Do one step. Raises ModelFailure, ToolsUnavailable."""
        match step:
            case CallModel():
                return await self._call_model(conversation, run_of(conversation, trace_id), step)
            case RunTools():
                return await self._desk.collect(step.round, step.calls, await self.offered())
            case Retrieve():
                found = await self._retriever.find(run_of(conversation, trace_id).user_text)
                return (events.SourcesRetrieved(trace_id=trace_id, at=self._clock.now(), sources=found),)

    async def announce_calls(self, done: Sequence[events.Event]) -> None:
        """Have the calls run that were recorded just now and need an answer."""
        answered = {event.call_id for event in done if isinstance(event, events.ToolReturned)}
        calls = [
            event for event in done if isinstance(event, events.ToolCalled) and event.call_id not in answered
        ]
        if calls:
            await self._desk.ask(calls, await self.offered())

    async def offered(self) -> dict[str, ToolSpec]:
        """The agent's tools by the names that the model sees, the same for the whole attempt."""
        if self._offered is None:
            self._offered = {spec.name: spec for spec in await self._listings.of(self._agent)}
        return self._offered

    def round_ends(self) -> None:
        """The round's events are in the log."""
        self._meter = Meter()
        self._channel.end_round()

    async def _call_model(
        self, conversation: Conversation, run: Run, step: CallModel
    ) -> Sequence[events.Event]:
        already, self._already = self._already, AlreadySent()
        self._channel.begin_round(step.round, already.text, already.cuts)
        if already.text and run.on_interruption == "fail":
            raise ModelFailure("generation_interrupted", "The reply was interrupted.")
        offered = await self.offered()
        system = self._agent.system_prompt if run.prompt_override is None else run.prompt_override
        system = "\n\n".join(filter(None, (system, run.instructions)))
        prompt = prompt_for(
            conversation,
            run.trace_id,
            tools_offered=bool(offered),
            documents=await self._retriever.documents(run.sources),
            provider=self._agent.provider,
        )
        call = ModelCall(
            model=run.model,
            system=self._output.instructed(self._retriever.instructed(system)),
            messages=prompt.messages,
            earlier=prompt.earlier,
            parameters=self._agent.parameters,
            tools=tuple(offered.values()),
            use_tools=step.tools,
            output_schema=self._output.schema,
        )
        self._output.prepare()
        failpoints.reach("orchestrator-before-model")
        reply = await self._reply(call, run)
        _refuse_unfit(reply)
        return self._recorded(conversation, run, step, call, reply)

    async def _reply(self, call: ModelCall, run: Run) -> Reply:
        """A whole reply. One that breaks off after some text went out is gone on with, once."""
        try:
            return await self._stream(call)
        except ModelFailure as failure:
            if not failure.transient or not self._channel.said or run.on_interruption == "fail":
                raise
            logs.get_logger("run").warning("reply_broke_off", kind=failure.kind, round=self._channel.round)
        await asyncio.sleep(_BEFORE_GOING_ON_SECONDS)
        return await self._stream(call)

    async def _stream(self, call: ModelCall) -> Reply:
        if self._output.is_json:
            return await self._stream_json(call)
        sent = self._channel.said
        if not sent:
            return await self._request(call, self._channel.say)
        seam = Seam(sent)

        async def say(text: str) -> None:
            await self._channel.say(seam.join(text))

        reply = await self._request(msgspec.structs.replace(call, already_sent=sent), say)
        await self._channel.say(seam.rest())
        return reply

    async def _stream_json(self, call: ModelCall) -> Reply:
        """JSON is sent when it is whole, and only if it is the answer (docs/design.md 6)."""
        reply = await self._request(call, None)
        _refuse_unfit(reply)
        if not any(block["type"] == "tool_use" for block in reply.blocks):
            text = "".join(block["text"] for block in reply.blocks if block["type"] == "text")
            await self._output.check(reply, text)
            sent = self._channel.said  # by an attempt before this one
            if not text.startswith(sent):
                raise ModelFailure("generation_interrupted", "The reply was interrupted.")
            await self._channel.say(text[len(sent) :])
        return reply

    async def _request(self, call: ModelCall, on_text: OnText | None) -> Reply:
        with model_span.opened(self._agent.provider, call, self._meter) as span:
            reply = await self._model.stream(self._credentials, call, on_text, self._meter)
            model_span.describe(span, reply)
            return reply

    def _recorded(
        self,
        conversation: Conversation,
        run: Run,
        step: CallModel,
        call: ModelCall,
        reply: Reply,
    ) -> Sequence[events.Event]:
        offered = {spec.name: spec for spec in call.tools}
        now, said = self._clock.now(), self._channel.said
        blocks = sendable(reply.blocks, _call_ids(conversation))
        bad_inputs = {blocks[place]["id"]: problem for place, problem in reply.bad_inputs.items()}
        replied = events.ModelReplied(
            trace_id=run.trace_id,
            at=now,
            round=step.round,
            blocks=_kept(blocks, said, tools=step.tools, as_said=not self._output.is_json),
            stop_reason=reply.stop_reason,
            usage=self._meter.usage,
            provider=self._agent.provider,
            prompt_sha256=prompt_sha256(call),
            tools_sha256=tools_sha256(call),
        )
        done: list[events.Event] = [*said_in_round(self._channel, run.trace_id, now), replied]
        done += asked_for(replied, offered, bad_inputs)
        after = run_of(evolve_all(conversation, done), run.trace_id)
        done += conclude(after, message_id=reply_id(run.trace_id), now=now)
        return done


def _call_ids(conversation: Conversation) -> set[str]:
    """Every call of the thread: providers want ids that are unique in all that they are shown."""
    return {call.call_id for run in conversation.runs for each in run.rounds for call in each.calls}


def said_in_round(channel: TraceChannel, trace_id: str, now: str) -> tuple[events.Delta, ...]:
    """The text of the round under way, as its one event; () where none was said."""
    text = channel.said
    if not text:
        return ()
    return (events.Delta(trace_id=trace_id, at=now, round=channel.round, text=text, cuts=channel.cuts),)


def _kept(
    blocks: tuple[dict[str, Any], ...], said: str, *, tools: bool, as_said: bool
) -> tuple[dict[str, Any], ...]:
    """The blocks that go back to the model: without calls where none were allowed, and with the text that
    was said, which is more than the reply's own where it went on with an interrupted one.
    """
    if not tools:
        blocks = tuple(block for block in blocks if block["type"] != "tool_use")
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    if not as_said or text == said:
        return blocks
    thinking = tuple(block for block in blocks if block["type"].endswith("thinking"))
    rest = tuple(block for block in blocks if block["type"] != "text" and block not in thinking)
    return (*thinking, *(({"type": "text", "text": said},) if said else ()), *rest)


def _refuse_unfit(reply: Reply) -> None:
    """A reply that is none. One that was cut by a limit is one as far as it goes, and one with a stop reason
    that is new to us is taken as it is.
    """
    if reply.stop_reason == "refusal":
        raise ModelFailure("provider_refused")
    if reply.stop_reason == "model_context_window_exceeded" and not reply.blocks:
        raise ModelFailure("context_too_long")
    if reply.stop_reason == "pause_turn":  # of the provider's own tools, which no agent here has
        raise ModelFailure("provider_error", _PAUSED, kind="pause_turn")
