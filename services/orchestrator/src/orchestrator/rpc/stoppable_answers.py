"""Questions whose answers take long, and are given up where this worker stops."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bus.rpc import Rpc
from contracts import wire
from contracts.replay_messages import WhatIf
from net_guard.addresses import looking_up_for
from orchestrator.run.interruption import Interruption
from runtime import logs

QUEUE = "orchestrator"


@asynccontextmanager
async def serving_stoppable(
    rpc: Rpc,
    subject: str,
    answered: Callable[[WhatIf, Interruption], Awaitable[bytes]],
) -> AsyncIterator[None]:
    """Answer while the block runs, as one of all orchestrators; what is under way is then interrupted."""
    running: set[Interruption] = set()

    async def answer(data: bytes) -> bytes:
        question = wire.decode_message(WhatIf, data)
        interruption = Interruption()
        running.add(interruption)
        try:
            with (
                logs.bound(trace_id=question.trace_id, account_id=question.account_id),
                looking_up_for(question.account_id),
            ):
                return await answered(question, interruption)
        finally:
            running.discard(interruption)

    async with rpc.serving(subject, QUEUE, answer):
        try:
            yield
        finally:
            for interruption in running:
                interruption.interrupt("shutdown")
