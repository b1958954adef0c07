"""A request on its way: its key claimed, then published or found, and followed until its message is saved."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from bus import BusUnavailable
from contracts import ids
from contracts.messages import ChatRequested
from contracts.timings import ACCEPT_SECONDS, LINE_SECONDS, LINE_SLACK_SECONDS
from contracts.updates import Broken, Finished, Update
from conversations.claims.idempotency import Claim
from directory.caller import Caller
from gateway.access.admission import Slot
from gateway.chat.admitted_request import AdmittedRequest
from gateway.chat.fork import forked
from gateway.chat.idempotency_key import IdempotencyKey, Tried
from gateway.chat.run_request import Fork, RunRequest
from gateway.gateway_services import GatewayServices
from gateway.http.exchange import ClientGone, Exchange
from gateway.http.problem_responses import Refusal
from gateway.runs.followed_run import RunFollower
from gateway.runs.followed_runs import Stopping
from runtime import failpoints, logs

TURN_SECONDS = LINE_SECONDS + LINE_SLACK_SECONDS
_PATIENCE_SECONDS = ACCEPT_SECONDS + TURN_SECONDS
_SLACK_SECONDS = 0.1

RUN_REFUSALS = (
    *("conversation_not_found", "conversation_busy", "cancelled", "server_shutdown", "deadline_exceeded"),
    *("provider_error", "provider_refused", "provider_overloaded", "provider_timeout", "context_too_long"),
    *("output_invalid", "generation_interrupted", "approval_required", "approval_pending"),
)
"""The codes of requests whose run does not begin, or has no reply."""

_NOT_TAKEN = "No worker has taken the request in time."


@contextlib.asynccontextmanager
async def launched(
    services: GatewayServices,
    exchange: Exchange,
    request: ChatRequested,
    key: IdempotencyKey,
    slot: Slot,
    *,
    streaming: bool,
    outputs: bool = False,
    calls_at_end: bool = True,
    fork: Fork | None = None,
) -> AsyncIterator[tuple[Claim, RunFollower]]:
    """Follow the run that answers `request`, from when its message is saved until the block ends.

    That is the run of an earlier request where its key is that one's: then the answer has its trace. One that
    is not `streaming` gives no text but the complete reply. A `fork` is made first.

    Raises Refusal, ClientGone, BusUnavailable, DatabaseUnavailable.
    """
    attempt = _Launch(services, request, key, slot, fork)
    end = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
    while asyncio.get_running_loop().time() < end:
        claim = None
        if key.text is not None or isinstance(key, Tried):
            claim = await key.claim(services.claims, request, ACCEPT_SECONDS)
        claim = claim or _own_claim(request)
        following = services.runs.follow(
            claim.trace_id,
            claim.conversation_id,
            streaming=streaming,
            outputs=outputs,
            calls_at_end=calls_at_end,
            from_beginning=not (claim.mine and claim.publication == 1),
            publication=claim.publication,
            after_version=0 if claim.begun_at is None else claim.begun_at - 1,
        )
        exchange.answer_as(claim.trace_id)
        try:
            async with following as run:
                exchange.watch(run.leave)
                exchange.conversation_id = claim.conversation_id
                if await attempt.begun(claim, run):
                    yield claim, run
                    return
        except BusUnavailable:
            if claim.mine:
                await key.give_up(services.pool, claim, refused=False)
            raise
        except Stopping:
            if claim.mine:
                await key.give_up(services.pool, claim, refused=True)
            raise
    raise Refusal("overloaded", _NOT_TAKEN)


def _own_claim(request: ChatRequested) -> Claim:
    """Of a request that no other repeats."""
    return Claim(
        account_id=request.account_id,
        key_hash="",
        trace_id=request.trace_id,
        conversation_id=request.conversation_id,
        publication=1,
        mine=True,
        seconds=0.0,
        now=request.requested_at,
    )


class _Launch(msgspec.Struct):
    """One request, until it has a run; a run may take several claims of its key."""

    services: GatewayServices
    request: ChatRequested
    key: IdempotencyKey
    slot: Slot
    fork: Fork | None
    published: bool = False

    async def begun(self, claim: Claim, run: RunFollower) -> bool:
        """Wait until the run has begun; False where the key is to be claimed again.

        Raises Refusal, ClientGone, BusUnavailable.
        """
        try:
            if claim.mine and not has_begun(run):
                await self._take(claim, run)
                return True
            await self.slot.give_back()
            if run.refused:  # before this request came
                await self._give_up(claim, run)
                return False
            return await self._find(claim, run)
        except Refusal:
            await self._give_up(claim, run)
            raise

    async def _find(self, claim: Claim, run: RunFollower) -> bool:
        """Wait as long as the request that has the claim may."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(claim.seconds + _SLACK_SECONDS):
                while not has_begun(run):
                    await wait_for(run)
        if run.started:
            logs.get_logger("gateway").info("request_repeated", first_trace_id=claim.trace_id)
        return run.started

    async def _take(self, claim: Claim, run: RunFollower) -> None:
        """Publish the request and wait for the acceptance.

        Once it is published a run may begin, whoever waits for it: the slot is the worker's to free, who
        refuses it or ends its run. If none ever takes it, its lease ends.
        """
        await self.slot.take(claim.trace_id)
        request = _as_claimed(self.request, claim)
        if self.fork is not None:
            await self.slot.take_write()
            request = await forked(self.services, request, self.fork)
        self.published = True
        failpoints.reach("gateway-before-publish")
        await self.services.bus.queues.request_chat(request)
        failpoints.reach("gateway-published")
        self.slot.handed_over = True
        await self._acceptance(claim, run)
        failpoints.reach("gateway-accepted")

    async def _acceptance(self, claim: Claim, run: RunFollower) -> None:
        in_line = False
        try:
            async with asyncio.timeout(ACCEPT_SECONDS) as patience:
                while not has_begun(run):
                    if run.waiting and not in_line:
                        in_line = True
                        patience.reschedule(asyncio.get_running_loop().time() + TURN_SECONDS)
                        await self.key.extend(self.services.pool, claim, TURN_SECONDS)
                    await wait_for(run)
        except TimeoutError:
            raise Refusal("overloaded", _NOT_TAKEN) from None

    async def _give_up(self, claim: Claim, run: RunFollower) -> None:
        """What a worker refused, or was not published at all, frees the key; otherwise it may begin yet."""
        refused = run.refused or (claim.mine and not self.published)
        if claim.mine or refused:
            await self.key.give_up(self.services.pool, claim, refused=refused)


def _as_claimed(request: ChatRequested, claim: Claim) -> ChatRequested:
    """The request under the trace of its claim, with time to be accepted from then on."""
    deadline = datetime.fromisoformat(claim.now) + timedelta(seconds=ACCEPT_SECONDS)
    return replace(
        request,
        trace_id=claim.trace_id,
        conversation_id=claim.conversation_id,
        attempt=claim.publication,
        requested_at=claim.now,
        deadline=deadline.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    )


def has_begun(run: RunFollower) -> bool:
    """Whether its user's message is saved. Raises Refusal where it never will here."""
    if run.ended and not run.started:
        last = run.take()[-1]
        assert isinstance(last, Broken)
        raise refused_by(last)
    return run.started


async def wait_for(run: RunFollower) -> None:
    """Return when there may be something to take. Raises ClientGone."""
    await run.wait()
    if run.gone:
        raise ClientGone


async def whole(run: RunFollower) -> tuple[Finished, list[Update]]:
    """The end of a run, once it is there, and all its updates. Raises Refusal where it failed; ClientGone."""
    updates = await ended(run)
    last = updates[-1]
    if isinstance(last, Broken):
        raise refused_by(last)
    assert isinstance(last, Finished)
    return last, updates


async def ended(run: RunFollower) -> list[Update]:
    """All its updates, once the last is there. Raises ClientGone."""
    while not run.ended:
        await wait_for(run)
    return run.take()


def refused_by(last: Broken) -> Refusal:
    """Of an answer that is no stream; in one wording what does not exist and what is somebody else's."""
    message = None if last.code == "conversation_not_found" else last.message
    return Refusal(last.code, message, approvals=last.approvals)


async def launch(request: AdmittedRequest, requested: RunRequest) -> tuple[Claim, RunFollower]:
    """Send the request off, and wait until its message is saved; both are held until it has been answered.

    The run is an earlier request's where this one repeats that by its Idempotency-Key. Raises Refusal,
    ClientGone, BusUnavailable, DatabaseUnavailable.
    """
    services, exchange, key = request.services, request.exchange, request.idempotency_key
    if requested.key is not None and key.text is None:
        key = IdempotencyKey(requested.key)
    elif requested.attempted is not None and key.text is None:
        key = Tried(None, attempted=requested.attempted)
    following = launched(
        services,
        exchange,
        _request(exchange.trace_id, request.auth, requested),
        key,
        request.slot,
        streaming=requested.streamed,
        outputs=requested.outputs,
        calls_at_end=requested.calls_at_end,
        fork=requested.fork,
    )
    claim, run = await exchange.enter(following)
    exchange.held.push_async_callback(_settle, services, exchange, key, claim, run)
    return claim, run


async def _settle(
    services: GatewayServices, exchange: Exchange, key: IdempotencyKey, claim: Claim, run: RunFollower
) -> None:
    """When the request has been answered, or is about to be refused."""
    if isinstance(key, Tried) and exchange.status is not None and not run.gone:
        await key.answered(services.claims, claim)
    if run.ended:
        services.limiter.ended(claim.account_id, claim.trace_id)


def _request(trace_id: str, caller: Caller, requested: RunRequest) -> ChatRequested:
    """Its times are those of its claim, once that is made."""
    return ChatRequested(
        trace_id=trace_id,
        attempt=1,
        account_id=caller.account_id,
        agent_id=requested.agent_id,
        conversation_id=requested.conversation_id
        or (ids.new_unlisted_id() if requested.unlisted else ids.new_id()),
        new_conversation=requested.conversation_id is None,
        message_id=ids.new_id(),
        message=requested.message,
        form=requested.form,
        requested_at=caller.now,
        deadline=caller.now,
        prompt=requested.prompt,
        history=requested.history,
        after=requested.after,
        instructions=requested.instructions,
        shown_sha256=requested.shown_sha256,
        output_schema=requested.output_schema,
        requested_model=requested.model,
        is_task=requested.is_task,
    )
