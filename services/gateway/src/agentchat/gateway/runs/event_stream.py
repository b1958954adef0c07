"""Follow a run for one request: take its updates, answer with a stream of them, or wait for its end."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from litestar import Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import Receive, Scope, Send
from msgspec.structs import replace

from agentchat.contracts import sse_encoder
from agentchat.contracts.timings import PING_SECONDS
from agentchat.contracts.updates import (
    STEERED,
    Broken,
    Finished,
    ReasoningUpdate,
    TextUpdate,
    Update,
    WarningUpdate,
)
from agentchat.gateway.http.problems import ClientDisconnected, Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.frames_to_updates import View
from agentchat.gateway.runs.sent_updates import Phase
from agentchat.gateway.runs.updates_after_cursor import ReadPosition
from agentchat.runtime import failpoints

EVENTS = {
    200: ResponseSpec(str, description="The events.", media_type="text/event-stream", generate_examples=False)
}
"""The answer of a handler that streams, for the description of the API."""

STREAM_HEADERS = {name.decode(): value.decode() for name, value in sse_encoder.HEADERS}

_WAITING_UPDATES = 256
_WAITING_CHARACTERS = 64 * 1024
_JOINED = "The message has joined the run `running_trace_id`. Read that one."


class JoinedRun(Exception):  # noqa: N818 - an outcome
    """The message has joined the run `trace_id`, whose reply answers the request."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(trace_id)
        self.trace_id = trace_id


class UpdateQueue:
    """Updates that wait for the only reader of a run, bounded by joining pieces of text. Taking drops them.

    `ended`: The last update was added.
    """

    __slots__ = ("_characters", "_joining", "_waiting", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._waiting: list[Update] = []
        self._joining: list[str] = []  # text after the last of these, which is text
        self._characters = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, new: Iterable[Update]) -> None:
        """Add updates."""
        for update in new:
            if isinstance(update, TextUpdate | ReasoningUpdate):
                self._characters += len(update.text)
                if self._is_full() and _are_of_one_part(self._waiting[-1], update):
                    self._joining.append(update.text)
                    continue
            elif isinstance(update, Finished | Broken):
                self.ended = True
            self._join()
            self._waiting.append(update)

    def take(self) -> list[Update]:
        """Return the updates and drop them."""
        self._join()
        taken, self._waiting = self._waiting, []
        self._characters = 0
        return taken

    def _is_full(self) -> bool:
        return len(self._waiting) > 1 and (
            len(self._waiting) >= _WAITING_UPDATES or self._characters >= _WAITING_CHARACTERS
        )

    def _join(self) -> None:
        """Join what was held back all at once: piece by piece is quadratic."""
        if self._joining and isinstance(last := self._waiting[-1], TextUpdate | ReasoningUpdate):
            self._waiting[-1] = replace(last, text="".join((last.text, *self._joining)))
            self._joining.clear()


def _are_of_one_part(last: Update, piece: TextUpdate | ReasoningUpdate) -> bool:
    """Return True if two pieces next to each other can be joined."""
    return type(last) is type(piece) and replace(last, text="") == replace(piece, text="")


class RunFollower:
    """One reader of a run: `take` what there is, `wait` for more, close with `aclose`.

    `gone` is set when its client has left. `on_tick` is called about once a second.
    """

    __slots__ = ("_after_pause", "_is_woken", "_on_close", "_updates", "_view", "_waiter", "gone", "on_tick")

    def __init__(
        self,
        view: View,
        updates: UpdateQueue | ReadPosition,
        after_pause: AfterPause | None = None,
        on_close: Callable[["RunFollower"], Awaitable[None]] | None = None,
    ) -> None:
        self.gone = False
        self.on_tick: Callable[[float], None] | None = None
        self._on_close = on_close
        self._view = view
        self._updates = updates
        self._after_pause = after_pause
        self._is_woken = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def started(self) -> bool:
        """True if the user's message is saved."""
        return self._view.started

    @property
    def waiting(self) -> bool:
        """True if the request is queued behind another run of its conversation."""
        return self._view.phase is Phase.QUEUED

    @property
    def refused(self) -> bool:
        """True if a worker has refused the request, so that its run never starts."""
        return self._view.phase is Phase.REFUSED

    @property
    def ended(self) -> bool:
        """True if the last update can be taken, or was taken."""
        return self._updates.ended

    @property
    def position(self) -> ReadPosition:
        """The reader's position, in a run that is followed from its beginning."""
        assert isinstance(self._updates, ReadPosition)
        return self._updates

    def check_started(self) -> bool:
        """Return True once the user's message is saved.

        Raises Refusal if the run ended before that, JoinedRun if the message is another run's.
        """
        if self.ended and not self.started:
            last = self.take()[-1]
            assert isinstance(last, Broken)
            if last.code == STEERED and last.running_trace_id is not None:
                raise JoinedRun(last.running_trace_id)
            raise build_run_refusal(last)
        return self.started

    async def wait_until_saved(self) -> None:
        """Return once the user's message is saved. Raises as `check_started`."""
        while not self.check_started():
            await self.wait()

    def take(self) -> list[Update]:
        """Return the updates since the last call."""
        updates = self._updates.take()
        return updates if self._after_pause is None else self._after_pause.take_rest(updates)

    async def wait(self) -> None:
        """Return when there may be something to take, or `gone` was set, or `wake` was called."""
        if not self._is_woken:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._is_woken = False

    def wake(self) -> None:
        """End the wait that is under way, or the next one."""
        self._is_woken = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def watch_client(self, receive: Receive) -> "asyncio.Task[None]":
        """Set `gone` when the client closes the connection, until the task is cancelled."""
        return asyncio.create_task(self._leave_with_client(receive))

    async def _leave_with_client(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":  # of a GET its empty body comes first
            pass
        self.gone = True
        self.wake()

    async def aclose(self) -> None:
        """Stop following the run, once."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            await on_close(self)


class EventStream(Response[Any]):
    """The run's events as an answer. What one call of `take` returns goes out in one piece.

    Litestar's `Stream` would start a task group of two tasks for each: 8 to 10 % of the gateway's part of a
    chat. The caller holds the run until the answer is out; the run itself continues if the client leaves. A
    slow reader gets larger pieces: what comes meanwhile is joined. The kernel drops a reader that
    acknowledges nothing for 15 s (`runtime.listening_socket`).
    """

    def __init__(self, run: RunFollower, take: Callable[[], bytes]) -> None:
        super().__init__(None)
        self._run = run
        self._take = take
        self._sent_at = time.monotonic()
        self._pings = False

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return the ASGI application that answers, as Litestar asks for it."""
        return self._answer

    async def _answer(self, _: Scope, receive: Receive, send: Send) -> None:
        """Return after the final event, or when the client has gone."""
        run = self._run
        await send({"type": "http.response.start", "status": 200, "headers": sse_encoder.HEADERS})
        run.on_tick = self._tick
        watching = run.watch_client(receive)
        try:
            while not run.gone:
                data = self._take()
                if run.ended:
                    failpoints.reach("gateway-before-last-event")
                    await send({"type": "http.response.body", "body": data, "more_body": False})
                    return
                if data or self._pings:
                    self._sent_at, self._pings = time.monotonic(), False
                    data = data or sse_encoder.PING
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await run.wait()
        finally:
            watching.cancel()

    def _tick(self, now: float) -> None:
        """Send a ping after a silence. `now` is by the loop's clock, which is the monotonic one."""
        if now - self._sent_at >= PING_SECONDS:
            self._pings = True
            self._run.wake()


async def wait_for_reply(request: JsonRequest, run: RunFollower) -> tuple[Finished | Broken, list[Update]]:
    """Return the end of a run and all its updates, once it has ended or waits for its client's tools.

    Raises Refusal if it failed or waits for a person; ClientDisconnected.
    """
    updates = await wait_for_end(request, run)
    last = updates[-1]
    if isinstance(last, Broken) and not last.client_calls:
        raise build_run_refusal(last)
    assert isinstance(last, Finished | Broken)
    return last, updates


async def wait_for_end(request: JsonRequest, run: RunFollower) -> list[Update]:
    """Return all updates of a run, once the last is there. Raises ClientDisconnected.

    X-Unavailable-Tools of the response names the tool servers that the run continued without.
    """
    watching = run.watch_client(request.receive)
    try:
        while not run.ended:
            await run.wait()
            if run.gone:
                raise ClientDisconnected
    finally:
        watching.cancel()
    updates = run.take()
    warnings = [update.warning for update in updates if isinstance(update, WarningUpdate)]
    if missing := [each.subject for each in warnings if each.code == "tool_server_unavailable"]:
        request.context.add_header("x-unavailable-tools", ", ".join(missing))
    return updates


def build_run_refusal(last: Broken) -> Refusal:
    """Build the refusal of a run that failed. Unknown and foreign conversations get the same message."""
    if last.code == STEERED:
        return Refusal("conversation_busy", _JOINED, running_trace_id=last.running_trace_id)
    message = None if last.code == "conversation_not_found" else last.message
    return Refusal(last.code, message, approvals=last.approvals, running_trace_id=last.running_trace_id)
