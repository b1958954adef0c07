"""One batch of one endpoint: its deliveries are attempted in their order, some at the same time.

No attempt begins once the endpoint needs a pause. What a process that dies has sent of a batch is sent again,
under the same ids.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence

import msgspec

from directory.errors import SealBroken
from directory.secrets import Sealer
from notifier.delivery_attempt import ATTEMPT_SECONDS, AttemptResult, Signer, WebhookSender
from notifier.notice_bodies import NoticeBodies
from notifier.schedule import FAILURES_IN_A_ROW, LOOK_UPS_IN_A_ROW, look_up_again_in, pause_of, retry_in
from runtime import metrics
from runtime.logs import get_logger
from runtime.postgres import DatabaseUnavailable
from webhooks.endpoints import seal_owner
from webhooks.outbox import LEASE_SECONDS, AttemptOutcome, BatchResult, DueDelivery, LeasedEndpoint

AT_ONCE = 32
"""Requests to one endpoint: 200 a second, where each is answered within 160 ms."""

BEGIN_SECONDS = LEASE_SECONDS - ATTEMPT_SECONDS - 5.0
"""No attempt begins later, so that all have ended, and are recorded, while the endpoint is leased."""

FAULT_PAUSE_SECONDS = 5.0
_RETRY_SECONDS = 0.5
_UNSIGNED_PAUSE_SECONDS = 60.0


class EndpointBatch:
    """`run` sends what is due; `result` is what became of it so far."""

    def __init__(
        self, endpoint: LeasedEndpoint, sender: WebhookSender, bodies: NoticeBodies, sealer: Sealer
    ) -> None:
        self.pause: float | None = None
        self._endpoint = endpoint
        self._sender = sender
        self._bodies = bodies
        self._signers = _signers(endpoint, sealer)
        self._failures = endpoint.failures
        # What was under way together fails together: it doubles no pause.
        self._most_failures = max(endpoint.failures + 1, FAILURES_IN_A_ROW)
        self._not_looked_up = False
        self._has_failed = self._has_succeeded = self._is_gone = False
        self._outcomes: list[AttemptOutcome] = []
        self._begins_until = time.monotonic() + BEGIN_SECONDS
        self._logger = get_logger("notifier.endpoint_batch")

    @property
    def result(self) -> BatchResult:
        looked_up = not self._not_looked_up and bool(self._outcomes)
        return BatchResult(
            endpoint_id=self._endpoint.id,
            lease=self._endpoint.lease,
            outcomes=self._outcomes,
            failures=self._failures,
            look_ups_failed=0 if looked_up else self._endpoint.look_ups_failed + self._not_looked_up,
            pause_seconds=self.pause,
            failed=self._has_failed,
            succeeded=self._has_succeeded,
            gone=self._is_gone,
        )

    async def run(self) -> None:
        """Until all have been attempted, or the endpoint needs a pause, or its lease is about to end."""
        if not self._signers:
            self.pause = _UNSIGNED_PAUSE_SECONDS
            return
        waiting = iter(self._endpoint.due)
        at_once = 1 if self._failures >= FAILURES_IN_A_ROW else min(AT_ONCE, len(self._endpoint.due))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(self._work(waiting))

    def stop(self) -> None:
        """Begin no further attempt."""
        self._begins_until = 0.0

    async def _work(self, waiting: Iterator[DueDelivery]) -> None:
        while self.pause is None and not self._is_gone and time.monotonic() < self._begins_until:
            delivery = next(waiting, None)
            if delivery is None:
                return
            try:
                body = await self._bodies.of(delivery, self._endpoint.payload)
            except DatabaseUnavailable as error:  # the others of the batch are not sent again for that
                self._logger.warning("cannot_read_event", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if body is None:
                self._note(delivery, None)
            else:
                url, signers = self._endpoint.url, self._signers
                self._note(delivery, await self._sender.send(url, signers, delivery.id, body))

    def _note(self, delivery: DueDelivery, result: AttemptResult | None) -> None:
        outcome = AttemptOutcome(
            id=delivery.id,
            due_at=delivery.due_at,
            status="delivered",
            tries=0,
            attempt=result.attempt if result else None,
        )
        if result is None:
            outcome = msgspec.structs.replace(outcome, status="erased")
        elif result.is_success:
            self._failures, self._has_succeeded = 0, True
        elif result.not_looked_up and self._endpoint.look_ups_failed < LOOK_UPS_IN_A_ROW:
            # No failure of the endpoint.
            self._not_looked_up = True
            self.pause = self.pause or look_up_again_in()
            outcome = msgspec.structs.replace(
                outcome, status="waiting", tries=delivery.tries, wait=self.pause
            )
        else:
            outcome = self._failed(outcome, delivery.tries + 1, result)
        self._outcomes.append(outcome)
        reason = result.attempt.error if result else None
        metrics.ATTEMPTS.labels(outcome=reason or outcome.status).inc()

    def _failed(self, outcome: AttemptOutcome, tries: int, result: AttemptResult) -> AttemptOutcome:
        self._has_failed = True
        self._failures = min(self._failures + 1, self._most_failures)
        self._is_gone = self._is_gone or result.is_gone
        self.pause = max(self.pause or 0.0, pause_of(self._failures, result.retry_after) or 0.0) or None
        wait = retry_in(tries, result.retry_after)
        status = "waiting" if wait is not None else "failed"
        return msgspec.structs.replace(outcome, status=status, tries=tries, wait=wait)


def _signers(endpoint: LeasedEndpoint, sealer: Sealer) -> Sequence[Signer]:
    """By its secret, and by the one before it; none where these do not open."""
    owner = seal_owner(endpoint.account_id, endpoint.id)
    sealed = [each for each in (endpoint.secret, endpoint.previous_secret) if each is not None]
    try:
        return [Signer(sealer.open(each, owner=owner)) for each in sealed]
    except SealBroken as error:
        logger = get_logger("notifier.endpoint_batch")
        logger.warning("secret_does_not_open", endpoint_id=endpoint.id, reason=str(error))
        return []
