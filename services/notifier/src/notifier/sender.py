"""One endpoint: what is due to be sent again, what the log has for it, and its replays, batch by batch.

A batch is recorded when all of it has been sent. A process that dies in between leaves it to be sent again,
under the same ids. Of an endpoint that fails the log itself is the queue: its cursor stays where it is.
"""

import asyncio
import ssl
import time
from collections.abc import Iterator, Sequence

import msgspec

from contracts.webhooks import message_id
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log
from directory.errors import SealBroken
from directory.secrets import Sealer
from net_guard import Guard
from net_guard.addresses import looking_up_for
from notifier.delivery_attempt import Answered, Courier
from notifier.delivery_clock import Clock
from notifier.notice_bodies import Bodies
from notifier.pages import NoticePage, Pages
from notifier.schedule import FAILURES_IN_A_ROW, LOOK_UPS_IN_A_ROW, look_up_again_in, pause_of, retry_in
from notifier.signing import Signer
from runtime import telemetry
from runtime.logs import bound, get_logger
from runtime.postgres import DatabaseUnavailable, Pool
from webhooks import outbox
from webhooks.notices import Notice, notice_of
from webhooks.outbox import AttemptOutcome, Due, EndpointCursor, EndpointHealth, EndpointTarget
from webhooks.webhook_rows import seal_owner

BATCH = 128
AT_ONCE = 32
"""Requests to one endpoint: 200 a second, where each is answered within 160 ms."""

ATTEMPTS = "agentchat.webhooks.attempts"
"""Counts attempts, by `outcome`: delivered, or why not."""

_RETRY_SECONDS = 0.5
_AFTER_A_FAULT_SECONDS = 5.0


class Post(msgspec.Struct, frozen=True):
    """What all senders share."""

    pool: Pool
    log: Log
    pages: Pages
    bodies: Bodies
    guard: Guard
    tls: ssl.SSLContext
    clock: Clock
    sealer: Sealer


class Job(msgspec.Struct, frozen=True):
    """A message to be sent: a notice, or a body as it is. Without either its event is gone."""

    due: Due
    notice: Notice | None


class Sender:
    """Sends to one endpoint until it is cancelled, or has disabled the endpoint."""

    def __init__(self, post: Post, target: EndpointTarget) -> None:
        self.position = target.position
        """Up to here the log holds nothing more for the endpoint, or it is recorded."""
        self._post = post
        self._courier = Courier(post.guard, post.tls, post.clock)
        self._target = target
        self._wake = asyncio.Event()
        self._is_idle = False
        self._is_disabled = False
        self.look_ups_failed = 0
        """Batches in a row whose name could not be looked up."""
        self._logger = get_logger("notifier.sender")
        self.update(target)

    @property
    def target(self) -> EndpointTarget:
        return self._target

    def update(self, target: EndpointTarget) -> None:
        """The endpoint as the database has it now."""
        now = time.monotonic()
        known = {replay.id: replay for replay in self._target.replays}
        # One that is being sent stays the object that the batch moves on.
        target.replays = [known.get(replay.id, replay) for replay in target.replays]
        self._target = target
        self._is_disabled = False
        self._signers = self._opened(target)
        previous = target.previous_seconds if target.previous_secret is not None else None
        self._previous_until = now + (previous or 0.0)
        self._open_at = now + target.pause_seconds
        self._set_due(target.due_seconds)
        self._wake.set()

    def offer(self, page: NoticePage) -> None:
        """The log has grown by this page. An idle endpoint that it has nothing for passes over it."""
        is_busy = not self._is_idle or self._target.replays
        if is_busy or self.position < page.after or self._of(page, self.position):
            self._wake.set()
        else:
            self.position = max(self.position, page.end)

    async def run(self) -> None:
        """Until cancelled, or the endpoint is disabled."""
        with bound(endpoint_id=self._target.id), looking_up_for(self._target.account_id):
            try:
                await self._send_on()
            finally:
                await self._courier.aclose()

    async def _send_on(self) -> None:
        while not self._is_disabled:
            try:
                self._wake.clear()
                if not await self._round():
                    await self._rest()
            except* DatabaseUnavailable as errors:
                self._logger.warning("cannot_send", reason=str(errors.exceptions[0]))
                await asyncio.sleep(_RETRY_SECONDS)
            except* Exception:  # the outermost loop of an endpoint: the others go on
                self._logger.exception("sender_failed")
                await asyncio.sleep(_AFTER_A_FAULT_SECONDS)

    async def _round(self) -> bool:
        """A batch of each kind that has one, while the endpoint is not left in peace; False for none."""
        found = False
        for send in (self._send_due, self._send_next, self._send_replayed):
            if self._is_disabled or not self._signers or self._open_at > time.monotonic():
                return False
            found = await send() or found
        return found

    async def _rest(self) -> None:
        """Until there may be something to do."""
        opens_at = self._open_at if self._open_at > time.monotonic() else None
        times = [at for at in (opens_at or self._due_at,) if at is not None]
        self._is_idle = True
        try:
            async with asyncio.timeout(max(min(times) - time.monotonic(), 0.0) if times else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._is_idle = False

    async def _send_due(self) -> bool:
        if self._due_at is None or self._due_at > time.monotonic():
            return False
        found = await outbox.due(self._post.pool, self._target.id, BATCH)
        if not found:  # by Postgres' clock not yet, or no more
            self._set_due(await outbox.next_due(self._post.pool, self._target.id))
            return False
        notices = await self._notices_at([each.position for each in found if each.position is not None])
        jobs = [Job(each, None if each.position is None else notices.get(each.position)) for each in found]
        await self._send(jobs, None, 0)
        return True

    async def _send_next(self) -> bool:
        page = await self._post.pages.behind(self.position)
        if page is None:
            return False
        notices = self._of(page, self.position)
        if not notices:
            self.position = page.end
            return True
        end = notices[BATCH - 1].position if len(notices) > BATCH else page.end
        live = EndpointCursor(self._target.id, self.position, None)
        self.position = await self._send(list(map(self._job, notices[:BATCH])), live, end)
        return True

    async def _send_replayed(self) -> bool:
        if not self._target.replays:
            return False
        replay = self._target.replays[0]
        assert replay.until is not None, "a replay has an end"
        page = await self._post.pages.behind(replay.position)
        if page is None and replay.position < replay.until and self._post.pages.end < replay.until:
            return False  # the log goes on, and is not read that far yet
        notices = [each for each in self._of(page, replay.position) if each.position <= replay.until]
        end = min(page.end, replay.until) if page else replay.until
        if len(notices) > BATCH:
            end = notices[BATCH - 1].position
        reached = await self._send(list(map(self._job, notices[:BATCH])), replay, end)
        replay.position = reached
        if reached >= replay.until and replay in self._target.replays:
            self._target.replays.remove(replay)
        return True

    async def _send(self, jobs: Sequence[Job], cursor: EndpointCursor | None, end: int) -> int:
        """Send these and record what became of them, and that the cursor has come to `end`.

        Returns how far it has come: to the first job that was not sent, since the endpoint fails.
        """
        batch = _Batch(self, jobs)
        outcomes = await batch.run()
        reached = end
        if len(outcomes) < len(jobs):
            reached = (jobs[len(outcomes)].due.position or 1) - 1
        failures = self._target.failures
        moved = None if cursor is None else EndpointCursor(cursor.id, reached, cursor.until)
        self._target.failures = batch.failures
        self._open_at = time.monotonic() + max(batch.pause or 0.0, batch.rest or 0.0)
        if outcomes:
            self.look_ups_failed = self.look_ups_failed + 1 if batch.rest is not None else 0
        fails_yet = batch.failures and batch.has_succeeded
        changed = batch.failures != failures or batch.pause or fails_yet or batch.is_gone
        health = batch.health if changed else None
        await self._record(outcomes, moved, health)
        return reached

    async def _record(
        self, outcomes: Sequence[AttemptOutcome], cursor: EndpointCursor | None, health: EndpointHealth | None
    ) -> None:
        """As soon as Postgres answers: what was sent is not sent again because of an outage."""
        while True:
            try:
                disabled, due = await outbox.record(
                    self._post.pool, self._target.id, outcomes, cursor=cursor, health=health
                )
            except DatabaseUnavailable as error:
                self._logger.warning("cannot_record", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if due is not msgspec.UNSET:
                self._set_due(due)
            if disabled is not None:
                self._is_disabled = True
                self._logger.warning("endpoint_disabled", reason=disabled)
            return

    async def attempt(self, job: Job) -> Answered | None:
        """Send one message; None where there is nothing to send."""
        body = job.due.body
        if body is None and job.notice is not None and not self._post.pages.lacks(job.notice):
            body = await self._body_of(job.notice, job.due.id)
        if body is None:
            return None
        signers = self._signers if time.monotonic() < self._previous_until else self._signers[:1]
        return await self._courier.send(self._target.url, signers, job.due.id, body)

    async def _body_of(self, notice: Notice, delivery_id: str) -> bytes | None:
        """As soon as Postgres answers: what else is in the batch is not sent again for an outage."""
        while True:
            try:
                return await self._post.bodies.of(notice, delivery_id, self._target.payload)
            except DatabaseUnavailable as error:
                self._logger.warning("cannot_read_reply", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _notices_at(self, positions: Sequence[int]) -> dict[int, Notice]:
        found = {}
        for entry in await self._post.log.at(positions) if positions else ():
            try:
                notice = notice_of(entry.position, entry.conversation_id, entry.version, entry.event)
            except UnreadableEvent:
                continue
            if notice is not None:
                found[entry.position] = notice
        return found

    def _of(self, page: NoticePage | None, after: int) -> list[Notice]:
        """The endpoint's notices of a page after a position."""
        events = self._target.events
        own = page.notices.get(self._target.account_id, ()) if page else ()
        return [each for each in own if each.position > after and each.type in events]

    def _job(self, notice: Notice) -> Job:
        id_ = message_id(self._target.id, str(notice.position))
        return Job(Due(id_, notice.type, notice.position, None, 0), notice)

    def _set_due(self, seconds: float | None) -> None:
        self._due_at = None if seconds is None else time.monotonic() + seconds

    def _opened(self, target: EndpointTarget) -> list[Signer]:
        """What signs: by the secret, and by the one before it."""
        owner = seal_owner(target.account_id, target.id)
        sealed = [each for each in (target.secret, target.previous_secret) if each is not None]
        try:
            return [Signer(self._post.sealer.open(each, owner=owner)) for each in sealed]
        except SealBroken as error:
            self._logger.warning("secret_does_not_open", endpoint_id=target.id, reason=str(error))
            return []


class _Batch:
    """Jobs that are sent in their order, some at once; none is begun once the endpoint needs a pause."""

    def __init__(self, sender: Sender, jobs: Sequence[Job]) -> None:
        self.failures = sender.target.failures
        # What was under way together fails together: it doubles no pause.
        self._most_failures = max(self.failures + 1, FAILURES_IN_A_ROW)
        self.pause: float | None = None
        self.rest: float | None = None
        """Seconds until the endpoint's name is looked up again: no failure of the endpoint."""
        self.has_succeeded = False
        self.is_gone = False
        self._sender = sender
        self._jobs = jobs
        self._outcomes: list[AttemptOutcome] = []

    @property
    def health(self) -> EndpointHealth:
        return EndpointHealth(
            failures=self.failures,
            pause_seconds=self.pause,
            gone=self.is_gone,
            succeeded=self.has_succeeded,
        )

    async def run(self) -> list[AttemptOutcome]:
        """The outcomes of those that were begun: the first ones."""
        waiting = iter(self._jobs)
        at_once = 1 if self.failures >= FAILURES_IN_A_ROW else min(AT_ONCE, len(self._jobs))
        if at_once == 1:
            await self._work(waiting)
        else:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(at_once):
                    tasks.create_task(self._work(waiting))
        return self._outcomes

    async def _work(self, waiting: Iterator[Job]) -> None:
        while self.pause is None and self.rest is None and not self.is_gone:
            job = next(waiting, None)
            if job is None:
                return
            self._settle(job, await self._sender.attempt(job))

    def _settle(self, job: Job, answered: Answered | None) -> None:
        due = job.due
        outcome = AttemptOutcome(
            id=due.id,
            type=due.type,
            position=due.position,
            status="delivered",
            tries=0,
            attempt=answered.attempt if answered else None,
        )
        if answered is None:
            outcome = msgspec.structs.replace(outcome, status="erased")
        elif answered.is_success:
            self.failures, self.has_succeeded = 0, True
        elif answered.not_looked_up and self._sender.look_ups_failed < LOOK_UPS_IN_A_ROW:
            self.rest = self.rest or look_up_again_in()
            outcome = msgspec.structs.replace(outcome, status="waiting", tries=due.tries, wait=self.rest)
        else:
            outcome = self._failed(outcome, due.tries + 1, answered)
        self._outcomes.append(outcome)
        reason = answered.attempt.error if answered else None
        telemetry.count(ATTEMPTS, outcome=reason or outcome.status)

    def _failed(self, outcome: AttemptOutcome, tries: int, answered: Answered) -> AttemptOutcome:
        self.failures = min(self.failures + 1, self._most_failures)
        self.is_gone = self.is_gone or answered.is_gone
        self.pause = pause_of(self.failures, answered.wish)
        wait = retry_in(tries, answered.wish)
        status = "waiting" if wait is not None else "failed"
        return msgspec.structs.replace(outcome, status=status, tries=tries, wait=wait)
