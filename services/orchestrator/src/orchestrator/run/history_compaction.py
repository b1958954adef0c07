"""Room in the model's context: earlier runs are summarised, in calls of the same model, before its next call.

Each summary is in the log before anything relies on it: whoever takes the run over goes on after it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from contracts import events
from conversations.aggregate.compaction import Compact, due, once_more
from directory.compaction_settings import Compaction
from orchestrator.models import ModelFailure
from orchestrator.run.channel import TraceChannel
from orchestrator.run.cost import RoundCost
from orchestrator.run.interruption import Interruption
from orchestrator.run.run_log import RunRecorder
from runtime import logs

Perform = Callable[[Compact], Awaitable[Sequence[events.Event]]]


class Compactor:
    """Makes room in one attempt at a run, by `perform`. `wanted` None: it never does."""

    def __init__(
        self,
        wanted: Compaction | None,
        perform: Perform,
        *,
        log: RunRecorder,
        channel: TraceChannel,
        cost: RoundCost,
        interruption: Interruption,
    ) -> None:
        self._wanted = wanted
        self._perform = perform
        self._log = log
        self._channel = channel
        self._cost = cost
        self._interruption = interruption
        self._failed = False
        self._once_more = False
        self._most: int | None = None  # runs that fit into a call that asks for a summary

    async def make_room(self) -> None:
        """Before a model call: where that is expected to fill the agent's share of the window.

        Without a summary the call is made all the same: it may well fit. Raises Interrupted,
        ToolsUnavailable, and what an append does.
        """
        wanted = self._wanted
        if wanted is None or self._failed:
            return
        trace_id = self._log.run.trace_id
        step = due(self._log.conversation, trace_id, tokens=wanted.at_tokens, keep_runs=wanted.keep_runs)
        if step is not None:
            await self._summarise(step.runs)

    async def made_room(self, failure: ModelFailure) -> bool:
        """Once more, and whether the call may be made again: where it was too long. Raises as `make_room`."""
        wanted = self._wanted
        if failure.code != "context_too_long" or wanted is None or self._once_more or self._channel.text:
            return False
        self._once_more = True
        step = once_more(self._log.conversation, self._log.run.trace_id, keep_runs=wanted.keep_runs)
        return step is not None and await self._summarise(step.runs)

    async def _summarise(self, runs: int) -> bool:
        """Of so many runs, in as many calls as that takes; whether it was done."""
        log = logs.get_logger("run")
        while runs:
            part = min(runs, self._most or runs)
            try:
                done = await self._interruption.allowed(partial(self._perform, Compact(part)))
            except ModelFailure as failure:
                if failure.code == "context_too_long" and part > 1:
                    self._most = part // 2
                    continue
                log.warning("compaction_failed", code=failure.code, kind=failure.kind, runs=part)
                self._failed = True
                return False
            await self._log.append(done)
            self._cost.recorded()
            log.info("context_compacted", runs=part)
            runs -= part
        return True
