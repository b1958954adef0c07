"""Send due deliveries, a batch for each endpoint, and record the outcome of each batch.

A batch attempts its deliveries in their order, some at the same time. No attempt begins once the endpoint
needs a pause. Rows come from `webhooks.delivery_projection`; run by `projector.worker`.
"""

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence

from agentchat.contracts.webhooks import DeliveryStatus
from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.net_guard import Guard
from agentchat.net_guard.guarded_session import get_tls_context
from agentchat.runtime import metrics
from agentchat.runtime.logs import bind_context, get_logger
from agentchat.runtime.postgres import DatabaseUnavailable, Pool
from agentchat.runtime.retry_loops import retry, wait_for_event
from agentchat.webhooks import delivery_queue
from agentchat.webhooks.delivery_attempt import ATTEMPT_SECONDS, AttemptResult, Clock, WebhookSender
from agentchat.webhooks.delivery_queue import (
    CLAIM_SECONDS,
    AttemptOutcome,
    BatchResult,
    DueDelivery,
    DueEndpoint,
)
from agentchat.webhooks.endpoints import build_seal_owner
from agentchat.webhooks.retry_schedule import FAILURES_IN_A_ROW, compute_pause, compute_retry_delay
from agentchat.webhooks.webhook_signing import Signer

BATCH = 64
AT_ONCE = 32
"""Requests to one endpoint at the same time."""

ENDPOINTS = 256
"""Endpoints that are sent to at the same time."""

BEGIN_SECONDS = CLAIM_SECONDS - ATTEMPT_SECONDS - 5.0
"""No attempt begins later than this after its claim, so that it is recorded before the claim ends."""

_POLL_SECONDS = 2.5
_TOGETHER_SECONDS = 0.1
"""The time between two claims.

Deliveries inserted meanwhile are sent and recorded together.
"""

_RETRY_SECONDS = 0.5
_MEASURE_SECONDS = 30.0
_UNSIGNED_PAUSE_SECONDS = 60.0
_FAULT_PAUSE_SECONDS = 5.0
_UNUSED_SECONDS = 70.0
"""Connections to an endpoint are closed after this time without a batch."""

_FINISH_SECONDS = 5.0


class DeliverySender:
    """Sends until cancelled.

    Then it lets attempts end, and returns the others to the queue.
    """

    def __init__(self, pool: Pool, sealer: Sealer, guard: Guard, name: str) -> None:
        self._pool = pool
        self._sealer = sealer
        self._guard = guard
        self._name = name
        self._clock = Clock()
        self._wake = asyncio.Event()
        self._batches: dict[str, tuple[asyncio.Task[None], EndpointBatch]] = {}
        self._senders: dict[str, tuple[WebhookSender, float]] = {}  # and when it was used last
        self._logger = get_logger("agentchat.webhooks.webhook_sender")

    def wake(self) -> None:
        """Look for due deliveries now."""
        self._wake.set()

    def forget(self, conversation_ids: Collection[str]) -> None:
        """Send nothing more of these conversations, which were erased."""
        for _, batch in self._batches.values():
            batch.forget(conversation_ids)

    async def run(self) -> None:
        """Send what is due until cancelled."""
        measured_at = float("-inf")
        try:
            while True:
                self._wake.clear()
                try:
                    started = await self._start_batches()
                    if time.monotonic() - measured_at > _MEASURE_SECONDS:
                        measured_at = time.monotonic()
                        await self._measure()
                except DatabaseUnavailable as error:
                    self._logger.warning("cannot_send", reason=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                await asyncio.sleep(_TOGETHER_SECONDS)
                if not started:
                    await wait_for_event(self._wake, _POLL_SECONDS)
        finally:
            await self._finish()
            metrics.EVENTS_BEHIND.labels(worker=self._name).set(0)  # another process sets it from now on
            metrics.ENDPOINTS_FAILING.labels(worker=self._name).set(0)

    async def _start_batches(self) -> bool:
        room = ENDPOINTS - len(self._batches)
        if room <= 0:
            return False
        found = await delivery_queue.claim_due(self._pool, self._batches.keys(), limit=room, batch=BATCH)
        for endpoint in found:
            self._clock.set(endpoint.now)
            sender, _ = self._senders.get(endpoint.id) or (self._create_sender(endpoint), 0.0)
            self._senders[endpoint.id] = sender, time.monotonic()
            batch = EndpointBatch(endpoint, sender, self._sealer)
            self._batches[endpoint.id] = asyncio.create_task(self._send(batch)), batch
        return bool(found)

    def _create_sender(self, endpoint: DueEndpoint) -> WebhookSender:
        return WebhookSender(self._guard, get_tls_context(), self._clock, endpoint.account_id)

    async def _send(self, batch: "EndpointBatch") -> None:
        endpoint_id = batch.endpoint.id
        with bind_context(endpoint_id=endpoint_id):
            try:
                await batch.run()
            except Exception:  # the outermost frame of a batch: other batches continue
                self._logger.exception("batch_failed")
                batch.pause = _FAULT_PAUSE_SECONDS
            finally:
                await asyncio.shield(asyncio.create_task(self._record(batch)))
                del self._batches[endpoint_id]
                self.wake()

    async def _record(self, batch: "EndpointBatch") -> None:
        """Record a batch as soon as Postgres answers, so that nothing is sent twice after an outage."""
        reason = await retry(
            lambda: delivery_queue.record_batch(self._pool, batch.result),
            DatabaseUnavailable,
            pause_seconds=_RETRY_SECONDS,
            log=self._logger,
            problem="cannot_record",
        )
        if reason is not None:
            self._logger.warning("endpoint_disabled", reason=reason)

    async def _measure(self) -> None:
        """Set the metrics of all endpoints, and close unused connections."""
        found = await delivery_queue.load_figures(self._pool)
        metrics.EVENTS_BEHIND.labels(worker=self._name).set(found.behind)
        metrics.ENDPOINTS_FAILING.labels(worker=self._name).set(found.failing)
        before = time.monotonic() - _UNUSED_SECONDS
        for endpoint_id in [id_ for id_, (_, used) in self._senders.items() if used < before]:
            if endpoint_id not in self._batches:
                await self._senders.pop(endpoint_id)[0].aclose()

    async def _finish(self) -> None:
        tasks = [task for task, _ in self._batches.values()]
        for _, batch in self._batches.values():
            batch.stop()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=_FINISH_SECONDS)
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending, timeout=_FINISH_SECONDS)
        for sender, _ in self._senders.values():
            await sender.aclose()
        self._senders.clear()


class EndpointBatch:
    """The due deliveries of one endpoint: `run` sends them; `result` is the outcome so far."""

    def __init__(self, endpoint: DueEndpoint, sender: WebhookSender, sealer: Sealer) -> None:
        self.endpoint = endpoint
        self.pause: float | None = None
        self._sender = sender
        self._signers = _build_signers(endpoint, sealer)
        self._failures = endpoint.failures
        # Concurrent attempts fail together and must not double the pause.
        self._most_failures = max(endpoint.failures + 1, FAILURES_IN_A_ROW)
        self._has_failed = self._has_succeeded = self._is_gone = False
        self._outcomes: list[AttemptOutcome] = []
        self._erased: set[str] = set()
        self._begins_until = time.monotonic() + BEGIN_SECONDS

    @property
    def result(self) -> BatchResult:
        """The outcome so far."""
        attempted = {each.id for each in self._outcomes}
        return BatchResult(
            endpoint_id=self.endpoint.id,
            url=self.endpoint.url,
            outcomes=self._outcomes,
            unattempted=[each for each in self.endpoint.due if each.id not in attempted],
            failures=self._failures,
            pause_seconds=self.pause,
            failed=self._has_failed,
            succeeded=self._has_succeeded,
            gone=self._is_gone,
        )

    async def run(self) -> None:
        """Attempt all, until the endpoint needs a pause or the claim is about to end."""
        if not self._signers:
            self.pause = _UNSIGNED_PAUSE_SECONDS
            return
        waiting = iter(self.endpoint.due)
        at_once = 1 if self._failures >= FAILURES_IN_A_ROW else min(AT_ONCE, len(self.endpoint.due))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(self._send_waiting(waiting))

    def stop(self) -> None:
        """Begin no further attempt."""
        self._begins_until = 0.0

    def forget(self, conversation_ids: Collection[str]) -> None:
        """Stop sending messages of these conversations."""
        self._erased.update(conversation_ids)

    async def _send_waiting(self, waiting: Iterator[DueDelivery]) -> None:
        while self.pause is None and not self._is_gone and time.monotonic() < self._begins_until:
            delivery = next(waiting, None)
            if delivery is None:
                return
            if delivery.conversation_id in self._erased and delivery.type != "conversation.deleted":
                continue
            body = delivery.body.encode()
            self._record_result(
                delivery, await self._sender.send(self.endpoint.url, self._signers, delivery.id, body)
            )

    def _record_result(self, delivery: DueDelivery, result: AttemptResult) -> None:
        status: DeliveryStatus = "delivered"
        tries, wait = 0, None
        if result.is_success:
            self._failures, self._has_succeeded = 0, True
        else:
            tries = delivery.tries + 1
            wait = compute_retry_delay(tries, result.retry_after)
            status = "failed" if wait is None else "waiting"
            self._record_failure(result)
        outcome = AttemptOutcome(
            id=delivery.id,
            claimed_until=delivery.claimed_until,
            status=status,
            tries=tries,
            attempt=result.attempt,
            wait=wait,
        )
        self._outcomes.append(outcome)
        metrics.ATTEMPTS.labels(outcome=result.attempt.error or "delivered").inc()

    def _record_failure(self, result: AttemptResult) -> None:
        self._has_failed = True
        self._failures = min(self._failures + 1, self._most_failures)
        self._is_gone = self._is_gone or result.is_gone
        self.pause = max(self.pause or 0.0, compute_pause(self._failures, result.retry_after) or 0.0) or None


def _build_signers(endpoint: DueEndpoint, sealer: Sealer) -> Sequence[Signer]:
    """Return the signers by the secret and the one before it; none if these do not open."""
    owner = build_seal_owner(endpoint.account_id, endpoint.id)
    sealed = [each for each in (endpoint.secret, endpoint.previous_secret) if each is not None]
    try:
        return [Signer(sealer.open(each, owner=owner)) for each in sealed]
    except SealBroken as error:
        logger = get_logger("agentchat.webhooks.webhook_sender")
        logger.warning("secret_not_decrypted", endpoint_id=endpoint.id, reason=str(error))
        return []
