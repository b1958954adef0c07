"""Submit a chat request to the orchestrator, or join the run of an earlier request.

The functions are in the order in which they are called: claim the Idempotency-Key, follow the run's frames,
publish the request, wait until the user's message is saved.
"""

import asyncio
import contextlib
import time
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from agentchat.bus.commands import fork_conversation
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.rpc import Rpc
from agentchat.contracts import ids
from agentchat.contracts.messages import ChatRequested, ForkConversation, RunInput
from agentchat.contracts.timings import ACCEPT_SECONDS, LINE_SECONDS, LINE_SLACK_SECONDS
from agentchat.conversations.aggregate import forking
from agentchat.conversations.idempotency.idempotency_keys import Claim
from agentchat.directory.api_keys import Caller
from agentchat.directory.run_secrets import save_run_secrets
from agentchat.gateway.access.checks import get_admitted
from agentchat.gateway.access.idempotency_header import IdempotencyKey
from agentchat.gateway.access.on_busy_header import read_on_busy
from agentchat.gateway.attachments.message_files import MessageFiles
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.event_stream import JoinedRun, RunFollower
from agentchat.gateway.runs.follow_frames import Stopping
from agentchat.gateway.runs.request_hash import claim_run, extend_claim, give_up_claim
from agentchat.gateway.runs.run_request import Fork, RunRequest
from agentchat.gateway.uploads.store_upload import find_room
from agentchat.runtime import failpoints, logs
from agentchat.runtime.postgres import DatabaseUnavailable

TURN_SECONDS = LINE_SECONDS + LINE_SLACK_SECONDS
_START_SECONDS = ACCEPT_SECONDS + TURN_SECONDS
_SLACK_SECONDS = 0.1
_NOT_TAKEN = "No worker was available in time."


class StartedRun(msgspec.Struct, frozen=True):
    """A run whose user's message is saved, and the claim under which it runs.

    after_pause: The run was resumed; its updates are those after this pause.
    """

    claim: Claim
    run: RunFollower
    after_pause: AfterPause | None = None


async def submit_request(request: JsonRequest, run_request: RunRequest) -> StartedRun:
    """Submit the request and wait until its user message is saved. Follow the run until it is answered.

    If an earlier request used the same Idempotency-Key, the follower is that run's and the response carries
    its trace id.

    Raises:
        Refusal: The run was refused; the status is that of its code.
        BusUnavailable, DatabaseUnavailable: Nothing was published.
    """
    services, context, key = request.services, request.context, get_admitted(request).idempotency_key
    if run_request.key is not None and key.text is None:
        key = IdempotencyKey(run_request.key)
    if run_request.metadata and (run_request.conversation_id or run_request.fork):
        context.ignored.append("metadata")  # a conversation gets them when it begins
    chat = _build_request(context.trace_id, request.auth, run_request)
    chat = replace(chat, on_busy=read_on_busy(request.headers, run_request.on_busy))
    files = None
    if run_request.attachments:
        room = await find_room(request, request.auth)
        files = MessageFiles(
            services.pool, services.files, services.downloader, run_request.attachments, room
        )
    started = await Submission(request, chat, key, run_request, files).submit()
    context.held.push_async_callback(started.run.aclose)
    return started


def _build_request(trace_id: str, caller: Caller, run_request: RunRequest) -> ChatRequested:
    """Build the request for the bus. `requested_at` and `deadline` are set when its key is claimed."""
    return ChatRequested(
        trace_id=trace_id,
        attempt=1,
        account_id=caller.account_id,
        conversation_id=run_request.conversation_id
        or (ids.make_unlisted_id() if run_request.unlisted else ids.make_id()),
        new_conversation=run_request.conversation_id is None,
        message_id=ids.make_id(),
        requested_at=caller.now,
        deadline=caller.now,
        user_id=caller.user_id,
        **{name: getattr(run_request, name) for name in RunInput.__struct_fields__},
    )


class Submission:
    """Submits one request, which may claim its key several times before a run has started."""

    def __init__(
        self,
        request: JsonRequest,
        chat: ChatRequested,
        key: IdempotencyKey,
        wanted: RunRequest,
        files: MessageFiles | None,
    ) -> None:
        self._services, self._context = request.services, request.context
        self._slot = get_admitted(request).slot
        self._chat = chat
        self._key = key
        self._wanted = wanted
        self._files = files
        self._is_published = False

    async def submit(self) -> StartedRun:
        """Return the run once its user message is saved; the caller closes its follower.

        Raises Refusal, BusUnavailable, DatabaseUnavailable.
        """
        try:
            return await self._submit()
        finally:
            if self._files is not None and not self._is_published:
                await self._files.discard(self._chat)

    async def _submit(self) -> StartedRun:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_SECONDS
        while loop.time() < deadline:
            claim = await self._claim()
            try:
                started = await self._follow_until_started(claim)
            except (BusUnavailable, DatabaseUnavailable, Stopping) as error:
                if claim.mine:
                    refused = isinstance(error, Stopping)
                    await give_up_claim(self._services.pool, claim, refused=refused)
                raise
            if started is not None:
                return started
        raise Refusal("overloaded", _NOT_TAKEN)

    async def _claim(self) -> Claim:
        """Return the run that the key stands for: this request's own if it has no key."""
        chat = self._chat
        if self._key.text is None:
            return Claim(
                account_id=chat.account_id,
                trace_id=chat.trace_id,
                conversation_id=chat.conversation_id,
                now=chat.requested_at,
            )
        marks = self._files.marks if self._files is not None else ()
        return await claim_run(self._services.claims, self._key.text, chat, marks)

    async def _follow_until_started(self, claim: Claim) -> StartedRun | None:
        """Follow the claim's run until it has started. Return None if the key must be claimed again.

        If the message has joined another run, follow that one from its beginning.
        """
        self._context.trace_id, self._context.conversation_id = claim.trace_id, None
        run = await self._services.runs.follow(
            claim.trace_id,
            claim.conversation_id,
            self._wanted.view,
            from_beginning=not (claim.mine and claim.publication == 1),
            publication=claim.publication,
            after_version=0 if claim.begun_at is None else claim.begun_at - 1,
        )
        has_started = False
        try:
            if claim.mine and not run.check_started():
                has_started = await self._publish_and_wait(claim, run)
            else:
                has_started = await self._join_earlier(claim, run)
        except JoinedRun as joined:
            claim = replace(claim, trace_id=joined.trace_id, begun_at=None, mine=False)
            return await self._follow_until_started(claim)
        except Refusal as refusal:
            if run.refused and not refusal.approvals:
                self._context.conversation_id = None
            await self._give_up(claim, run)
            self._is_published = self._is_published and not run.refused
            raise
        finally:
            if not has_started:
                await run.aclose()
        return StartedRun(claim, run) if has_started else None

    async def _publish_and_wait(self, claim: Claim, run: RunFollower) -> bool:
        await self._publish(claim)
        await self._wait_until_saved(claim, run)
        failpoints.reach("gateway-accepted")
        return True

    async def _publish(self, claim: Claim) -> None:
        """Publish the request under its claim's trace.

        From then on a worker may start the run, so the slot is the worker's to free. If no worker takes the
        request, the slot's lease expires.

        Crosses to the orchestrator: `orchestrator.inbox.inbox.Inbox.handle`. The run's frames come back
        to `gateway.runs.follow_frames.FollowedRun.deliver`.
        """
        await self._slot.take(claim.trace_id)
        chat, began = self._chat, time.monotonic()
        if self._files is not None:
            chat = await self._files.attach(chat)
            await extend_claim(self._services.pool, claim, ACCEPT_SECONDS)
        seconds = ACCEPT_SECONDS + time.monotonic() - began
        deadline = datetime.fromisoformat(claim.now) + timedelta(seconds=seconds)
        chat = replace(
            chat,
            trace_id=claim.trace_id,
            conversation_id=claim.conversation_id,
            attempt=claim.publication,
            requested_at=claim.now,
            deadline=deadline.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        )
        if self._wanted.fork is not None:
            await self._slot.take_write()
            chat = await _fork(self._services.bus.rpc, chat, self._wanted.fork)
        if self._files is not None:
            chat = await self._files.attach_history(chat)
        if secrets := self._wanted.secrets:
            sealer = self._services.get_sealer()
            await save_run_secrets(self._services.pool, sealer, chat.account_id, claim.trace_id, secrets)
        self._is_published, self._context.conversation_id = True, claim.conversation_id
        failpoints.reach("gateway-before-publish")
        await self._services.bus.queues.request_chat(chat)
        failpoints.reach("gateway-published")
        self._slot.hand_over()

    async def _wait_until_saved(self, claim: Claim, run: RunFollower) -> None:
        is_queued = False
        try:
            async with asyncio.timeout(ACCEPT_SECONDS) as patience:
                while not run.check_started():
                    if run.waiting and not is_queued:
                        is_queued = True
                        patience.reschedule(asyncio.get_running_loop().time() + TURN_SECONDS)
                        await extend_claim(self._services.pool, claim, TURN_SECONDS)
                        if self._wanted.returns_queued and self._chat.on_busy != "steer":
                            return  # a message that steers may get another run's trace
                    await run.wait()
        except TimeoutError:
            raise Refusal("overloaded", _NOT_TAKEN) from None

    async def _join_earlier(self, claim: Claim, run: RunFollower) -> bool:
        """Wait for the run of the earlier request, as long as that request may take to start it.

        Return False if it was refused or did not start: then the key is free again, or soon.
        """
        await self._slot.give_back()
        if run.refused:
            await self._give_up(claim, run)
            return False
        self._context.conversation_id = claim.conversation_id
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(claim.seconds + _SLACK_SECONDS):
                await run.wait_until_saved()
        if run.started:
            logs.get_logger("gateway").info("request_repeated", first_trace_id=claim.trace_id)
        return run.started

    async def _give_up(self, claim: Claim, run: RunFollower) -> None:
        """Free the key if a worker refused the request or nobody published it; else it may still start."""
        refused = run.refused or (claim.mine and not self._is_published)
        if claim.mine or refused:
            await give_up_claim(self._services.pool, claim, refused=refused)


async def _fork(rpc: Rpc, request: ChatRequested, fork: Fork) -> ChatRequested:
    """Fork the conversation and return the request for the fork. Forking again under this trace is safe.

    If the conversation cannot be forked, the request starts a new one with its history.

    Raises:
        Refusal: It cannot be forked and the request has no history.
        BusUnavailable
    """
    command = ForkConversation(
        trace_id=request.trace_id,
        account_id=request.account_id,
        user_id=request.user_id,
        conversation_id=request.conversation_id,
        source_id=fork.source_id,
        at=fork.at,
    )
    answer = await fork_conversation(rpc, command)
    if answer.outcome == "forked":
        after = forking.derive_reply_id(request.conversation_id, fork.trace_id)
        return replace(request, new_conversation=False, after=after, history=())
    if not request.history:
        is_too_large = answer.outcome == "too_large"
        raise Refusal("conversation_too_large" if is_too_large else "conversation_not_found")
    return request
