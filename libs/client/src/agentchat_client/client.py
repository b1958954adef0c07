"""The blocking client. `agentchat_client.aio` is the same with await; what the two share does no I/O."""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, Self, TypeVar

import httpx
import msgspec

from agentchat_client import calls, responses
from agentchat_client.calls import Call, Form, Service
from agentchat_client.errors import AgentChatError, ApiError, ConnectionFailed
from agentchat_client.events import Event
from agentchat_client.models import Conversation, HistoryMessage, Page, Reply
from agentchat_client.paging import Paging
from agentchat_client.responses import Answer
from agentchat_client.retries import Budget, Timeouts
from agentchat_client.transcript import Transcript

T = TypeVar("T")


class AgentChat:
    """Talks to the service with one key. Threads may share it; close it, or use it in a `with` block.

    `api_key`, `base_url` and `agent_id` default to AGENTCHAT_API_KEY, AGENTCHAT_BASE_URL, AGENTCHAT_AGENT_ID.
    `http_client` brings proxies or certificates of your own and stays yours to close. Every method raises
    AgentChatError; what may pass is tried again before, `max_retries` times at most and within a minute.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        agent_id: str | None = None,
        max_retries: int = 2,
        timeouts: Timeouts | None = None,
        http_client: httpx.Client | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = Service(
            api_key, base_url, agent_id, max_retries=max_retries, timeouts=timeouts, clock=clock
        )
        self._owns_http = http_client is None
        self._http = http_client or httpx.Client(limits=calls.LIMITS)
        self._sender = _Sender(self._service, self._http, sleep)

    def __repr__(self) -> str:
        return f"AgentChat({self._service})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            self._http.close()

    def chat(
        self,
        message: str,
        conversation_id: str | None = None,
        prompt: str | None = None,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Send a message and wait for the whole reply.

        `conversation_id` continues a thread; `prompt` overrides the agent's system prompt for this request.
        Calls with the same `idempotency_key` have one answer, for a day; else each has a key of its own.
        """
        call = self._service.chat(message, conversation_id, prompt, agent_id, idempotency_key)
        return self._sender.fetch(call).reply()

    def stream(
        self,
        message: str,
        conversation_id: str | None = None,
        prompt: str | None = None,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
        form: Form | None = None,
    ) -> "ChatStream":
        """Send a message and read the reply as it comes; the request goes out when the stream is entered.

        `form` chooses between the two stream forms; None leaves it to the service. With the `idempotency_key`
        of an earlier call its reply is streamed again from the beginning.
        """
        call = self._service.stream(message, conversation_id, prompt, agent_id, idempotency_key, form)
        return ChatStream(self._sender, call)

    def events(
        self, trace_id: str, last_event_id: str | None = None, *, form: Form | None = None
    ) -> "ChatStream":
        """Join the stream of a run under way, or read that of an ended one again, by its trace.

        With the `last_event_id` of such a stream it goes on behind that event. `form` None is that of the
        request. Entering raises NotFound for an unknown run, InvalidRequest for a foreign id.
        """
        return ChatStream(self._sender, calls.events(trace_id, last_event_id, form))

    def conversations(
        self,
        limit: int | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        agent_id: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        title: str | None = None,
    ) -> Iterator[Conversation]:
        """The account's threads, the newest first, page by page; the list may lag by a moment.

        Only those that match all that is given: all pairs of `metadata`, the `agent_id` of the last message,
        created at `created_after` or later and before `created_before`, a part of the `title`. Raises
        Misconfigured for a time without a zone.
        """
        query = calls.filters(metadata, agent_id, created_after, created_before, title)
        return self._listed(Paging("/v1/conversations", limit, query), Page[Conversation])

    def conversation(self, conversation_id: str) -> Conversation:
        """One thread."""
        return self._sender.fetch(calls.conversation(conversation_id)).value(Conversation)

    def describe(
        self,
        conversation_id: str,
        *,
        title: str | msgspec.UnsetType | None = msgspec.UNSET,
        metadata: Mapping[str, str | None] | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> Conversation:
        """Set the title and the metadata of a thread; what is left out stays. A run under way goes on.

        `title` None takes the title away. `metadata` are merged with the pairs that are there: None as a
        value removes its pair, None as a whole removes all.
        """
        call = calls.describe(conversation_id, title, metadata)
        return self._sender.fetch(call).value(Conversation)

    def fork(self, conversation_id: str, at: str | int | None = None) -> Conversation:
        """A new thread with what was said in this one, all of it or up to a place.

        `at` is the id of a reply, with which it ends, or of a user's message, before which it ends; or a
        version, or a time in ISO 8601. Raises Conflict where all is asked for while a reply is under way.
        """
        return self._sender.fetch(calls.fork(conversation_id, at)).value(Conversation)

    def messages(self, conversation_id: str) -> Iterator[HistoryMessage]:
        """The messages of a thread, the oldest first, page by page."""
        return self._listed(Paging(calls.messages_path(conversation_id)), Page[HistoryMessage])

    def cancel(self, trace_id: str) -> None:
        """End a run: its stream ends with ChatError `cancelled`, and the text so far is saved.

        Raises NotFound where the account has no such run, Conflict where it has ended.
        """
        self._sender.fetch(calls.cancel(trace_id))

    def decide(
        self,
        approval_id: str,
        decision: Literal["approved", "denied"],
        *,
        input: dict[str, Any] | None = None,  # noqa: A002 - as the API has it
        reason: str | None = None,
    ) -> None:
        """Allow a tool call, or not. An `input` takes the place of the model's own, whole.

        To an elicitation the `input` is the answer; denied refuses it.

        With the last decision that a run waits for it goes on: read it by `events`. The same decision again
        is no error. Raises NotFound, Conflict where it was decided otherwise, InvalidRequest where the input
        does not fit or it is too late.
        """
        self._sender.fetch(calls.decide(approval_id, decision, input, reason))

    def _listed(self, paging: Paging[T], kind: type[Page[T]]) -> Iterator[T]:
        while call := paging.next_call():
            yield from paging.take(self._sender.fetch(call).value(kind))


class ChatStream(Transcript):
    """One reply as typed events. Iterate within a `with` block: leaving it closes the stream.

    Leaving early does not end the run, whose reply is saved in the conversation; `cancel` does. Entering
    raises what `chat` raises; iterating raises ChatError, StreamInterrupted and InvalidResponse, and repeats
    nothing.
    """

    def __init__(self, sender: "_Sender", call: Call) -> None:
        super().__init__()
        self._sender = sender
        self._call = call
        self._budget = sender.budget()
        self._response: httpx.Response | None = None
        self._events = self._read()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def cancel(self) -> None:
        """End the run: who iterates on hears ChatError `cancelled`. Raises Conflict where it has ended."""
        self._sender.fetch(calls.cancel(self._named_trace()))

    def close(self) -> None:
        """Close the connection, whether or not the reply is complete."""
        self._events.close()
        if self._response is not None:
            self._response.close()

    def _open(self) -> httpx.Response:
        if self._response is None:
            self._response = self._sender.open(self._call, self._budget)
            self.trace_id = self._response.headers.get(responses.TRACE_HEADER)
        return self._response

    def _read(self) -> Generator[Event, None, None]:
        with contextlib.closing(self._open()) as response:
            responses.check_stream(response.headers)
            chunks = response.iter_bytes()
            while not self.ended:
                yield from self._feed(self._receive(chunks))
            # The end of the answer too, so that the connection can be used again.
            with contextlib.suppress(httpx.RequestError):
                next(chunks, None)

    def _receive(self, chunks: Iterator[bytes]) -> bytes | None:
        try:
            self._budget.check()
            return next(chunks, None)
        except calls.LOST as error:
            raise self._interrupted(calls.reason(error)) from error


class _Sender:
    """Sends calls, again where that may help."""

    def __init__(self, service: Service, http: httpx.Client, sleep: Callable[[float], object]) -> None:
        self._service = service
        self._http = http
        self._sleep = sleep

    def budget(self) -> Budget:
        return self._service.budget()

    def fetch(self, call: Call) -> Answer:
        """The whole answer. Raises ApiError, ConnectionFailed."""
        budget = self.budget()

        def attempt() -> Answer:
            response = self._begin(call, budget)
            return Answer(_whole(response, budget), response.headers.get(responses.TRACE_HEADER))

        return self._tried(attempt, budget)

    def open(self, call: Call, budget: Budget) -> httpx.Response:
        """An answer that is still to be read. Raises ApiError, ConnectionFailed."""
        return self._tried(lambda: self._begin(call, budget), budget)

    def _begin(self, call: Call, budget: Budget) -> httpx.Response:
        # No redirects: the key would go along to another server.
        response = self._http.send(
            self._service.request(self._http, call),
            auth=self._service.key,
            stream=True,
            follow_redirects=False,
        )
        if response.is_success:
            return response
        raise responses.refusal(response.status_code, response.headers, _whole(response, budget))

    def _tried(self, attempt: Callable[[], T], budget: Budget) -> T:
        while True:
            failure: AgentChatError
            try:
                return attempt()
            except ApiError as error:
                failure = error
            except calls.LOST as error:
                failure = ConnectionFailed(calls.reason(error))
                failure.__cause__ = error
            self._sleep(budget.wait_after(failure))


def _whole(response: httpx.Response, budget: Budget) -> bytes:
    pieces = []
    with contextlib.closing(response):
        for piece in response.iter_bytes():
            budget.check()
            pieces.append(piece)
    return b"".join(pieces)
