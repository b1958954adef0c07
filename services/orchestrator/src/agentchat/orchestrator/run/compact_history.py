"""Compact a long conversation: have the model summarise earlier runs, and append the summary.

The rules are in `conversations.aggregate.compaction_rules`.
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.attached_files import name_files
from agentchat.conversations.aggregate.compaction_rules import (
    Compact,
    find_last_covered_version,
    plan_compaction,
    plan_smaller_prompt,
)
from agentchat.conversations.aggregate.model_messages import build_summary_prompt
from agentchat.directory.compaction_settings import Compaction
from agentchat.directory.model_parameters import build_summary_parameters
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.models.model_interface import extract_summary, hash_text
from agentchat.orchestrator.run.interruption import Interruption
from agentchat.orchestrator.run.perform_step import Performer
from agentchat.runtime import logs


class Compactor:
    """Summarises earlier runs with the agent's own model, if the agent's `compaction` says so.

    A summary is appended before it is used, so that the next worker continues after it.
    """

    def __init__(self, performer: Performer, interruption: Interruption) -> None:
        self._performer = performer
        self._wanted = performer.agent.compaction
        self._log = performer.log
        self._interruption = interruption
        self._failed = False
        self._has_retried = False
        self._most: int | None = None  # runs that fit into one summary call

    async def make_room(self) -> None:
        """Summarise before a model call that is expected to exceed the agent's share of the window.

        Without a summary the call is made all the same: it may fit. Raises Interrupted, ToolsUnavailable, and
        what `append` raises.
        """
        wanted = self._wanted
        if wanted is None or self._failed:
            return
        trace_id = self._log.run.trace_id
        step = plan_compaction(
            self._log.conversation, trace_id, tokens=wanted.at_tokens, keep_runs=wanted.keep_runs
        )
        if step is not None:
            await self._summarize(step.runs)

    async def retry_after_compaction(self, failure: ModelFailure) -> bool:
        """Summarise once more after a call that was too long; return True if the call may be repeated."""
        wanted = self._wanted
        if failure.code != "context_too_long" or wanted is None or self._has_retried:
            return False
        if self._performer.channel.text:
            return False
        self._has_retried = True
        step = plan_smaller_prompt(self._log.conversation, self._log.run.trace_id, keep_runs=wanted.keep_runs)
        return step is not None and await self._summarize(step.runs)

    async def _summarize(self, runs: int) -> bool:
        """Summarise this number of runs, in as many calls as needed. Return True if that succeeded."""
        log = logs.get_logger("run")
        while runs:
            part = min(runs, self._most or runs)
            try:
                done = await self._interruption.run_unless_interrupted(
                    partial(self._request_summary, Compact(part))
                )
            except ModelFailure as failure:
                if failure.code == "context_too_long" and part > 1:
                    self._most = part // 2
                    continue
                log.warning("compaction_failed", code=failure.code, kind=failure.kind, runs=part)
                self._failed = True
                return False
            await self._log.append(done)
            self._performer.cost.mark_recorded()
            log.info("context_compacted", runs=part)
            runs -= part
        return True

    async def _request_summary(self, step: Compact) -> Sequence[events.Event]:
        """Have the model summarise some runs, in a call with the same cached prefix as others.

        A replay reuses the recorded summary of the same runs by the same model and instruction: the model
        would write another each time, and everything after it would differ.
        """
        performer, run, conversation = self._performer, self._log.run, self._log.conversation
        agent, recorded = performer.agent, performer.recorded_summary
        wanted = agent.compaction or Compaction()
        by_provider, instruction = wanted.by == "provider", wanted.instruction
        covered = find_last_covered_version(conversation, run.trace_id, step.runs)
        wanted_key = (run.model, hash_text(instruction), covered)
        if recorded is not None and wanted_key == (
            recorded.model,
            recorded.prompt_sha256,
            recorded.through_version,
        ):
            return (replace(recorded, trace_id=run.trace_id, at=performer.clock.now()),)
        prompt = build_summary_prompt(
            *(conversation, run.trace_id, step, "" if by_provider else instruction),
            tools_offered=bool(await performer.offered.load()),
            provider=agent.provider,
        )
        call = replace(
            await performer.build_summary_call(run, prompt),
            parameters=build_summary_parameters(agent.provider, agent.parameters),
            use_tools=False,
            compaction=instruction if by_provider else None,
        )
        meter = performer.cost.begin(len(run.replies) + 1)
        reply = await performer.replies.request_without_streaming(call, meter)
        summary, own = extract_summary(reply)
        if not summary:
            raise ModelFailure("provider_error", kind="no_summary")
        covered_runs = tuple(each for each in conversation.runs if each.version <= covered)
        summary = "\n\n".join(filter(None, (summary, name_files(conversation.seed, covered_runs))))
        return (
            events.ContextCompacted(
                trace_id=run.trace_id,
                at=performer.clock.now(),
                through_version=covered,
                summary=summary,
                model=run.model,
                prompt_sha256=hash_text(instruction),
                usage=meter.usage,
                provider_data=None if own is None else {agent.provider: own},
            ),
        )
