"""Leases endpoints that have something due and sends to them, while an endpoint is enabled.

Any number of processes do so: each takes a few endpoints at a time, and no two have the same one.
"""

import asyncio
import time
from collections.abc import Sequence

import httpx2

from contracts.webhooks import DisabledReason
from conversations.event_store.log import Log
from conversations.event_store.owners import Owners
from directory.secrets import Sealer
from net_guard import Guard
from notifier.delivery_attempt import Clock, WebhookSender
from notifier.endpoint_batch import FAULT_PAUSE_SECONDS, EndpointBatch
from notifier.notice_bodies import NoticeBodies
from runtime import metrics
from runtime.batching import Batcher
from runtime.following import wait_for_event
from runtime.logs import bound, get_logger
from runtime.postgres import DatabaseUnavailable, Pool
from runtime.web import raise_open_files
from webhooks import outbox
from webhooks.delivery_projection import insert_ranges
from webhooks.outbox import BatchResult, LeasedEndpoint

BATCH = 128
ENDPOINTS = 256
"""What one process sends to at the same time: one that hangs is leased for 15 s, and then paused."""

TOGETHER_SECONDS = 0.25
"""From one look to the next: what is inserted meanwhile is read, sent and recorded together."""

_LEASED_TOGETHER = 8
_NEXT_SECONDS = 0.02
"""Until the next endpoints are leased: other processes take theirs in between."""

_POLL_SECONDS = 1.0
_IDLE_POLL_SECONDS = 30.0
_RETRY_SECONDS = 0.5
_TIDY_SECONDS = 30.0
_FINISH_SECONDS = 5.0
"""At the end of the process, for what has begun; then it is broken off, and recorded."""


class Dispatcher:
    """All of one process's batches, and what they share."""

    def __init__(self, name: str, pool: Pool, sealer: Sealer, guard: Guard, wake: asyncio.Event) -> None:
        self._name = name
        self._pool = pool
        self._sealer = sealer
        self._guard = guard
        self._wake = wake
        self._tls = httpx2.create_ssl_context()
        self._log = Log(pool)
        self._owners = Owners(self._log)
        self._bodies = NoticeBodies(self._log)
        self._results: Batcher[BatchResult, DisabledReason | None] = Batcher(self._record)
        self._senders: dict[str, tuple[WebhookSender, float]] = {}  # and when it was used last
        self._batches: dict[asyncio.Task[None], EndpointBatch] = {}
        self._logger = get_logger("notifier.dispatching")

    async def run(self) -> None:
        """Until no endpoint is enabled. Raises DatabaseUnavailable at the start."""
        raise_open_files()
        self._clock = Clock(await outbox.now(self._pool))
        self._logger.info("sending")
        tidying = asyncio.create_task(self._tidy())
        try:
            await self._dispatch()
        finally:
            tidying.cancel()
            await self._finish()

    async def _dispatch(self) -> None:
        while True:
            self._wake.clear()
            began = time.monotonic()
            try:
                found = await insert_ranges(self._pool, self._log, self._owners)
                leased = await outbox.lease(
                    self._pool, min(_LEASED_TOGETHER, ENDPOINTS - len(self._batches)), BATCH
                )
                for endpoint in leased:
                    self._start(endpoint)
                next_due = None if found or leased else await outbox.next_due(self._pool)
            except DatabaseUnavailable as error:
                self._logger.warning("cannot_send", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if next_due is not None:
                if not next_due.any_enabled and not self._batches:
                    return
                await self._wait(next_due)
            more = found or len(leased) == _LEASED_TOGETHER or any(len(each.due) == BATCH for each in leased)
            rest = _NEXT_SECONDS if more else TOGETHER_SECONDS
            await asyncio.sleep(max(0.0, began + rest - time.monotonic()))

    async def _wait(self, next_due: outbox.NextDue) -> None:
        """Until there may be something to send."""
        poll = _POLL_SECONDS if next_due.leased else _IDLE_POLL_SECONDS
        seconds = poll if next_due.seconds is None else min(max(next_due.seconds, 0.0), poll)
        await wait_for_event(self._wake, seconds)

    def _start(self, endpoint: LeasedEndpoint) -> None:
        known = self._senders.get(endpoint.id)
        sender = known[0] if known else self._new_sender(endpoint)
        self._senders[endpoint.id] = (sender, time.monotonic())
        batch = EndpointBatch(endpoint, sender, self._bodies, self._sealer)
        task = asyncio.create_task(self._send(endpoint, batch))
        self._batches[task] = batch
        task.add_done_callback(self._batches.pop)

    def _new_sender(self, endpoint: LeasedEndpoint) -> WebhookSender:
        return WebhookSender(self._guard, self._tls, self._clock, endpoint.account_id)

    async def _send(self, endpoint: LeasedEndpoint, batch: EndpointBatch) -> None:
        with bound(endpoint_id=endpoint.id):
            try:
                await batch.run()
            except Exception:  # the outermost frame of a batch: others go on
                self._logger.exception("batch_failed")
                batch.pause = FAULT_PAUSE_SECONDS
            finally:
                disabled = await self._results.call(batch.result)
            if disabled is not None:
                self._logger.warning("endpoint_disabled", reason=disabled)
        if len(endpoint.due) == BATCH:
            self._wake.set()

    async def _record(
        self, results: Sequence[BatchResult], _: float
    ) -> Sequence[DisabledReason | BaseException | None]:
        """As soon as Postgres answers: what was sent is not sent again because of an outage."""
        while True:
            try:
                disabled = await outbox.record(self._pool, results)
            except DatabaseUnavailable as error:
                self._logger.warning("cannot_record", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return [disabled.get(each.endpoint_id) for each in results]

    async def _finish(self) -> None:
        """Let what has begun end, and give the endpoints back."""
        for batch in self._batches.values():
            batch.stop()
        if tasks := list(self._batches):
            await asyncio.wait(tasks, timeout=_FINISH_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_FINISH_SECONDS)
        await self._results.aclose()
        await self._bodies.aclose()
        for sender, _ in self._senders.values():
            await sender.aclose()

    async def _tidy(self) -> None:
        """Read the time, report how far behind endpoints are, and close connections that are not used."""
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            try:
                self._clock.set(await outbox.now(self._pool))
                found = await outbox.figures(self._pool)
            except DatabaseUnavailable as error:
                self._logger.warning("cannot_tidy", reason=str(error))
                continue
            metrics.EVENTS_BEHIND.labels(worker=self._name).set(found.behind)
            metrics.ENDPOINTS_FAILING.labels(worker=self._name).set(found.failing)
            before = time.monotonic() - 2 * outbox.LEASE_SECONDS
            for endpoint_id in [id_ for id_, (_, used) in self._senders.items() if used < before]:
                await self._senders.pop(endpoint_id)[0].aclose()
