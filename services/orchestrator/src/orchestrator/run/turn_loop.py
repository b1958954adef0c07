"""The turn: what the run needs next is looked up, done, appended and told, until it needs no more.

Everything that happens in a run happens here. A step is done between two appends and may be stopped at any
moment; what it returns is stored at the version that it was done for, or another worker has the run.
"""

import asyncio
from functools import partial

from contracts.ids import reply_id
from conversations.aggregate.turn import CallModel, conclude, next_step
from orchestrator.models import ModelFailure
from orchestrator.run.channel import TraceChannel
from orchestrator.run.history_compaction import Compactor
from orchestrator.run.interruption import Interruption
from orchestrator.run.perform import Performer
from orchestrator.run.run_clock import RunClock
from orchestrator.run.run_log import RunRecorder


async def run_turn(
    log: RunRecorder,
    performer: Performer,
    channel: TraceChannel,
    compactor: Compactor,
    *,
    clock: RunClock,
    interruption: Interruption,
    stop: asyncio.Event,
) -> None:
    """Take the log's run to its end. Once `stop` is set, no further model call begins.

    Raises Interrupted, ModelFailure, ToolsUnavailable, and what an append does.
    """
    while step := next_step(log.run):
        if isinstance(step, CallModel):
            if stop.is_set():
                interruption.interrupt("shutdown")
            await compactor.make_room()
        try:
            done = await interruption.allowed(partial(performer.perform, step))
        except ModelFailure as failure:
            if await compactor.made_room(failure):
                continue
            raise
        await log.append(done)
        await channel.announce(done)
    # Where the last reply asks for no tool, and was stored without the run's end.
    if end := conclude(log.run, message_id=reply_id(log.run.trace_id), now=clock.now()):
        await log.append(end)
