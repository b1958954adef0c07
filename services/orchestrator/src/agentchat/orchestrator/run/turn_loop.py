"""Run the turn loop: decide the next step, perform it, append the events, publish them.

Everything that happens in a run happens here. A step is performed between two appends and may be interrupted
at any moment; its events are stored at the version it was performed for, or another worker has the run.
"""

import asyncio
from functools import partial

from agentchat.contracts.ids import derive_reply_id
from agentchat.conversations.aggregate.compaction import Compact, plan_compaction, plan_smaller_prompt
from agentchat.conversations.aggregate.turn import CallModel, conclude, decide_next_step
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.run.interruption import Interruption
from agentchat.orchestrator.run.perform_step import Performer
from agentchat.runtime import logs


class Compactor:
    """Summarises earlier runs, in calls of the same model, where the agent wants that.

    Each summary is in the log before anything relies on it: whoever takes the run over continues after it.
    """

    def __init__(self, performer: Performer, interruption: Interruption) -> None:
        self._create_performer = performer
        self._wanted = performer.agent.compaction
        self._log = performer.log
        self._interruption = interruption
        self._make_failure = False
        self._has_retried = False
        self._most: int | None = None  # runs that fit into a call that asks for a summary

    async def make_room(self) -> None:
        """Before a model call: where that is expected to fill the agent's share of the window.

        Without a summary the call is made all the same: it may well fit. Raises Interrupted,
        ToolsUnavailable, and what an append does.
        """
        wanted = self._wanted
        if wanted is None or self._make_failure:
            return
        trace_id = self._log.run.trace_id
        step = plan_compaction(
            self._log.conversation, trace_id, tokens=wanted.at_tokens, keep_runs=wanted.keep_runs
        )
        if step is not None:
            await self._summarize(step.runs)

    async def retry_after_compaction(self, failure: ModelFailure) -> bool:
        """Once more, and whether the call may be made again: where it was too long. Raises as `make_room`."""
        wanted = self._wanted
        if failure.code != "context_too_long" or wanted is None or self._has_retried:
            return False
        if self._create_performer.channel.text:
            return False
        self._has_retried = True
        step = plan_smaller_prompt(self._log.conversation, self._log.run.trace_id, keep_runs=wanted.keep_runs)
        return step is not None and await self._summarize(step.runs)

    async def _summarize(self, runs: int) -> bool:
        """Of so many runs, in as many calls as that takes; whether it was done."""
        log = logs.get_logger("run")
        while runs:
            part = min(runs, self._most or runs)
            try:
                done = await self._interruption.run_unless_interrupted(
                    partial(self._create_performer.compact, Compact(part))
                )
            except ModelFailure as failure:
                if failure.code == "context_too_long" and part > 1:
                    self._most = part // 2
                    continue
                log.warning("compaction_failed", code=failure.code, kind=failure.kind, runs=part)
                self._make_failure = True
                return False
            await self._log.append(done)
            self._create_performer.cost.mark_recorded()
            log.info("context_compacted", runs=part)
            runs -= part
        return True


async def run_turn(performer: Performer, interruption: Interruption, stop: asyncio.Event) -> None:
    """Run the turn loop to the run's end. Once `stop` is set, no further model call starts.

    Raises:
        Interrupted, ModelFailure, ToolsUnavailable, and what `append` raises
    """
    log, compactor = performer.log, Compactor(performer, interruption)
    while step := decide_next_step(log.run):
        if isinstance(step, CallModel):
            if stop.is_set():
                interruption.interrupt("shutdown")
            await compactor.make_room()
        try:
            done = await interruption.run_unless_interrupted(partial(performer.perform, step))
        except ModelFailure as failure:
            if await compactor.retry_after_compaction(failure):
                continue
            raise
        await log.append(done)
        await performer.channel.announce(done)
    # Where the last reply asks for no tool, and was stored without the run's end.
    if end := conclude(log.run, message_id=derive_reply_id(log.run.trace_id), now=performer.clock.now()):
        await log.append(end)
