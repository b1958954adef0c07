"""Request runs again that no worker holds, so that a lost request or a wiped NATS loses no answer.

Requesting too often is safe: a worker continues a run only with its lease, from what the log says. Consumer
of the requests: `orchestrator.inbox.inbox`.
"""

import asyncio
import time

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.conversations.aggregate.rebuild_request import rebuild_request
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.idempotency.idempotency_keys import forget_old_keys
from agentchat.conversations.leases.abandoned_runs import AbandonedRun, claim_abandoned, forget_old_requests
from agentchat.conversations.leases.database_availability import keep_recording_availability
from agentchat.conversations.leases.leases import forget_expired_leases
from agentchat.conversations.leases.waiting_line import delete_expired_waiters
from agentchat.conversations.run_secrets_table import forget_secrets_without_run
from agentchat.runtime.logs import bind_context, get_logger
from agentchat.runtime.postgres import DatabaseUnavailable, Pool
from agentchat.runtime.retry_loops import follow

SWEEP_SECONDS = 3.0
_TIDY_SECONDS = 600.0


class Sweeper:
    """Sweeps every few seconds, and now and then deletes the rows of dead workers."""

    def __init__(self, bus: Bus, log: Log, pool: Pool) -> None:
        self._bus = bus
        self._log = log
        self._pool = pool
        self._tidied = 0.0
        self._logger = get_logger("agentchat.projector.run_sweeper")

    async def run(self) -> None:
        """Sweep until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_recording_availability(self._pool))
            tasks.create_task(
                follow(
                    self._sweep_and_tidy,
                    (DatabaseUnavailable, BusUnavailable),
                    retry_seconds=SWEEP_SECONDS,
                    log=self._logger,
                    problem="cannot_sweep",
                )
            )

    async def _sweep_and_tidy(self) -> None:
        await self.sweep()
        await self._tidy()
        await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """Request every abandoned run again; return the number.

        Raises DatabaseUnavailable, BusUnavailable.
        """
        await self._bus.ping()  # do not spend claims while nothing can be published
        abandoned = await claim_abandoned(self._pool)
        asked = [await self._ask_again(each) for each in abandoned]
        return sum(asked)

    async def _ask_again(self, abandoned: AbandonedRun) -> bool:
        with bind_context(trace_id=abandoned.trace_id, conversation_id=abandoned.conversation_id):
            # An unreadable conversation is requested too: a worker ends its run.
            conversation = await self._log.load_newest_run(abandoned.conversation_id)
            run = conversation.run(abandoned.trace_id)
            if run is None or run.state != "running":
                return False  # the read model is behind the log
            await self._bus.queues.request_chat(rebuild_request(conversation, run, abandoned.attempt))
            self._logger.warning("run_requested_again", attempt=abandoned.attempt)
            return True

    async def _tidy(self) -> None:
        if time.monotonic() - self._tidied < _TIDY_SECONDS:
            return
        await forget_expired_leases(self._pool)
        await delete_expired_waiters(self._pool)
        await forget_old_requests(self._pool)
        await forget_old_keys(self._pool)
        await forget_secrets_without_run(self._pool)
        self._tidied = time.monotonic()
