"""Run the turn loop: decide the next step, perform it, append the events, publish them.

Everything that happens in a run happens here. A step is performed between two appends and may be interrupted
at any moment; its events are stored at the version it was performed for, or another worker has the run.
"""

import asyncio
from functools import partial

from agentchat.contracts.ids import derive_reply_id
from agentchat.conversations.aggregate.busy_rules import find_interrupting
from agentchat.conversations.aggregate.next_step import CallModel, conclude, decide_next_step
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.run.compact_history import Compactor
from agentchat.orchestrator.run.fall_back import ModelChanger
from agentchat.orchestrator.run.interruption import Interruption
from agentchat.orchestrator.run.perform_step import Performer


async def run_turn(
    performer: Performer, interruption: Interruption, stop: asyncio.Event, changer: ModelChanger | None = None
) -> None:
    """Run the turn loop to the run's end. Once `stop` is set, no further model call starts.

    Without a `changer`, the run fails with its model.

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
    # `perform_step` appends the end with the last reply; a worker that died may have stored the reply alone.
    if end := conclude(log.run, message_id=derive_reply_id(log.run.trace_id), now=performer.clock.now()):
        await log.append(end)
