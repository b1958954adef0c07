"""Start the run that answers a chat request, or join that of an earlier one with the same Idempotency-Key.

The functions stand in the order in which they happen: claim the key, follow the run's frames, publish the
request, wait until the user's message is saved. The orchestrator's inbox consumes the published request.
"""

import asyncio
import contextlib
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from agentchat.bus.commands import fork_conversation
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import ids
from agentchat.contracts.messages import ChatRequested, ForkConversation
from agentchat.contracts.timings import ACCEPT_SECONDS, LINE_SECONDS, LINE_SLACK_SECONDS
from agentchat.contracts.updates import Broken
from agentchat.conversations.aggregate import forking
from agentchat.conversations.claims.idempotency import Claim
from agentchat.directory.caller import Caller
from agentchat.gateway.access.checks import get_admitted
from agentchat.gateway.access.idempotency_header import IdempotencyKey
from agentchat.gateway.access.plan_limits import Slot
from agentchat.gateway.http.json_request import JsonRequest
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.http.request_context import RequestContext
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.claim_key import claim_run, extend_claim, give_up_claim
from agentchat.gateway.runs.followed_run import RunFollower
from agentchat.gateway.runs.followed_runs import Stopping
from agentchat.gateway.runs.run_request import Fork, RunRequest, ViewKind
from agentchat.gateway.services import GatewayServices, get_services
from agentchat.runtime import failpoints, logs

TURN_SECONDS = LINE_SECONDS + LINE_SLACK_SECONDS
_START_SECONDS = ACCEPT_SECONDS + TURN_SECONDS
_SLACK_SECONDS = 0.1
_NOT_TAKEN = "No worker was available in time."


class StartedRun(msgspec.Struct, frozen=True):
    """A run whose user's message is saved, and the claim under which it runs.

    `after_pause`: it has waited for a person, and its updates are those from there on.
    """

    claim: Claim
    run: RunFollower
    after_pause: AfterPause | None = None


async def start_run(request: JsonRequest, run_request: RunRequest) -> StartedRun:
    """Start the run and wait until its user message is saved; it is followed until the request is answered.

    If an earlier request used the same Idempotency-Key, the follower is that run's and the answer carries its
    trace id.

    Raises:
        Refusal: The run was refused; the status is that of its code.
        BusUnavailable, DatabaseUnavailable: Nothing was published.
    """
    services, context, admitted = get_services(request), request.context, get_admitted(request)
    key = admitted.idempotency_key
    if run_request.key is not None and key.text is None:
        key = IdempotencyKey(run_request.key)
    chat = _chat_requested(context.trace_id, request.auth, run_request)
    start = RunStart(services, context, chat, key, admitted.slot, run_request.view, run_request.fork)
    started = await start.start()
    context.held.push_async_callback(_stop_following, services, started)
    return started


async def _stop_following(services: GatewayServices, started: StartedRun) -> None:
    has_ended = started.run.ended
    await started.run.aclose()
    if has_ended:
        services.limiter.note_ended(started.claim.account_id, started.claim.trace_id)


def _chat_requested(trace_id: str, caller: Caller, run_request: RunRequest) -> ChatRequested:
    """Build the request. Its times are those of its claim, once that is made."""
    return ChatRequested(
        trace_id=trace_id,
        attempt=1,
        account_id=caller.account_id,
        agent_id=run_request.agent_id,
        conversation_id=run_request.conversation_id
        or (ids.make_unlisted_id() if run_request.unlisted else ids.make_id()),
        new_conversation=run_request.conversation_id is None,
        message_id=ids.make_id(),
        message=run_request.message,
        form=run_request.form,
        requested_at=caller.now,
        deadline=caller.now,
        prompt=run_request.prompt,
        history=run_request.history,
        after=run_request.after,
        instructions=run_request.instructions,
        shown_sha256=run_request.shown_sha256,
        output_schema=run_request.output_schema,
        requested_model=run_request.model,
        is_task=run_request.is_task,
    )


class RunStart(msgspec.Struct):
    """One chat request until it has a run. It may take several claims of its key until it has."""

    services: GatewayServices
    context: RequestContext
    request: ChatRequested
    key: IdempotencyKey
    slot: Slot
    view: ViewKind
    fork: Fork | None = None
    published: bool = False

    async def start(self) -> StartedRun:
        """Return the run once its user message is saved; the caller closes its follower.

        Raises Refusal, BusUnavailable, DatabaseUnavailable.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_SECONDS
        while loop.time() < deadline:
            claim = await claim_run(self.services.claims, self.key, self.request)
            try:
                run = await self._follow(claim)
                if run is not None:
                    return StartedRun(claim, run)
            except (BusUnavailable, Stopping) as error:
                if claim.mine:
                    refused = isinstance(error, Stopping)
                    await give_up_claim(self.services.pool, claim, refused=refused)
                raise
        raise Refusal("overloaded", _NOT_TAKEN)

    async def _follow(self, claim: Claim) -> RunFollower | None:
        """Follow the run of a claim until it has begun; None where the key is to be claimed again."""
        self.context.trace_id = claim.trace_id
        run = await self.services.runs.follow(
            claim.trace_id,
            claim.conversation_id,
            self.view,
            from_beginning=not (claim.mine and claim.publication == 1),
            publication=claim.publication,
            after_version=0 if claim.begun_at is None else claim.begun_at - 1,
        )
        self.context.conversation_id = claim.conversation_id
        has_begun = False
        try:
            has_begun = await self._begin(claim, run)
        except Refusal:
            await self._give_up(claim, run)
            raise
        finally:
            if not has_begun:
                await run.aclose()
        return run if has_begun else None

    async def _begin(self, claim: Claim, run: RunFollower) -> bool:
        """Publish the request, or find the run of the earlier one. Raises Refusal, BusUnavailable."""
        if claim.mine and not check_begun(run):
            await self._publish(claim)
            await self._wait_until_saved(claim, run)
            failpoints.reach("gateway-accepted")
            return True
        await self.slot.give_back()
        if run.refused:  # before this request came
            await self._give_up(claim, run)
            return False
        return await self._find_earlier(claim, run)

    async def _publish(self, claim: Claim) -> None:
        """Publish the request under the trace of its claim.

        From then on a run may begin, whoever waits for it: the slot is the worker's to free, who refuses the
        request or ends its run. If none ever takes it, its lease ends.
        """
        await self.slot.take(claim.trace_id)
        deadline = datetime.fromisoformat(claim.now) + timedelta(seconds=ACCEPT_SECONDS)
        request = replace(
            self.request,
            trace_id=claim.trace_id,
            conversation_id=claim.conversation_id,
            attempt=claim.publication,
            requested_at=claim.now,
            deadline=deadline.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        )
        if self.fork is not None:
            await self.slot.take_write()
            request = await _fork(self.services, request, self.fork)
        self.published = True
        failpoints.reach("gateway-before-publish")
        await self.services.bus.queues.request_chat(request)
        failpoints.reach("gateway-published")
        self.slot.hand_over()

    async def _wait_until_saved(self, claim: Claim, run: RunFollower) -> None:
        is_queued = False
        try:
            async with asyncio.timeout(ACCEPT_SECONDS) as patience:
                while not check_begun(run):
                    if run.waiting and not is_queued:
                        is_queued = True
                        patience.reschedule(asyncio.get_running_loop().time() + TURN_SECONDS)
                        await extend_claim(self.services.pool, claim, TURN_SECONDS)
                    await run.wait()
        except TimeoutError:
            raise Refusal("overloaded", _NOT_TAKEN) from None

    async def _find_earlier(self, claim: Claim, run: RunFollower) -> bool:
        """Wait for as long as the request that has the claim may."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(claim.seconds + _SLACK_SECONDS):
                while not check_begun(run):
                    await run.wait()
        if run.started:
            logs.get_logger("gateway").info("request_repeated", first_trace_id=claim.trace_id)
        return run.started

    async def _give_up(self, claim: Claim, run: RunFollower) -> None:
        """Free the key where a worker refused the request, or nobody published it; else it may begin yet."""
        refused = run.refused or (claim.mine and not self.published)
        if claim.mine or refused:
            await give_up_claim(self.services.pool, claim, refused=refused)


async def _fork(services: GatewayServices, request: ChatRequested, fork: Fork) -> ChatRequested:
    """Fork the conversation, and return the request for the fork. To ask again is safe.

    Where there can be no fork, the request begins a conversation with its history. Raises Refusal,
    BusUnavailable.
    """
    command = ForkConversation(
        trace_id=request.trace_id,
        account_id=request.account_id,
        conversation_id=request.conversation_id,
        source_id=fork.source_id,
        at=fork.at,
    )
    answer = await fork_conversation(services.bus.rpc, command)
    if answer.outcome == "forked":
        after = forking.derive_reply_id(request.conversation_id, fork.trace_id)
        return replace(request, new_conversation=False, after=after, history=())
    if not request.history:
        is_too_large = answer.outcome == "too_large"
        raise Refusal("conversation_too_large" if is_too_large else "conversation_not_found")
    return request


def check_begun(run: RunFollower) -> bool:
    """Return True once the user's message is saved. Raises Refusal where it never will be here."""
    if run.ended and not run.started:
        last = run.take()[-1]
        assert isinstance(last, Broken)
        raise build_run_refusal(last)
    return run.started


def build_run_refusal(last: Broken) -> Refusal:
    """Build the refusal of a run that failed. Unknown and foreign conversations get the same message."""
    message = None if last.code == "conversation_not_found" else last.message
    return Refusal(last.code, message, approvals=last.approvals)
