"""Run one attempt, from its first frame to the end of the run, a pause or a hand-over.

Everything that happens in a run happens in its step loop, `run_steps`.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace
from opentelemetry.trace import SpanKind

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events, frames
from agentchat.contracts.ids import derive_reply_id
from agentchat.contracts.timings import RUN_SECONDS
from agentchat.contracts.values import UnfinishedReply
from agentchat.conversations.aggregate.busy_rules import find_interrupting
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.next_step import CallModel, conclude, decide_next_step
from agentchat.conversations.aggregate.run_ends import cancel, fail, save_interrupted_reply
from agentchat.conversations.errors import VersionConflict
from agentchat.directory.agent_config import AgentConfig, use_fallback
from agentchat.directory.request_parameters import override_parameters
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.models.thinking import ask_for_thinking
from agentchat.orchestrator.output.output_spec import OutputSpec
from agentchat.orchestrator.request_stages import LeasedRequest, StartedAttempt
from agentchat.orchestrator.run.channel import LeaseFence, TraceChannel, build_end_frame
from agentchat.orchestrator.run.compact_history import Compactor
from agentchat.orchestrator.run.endings import release_slot_and_lease
from agentchat.orchestrator.run.fall_back import (
    AnsweringModel,
    ModelChanger,
    describe_failure,
    leave_out_thinking,
)
from agentchat.orchestrator.run.interrupted_text import SentOutput, read_sent_output
from agentchat.orchestrator.run.interruption import Interrupted, Interruption, is_cancelled
from agentchat.orchestrator.run.model_files import ModelFiles
from agentchat.orchestrator.run.model_reply import ReplyStreamer, RoundCost
from agentchat.orchestrator.run.perform_step import Performer
from agentchat.orchestrator.run.retrieval import Retriever
from agentchat.orchestrator.run.run_log import RunLog
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.tools.offered_tools import OfferedTools
from agentchat.orchestrator.tools.tool_calls import RunToolCalls
from agentchat.orchestrator.tools.tool_list_cache import ToolsUnavailable
from agentchat.runtime import failpoints, genai_attributes, logs, metrics, tracing
from agentchat.runtime.postgres import DatabaseUnavailable


async def run_attempt(services: WorkerServices, started: StartedAttempt) -> None:
    """Run the step loop until the log has the run's end or a wait for approval, and publish that.

    Raises:
        Interrupted ("shutdown" and "lost"), VersionConflict, DatabaseUnavailable: The run continues later,
            here or at another worker.
    """
    attempt = RunAttempt(services, started)
    logger, request = logs.get_logger("run"), started.request
    logger.info("run_started", attempt=attempt.log.run.attempt)
    if attempt.log.run.attempt > 1:  # the slot may have expired with its worker
        metrics.TAKEOVERS.inc()
        await services.limiter.hold([(request.account_id, request.trace_id)])
    try:
        await attempt.run()
    except (Interrupted, VersionConflict, DatabaseUnavailable):
        raise
    except Exception:
        logger.exception("run_broke")
        await attempt.fail("internal_error", "An internal error occurred.", "broke")
    finally:
        metrics.DELTAS.inc(attempt.channel.deltas)
    run = attempt.log.run
    if run.pending:
        failpoints.reach("orchestrator-paused")
        logger.info("run_paused", approvals=[each.id for call in run.pending for each in call.pending])
        await announce_pause(services, started, attempt.channel)
        return
    seconds = started.clock.seconds_since(run.requested_at)
    metrics.RUNS_ENDED.labels(state=run.state, code=run.code or "").inc()
    metrics.RUN_SECONDS.labels(state=run.state).observe(seconds)
    logger.info(
        "run_ended",
        state=run.state,
        code=run.code,
        rounds=len(run.rounds),
        tokens=run.usage.total,
        seconds=round(seconds, 3),
    )
    await announce_end(services, started, run, attempt.channel)


class RunAttempt:
    """The attempt that the log has just recorded. `log` appends its events, `channel` sends its frames."""

    def __init__(self, services: WorkerServices, started: StartedAttempt) -> None:
        self._services = services
        self._started = started
        self._cost = RoundCost()
        self.log = RunLog(
            services.store, services.leases, started.conversation, started.trace_id, started.lease
        )
        run = self.log.run
        timings, fence = services.timings, LeaseFence(services.bus.traces, started.lease)
        self.channel = TraceChannel(fence, run.trace_id, run.attempt, alive_seconds=timings.alive_seconds)
        services.register.enter(started.to_running(self.channel))
        left = RUN_SECONDS + run.paused_seconds - started.clock.seconds_since(run.requested_at)
        started.interruption.limit(left)
        self._tools = RunToolCalls(
            *(services.bus, started.agent, run, started.clock, started.clock.after(left)),
            conversation_id=started.conversation.conversation_id,
            user_id=started.conversation.user_id,
            tool_seconds=timings.tool_seconds,
            slack_seconds=timings.tool_slack_seconds,
        )

    async def run(self) -> None:
        """Work until the run has ended or paused in the log. Raises what `run_attempt` does."""
        agent = self._started.agent
        with tracing.open_span(
            f"{genai_attributes.INVOKE_AGENT} {agent.name}",
            kind=SpanKind.INTERNAL,
            attributes={
                genai_attributes.OPERATION_NAME: genai_attributes.INVOKE_AGENT,
                genai_attributes.AGENT_ID: agent.agent_id,
                genai_attributes.AGENT_NAME: agent.name,
                genai_attributes.AGENT_VERSION: str(agent.version),
                genai_attributes.CONVERSATION_ID: self.log.conversation.conversation_id,
                **({"user.id": user_id} if (user_id := self.log.conversation.user_id) else {}),
            },
        ):
            try:
                await self._run_steps()
            except ModelFailure as failure:
                message = describe_failure(self.log.run, failure)
                await self.fail(failure.code, message, failure.kind, failure.provider_message)
            except ToolsUnavailable as error:
                await self.fail(
                    "overloaded", "The agent's tools cannot be reached at the moment.", str(error)
                )
            except Interrupted as interrupted:
                await self._stop(interrupted)
            finally:
                self._tools.forget_recorded(self.log.run)
                await self._tools.close()

    async def fail(self, code: str, message: str, kind: str, provider_message: str = "") -> None:
        """End the run without a reply."""
        logs.get_logger("run").warning("run_failing", code=code, kind=kind)
        unfinished = self._describe_unfinished()
        await self._end(fail(self.log.run, code, message, self._get_now(), unfinished, provider_message))

    async def _run_steps(self) -> None:
        performer = await self._create_performer(await self._announce_attempt())
        failing = self._services.failing_models
        changer = ModelChanger(performer, self._started.agent, failing, self._prepare_model)
        await run_steps(performer, self._started.interruption, self._services.stop, changer)
        if self.log.run.pending and await is_cancelled(self._services.bus.traces, self.log.run.trace_id):
            raise Interrupted("cancelled")  # cancelled before the pause was known

    async def _announce_attempt(self) -> SentOutput:
        """Send the attempt's first frames; return what earlier attempts have sent."""
        run, conversation_id = self.log.run, self.log.conversation.conversation_id
        if run.attempt == 1:
            await self.channel.accept(conversation_id)
            failpoints.reach("orchestrator-accepted")
            return SentOutput()
        try:
            kept = await self._services.bus.traces.read_frames(run.trace_id)
        except BusUnavailable:
            kept = []  # readers notice that the offset does not match, and repair
        already = read_sent_output(run, kept)
        await self.channel.resume(conversation_id, run, already)
        return already

    async def _create_performer(self, already: SentOutput) -> Performer:
        services = self._services
        answering = await self._prepare_model(use_fallback(self._started.agent, self.log.run.fallback))
        return Performer(
            log=self.log,
            agent=answering.agent,
            replies=answering.replies,
            offered=OfferedTools(services.listings, answering.agent, self.log),
            histories=services.histories,
            tools=self._tools,
            channel=self.channel,
            clock=self._started.clock,
            cost=self._cost,
            already=already,
            retriever=Retriever(services.pool, answering.agent, services.embedder),
            files=ModelFiles(services.files, services.conversions, answering.agent.account_id),
            output=answering.output,
        )

    async def _prepare_model(self, agent: AgentConfig) -> AnsweringModel:
        """Prepare calls of the model. Raises ModelFailure if there is no readable key for it."""
        services, run = self._services, self.log.run
        agent = ask_for_thinking(leave_out_thinking(agent, run))
        model = await services.models.get_model(agent.provider)
        credentials = services.models.resolve_credentials(agent)
        calling = replace(agent, parameters=override_parameters(agent, run.parameters))
        output = OutputSpec(calling, services.schema_checks, model, credentials.base_url, run.output_schema)
        user = services.agents.hash_user(agent.account_id, self.log.conversation.user_id)
        replies = ReplyStreamer(
            *(model, agent.provider, credentials, self.channel, output, user),
            shows_reasoning=agent.reasoning == "summary",
        )
        return AnsweringModel(agent, replies, output)

    async def _stop(self, interrupted: Interrupted) -> None:
        match interrupted.reason:
            case "cancelled":
                await self.log.refresh()
                received = find_interrupting(self.log.run)
                by = None if received is None else received.message.trace_id
                unfinished = self._describe_unfinished()
                await self._end(cancel(self.log.run, self._get_now(), unfinished, interrupted_by=by))
            case "deadline":
                await self.fail("deadline_exceeded", "The run took longer than ten minutes.", "deadline")
            case "shutdown":
                await self._record_hand_over()
                raise interrupted
            case "lost":
                raise interrupted

    async def _record_hand_over(self) -> None:
        """Record that this attempt did not fail, and the cost of its unfinished model call."""
        run, unfinished = self.log.run, self._describe_unfinished()
        await self.log.append_once(
            events.ReplyLost(
                trace_id=run.trace_id,
                at=self._get_now(),
                round=self.channel.round or len(run.rounds),
                usage=unfinished.usage,
                model=unfinished.model,
                first_token_ms=unfinished.first_token_ms,
            )
        )

    async def _end(self, end: Sequence[events.Event]) -> None:
        """Append the end, after the text of the round under way. A run that has ended stays as it is."""
        if end:
            streamed = self.channel.build_text_events(self._get_now())
            await self.log.append(save_interrupted_reply(self.log.run, streamed, end))

    def _describe_unfinished(self) -> UnfinishedReply:
        run = self.log.run
        return UnfinishedReply(
            model=run.model,
            usage=self._cost.get_unrecorded(run),
            first_token_ms=self.channel.measure_first_token(
                self._started.clock.seconds_since(run.requested_at)
            ),
        )

    def _get_now(self) -> str:
        return self._started.clock.now()


async def run_steps(
    performer: Performer, interruption: Interruption, stop: asyncio.Event, changer: ModelChanger | None = None
) -> None:
    """Run the step loop: decide the next step, perform it, append its events, announce them.

    A step is performed between two appends and may be interrupted at any moment; its events are stored at the
    version it was performed for, or another worker has the run. Once `stop` is set, no further model call
    starts. Without a `changer`, the run fails with its model.

    Raises:
        Interrupted, ModelFailure, ToolsUnavailable, and what `append` raises
    """
    log, compactor = performer.log, Compactor(performer, interruption)
    if changer is not None:
        await changer.skip_failing_model()
    while step := decide_next_step(log.run):
        if find_interrupting(log.run) is not None:
            interruption.interrupt("cancelled")
        if isinstance(step, CallModel):
            if stop.is_set():
                interruption.interrupt("shutdown")
            if not any(each.blocks is not None for each in log.run.rounds):
                await compactor.make_room()  # not within a run: its thinking is bound to what precedes it
        try:
            done = await interruption.run_unless_interrupted(partial(performer.perform, step))
        except ModelFailure as failure:
            if await compactor.retry_after_compaction(failure):
                continue
            if changer is not None and await changer.change_after(failure):
                continue
            raise
        await log.append(done)
        await performer.channel.announce(done)
    # The last step returns the run's end with its reply; a worker that died may have stored the reply alone.
    if end := conclude(log.run, message_id=derive_reply_id(log.run.trace_id), now=performer.clock.now()):
        await log.append(end)


async def announce_end(
    services: WorkerServices, leased: LeasedRequest, run: Run, channel: TraceChannel | None = None
) -> None:
    """Release what is held for a run that has ended in the log, then publish its end.

    With a `channel` the end is the last frame of the run's attempt; without one it is published again.
    """
    await release_slot_and_lease(services, leased, ended=True)
    failpoints.reach("orchestrator-before-completed")
    await _publish_last(services, leased.trace_id, build_end_frame(run), channel)


async def announce_pause(
    services: WorkerServices, leased: LeasedRequest, channel: TraceChannel | None = None
) -> None:
    """Release what is held for a run that waits for an approval, then publish that."""
    await release_slot_and_lease(services, leased)
    await _publish_last(services, leased.trace_id, frames.Paused(seq=0, attempt=0), channel)


async def _publish_last(
    services: WorkerServices, trace_id: str, frame: frames.Frame, channel: TraceChannel | None
) -> None:
    if channel is not None:
        await channel.send(frame)
    else:
        await services.bus.traces.publish_frame(trace_id, frame)
