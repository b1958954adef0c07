"""The blocking client: it runs `agentchat_client.aio`, the one implementation, without an event loop."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, Self

import httpx
import msgspec

from agentchat_client import api_calls
from agentchat_client.aio import AsyncAgentChat, ReplyReader
from agentchat_client.api_calls import Form
from agentchat_client.blocking import BlockingHttp, each, run
from agentchat_client.events import Event
from agentchat_client.models import Conversation, Feedback, HistoryMessage, Reply
from agentchat_client.retries import Timeouts


class AgentChat:
    """The blocking client for one key. Threads may share it; close it, or use it in a `with` block.

    `api_key`, `base_url` and `agent_id` default to AGENTCHAT_API_KEY, AGENTCHAT_BASE_URL, AGENTCHAT_AGENT_ID.
    `http_client` is for your own proxies or certificates; you close it. Every method raises AgentChatError.
    A transient failure is retried first, at most `max_retries` times and within a minute.
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
        async def blocking_sleep(seconds: float) -> None:
            sleep(seconds)

        self._owns_http = http_client is None
        self._http = BlockingHttp(http_client or httpx.Client(limits=api_calls.LIMITS))
        self._client = AsyncAgentChat(
            api_key,
            base_url=base_url,
            agent_id=agent_id,
            max_retries=max_retries,
            timeouts=timeouts,
            http_client=self._http,
            sleep=blocking_sleep,
            clock=clock,
        )

    def __repr__(self) -> str:
        return f"AgentChat({self._client.service})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            run(self._http.aclose())

    def chat(
        self,
        message: str,
        conversation_id: str | None = None,
        prompt: str | None = None,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Send a message and wait for the complete reply.

        `conversation_id` continues a thread; `prompt` overrides the agent's system prompt for this request.
        Calls with the same `idempotency_key` have one answer, for a day; without one, each gets a new key.
        """
        return run(
            self._client.chat(
                message, conversation_id, prompt, agent_id=agent_id, idempotency_key=idempotency_key
            )
        )

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
        """Send a message and read the reply as it comes; the request is sent when the stream is entered.

        `form` chooses between the two stream forms; None leaves it to the service. With the `idempotency_key`
        of an earlier call, that reply is streamed again from the beginning.
        """
        stream = self._client.stream(
            message, conversation_id, prompt, agent_id=agent_id, idempotency_key=idempotency_key, form=form
        )
        return ChatStream(stream)

    def events(
        self, trace_id: str, last_event_id: str | None = None, *, form: Form | None = None
    ) -> "ChatStream":
        """Join the stream of a run under way, or read that of an ended one again, by its trace.

        With the `last_event_id` of such a stream, it continues after that event. `form` None is the form of
        the request. Entering raises NotFound for an unknown run, InvalidRequest for an id of another run.
        """
        return ChatStream(self._client.events(trace_id, last_event_id, form=form))

    def conversations(
        self,
        limit: int | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        agent_id: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        title: str | None = None,
        rating: Literal["bad", "good"] | None = None,
    ) -> Iterator[Conversation]:
        """The account's threads, the newest first, page by page; the list may lag by a moment.

        All filters must match: all pairs of `metadata`, the `agent_id` of the last message, created at
        `created_after` or later and before `created_before`, a part of the `title`, the `rating` of a reply.
        Raises Misconfigured for a time without a zone.
        """
        found = self._client.conversations(
            limit,
            metadata=metadata,
            agent_id=agent_id,
            created_after=created_after,
            created_before=created_before,
            title=title,
            rating=rating,
        )
        return each(found)

    def conversation(self, conversation_id: str) -> Conversation:
        """One thread."""
        return run(self._client.conversation(conversation_id))

    def describe(
        self,
        conversation_id: str,
        *,
        title: str | msgspec.UnsetType | None = msgspec.UNSET,
        metadata: Mapping[str, str | None] | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> Conversation:
        """Set the title and the metadata of a thread; an argument left out changes nothing. A run continues.

        `title` None removes the title. `metadata` are merged with the existing pairs: the value None removes
        its pair, `metadata` None removes all.
        """
        return run(self._client.describe(conversation_id, title=title, metadata=metadata))

    def fork(self, conversation_id: str, at: str | int | None = None) -> Conversation:
        """A new thread with the messages of this one, all of them or up to `at`.

        `at` is the id of a reply (the last message copied) or of a user's message (the first not copied), a
        version, or a time in ISO 8601. Raises Conflict for a copy of all while a reply is under way.
        """
        return run(self._client.fork(conversation_id, at))

    def messages(self, conversation_id: str) -> Iterator[HistoryMessage]:
        """The messages of a thread, the oldest first, page by page."""
        return each(self._client.messages(conversation_id))

    def cancel(self, trace_id: str) -> None:
        """End a run: its stream ends with ChatError `cancelled`, and the text so far is saved.

        Raises NotFound where the account has no such run, Conflict where it has ended.
        """
        run(self._client.cancel(trace_id))

    def decide(
        self,
        approval_id: str,
        decision: Literal["approved", "denied"],
        *,
        input: dict[str, Any] | None = None,  # noqa: A002 - as the API has it
        reason: str | None = None,
    ) -> None:
        """Approve or deny a tool call. `input` replaces the input that the model wrote.

        For an elicitation `input` is the answer; "denied" declines it.

        After the last decision that it waits for, the run continues: read it by `events`. The same decision
        again is no error. Raises NotFound, Conflict where another decision was made, InvalidRequest where the
        input does not match or it is too late.
        """
        run(self._client.decide(approval_id, decision, input=input, reason=reason))

    def give_feedback(
        self,
        message_id: str,
        score: float,
        *,
        label: str | None = None,
        comment: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Feedback:
        """Say what somebody thinks of a reply, from -1 (bad) to 1 (good), by its id or its trace id.

        It replaces what was given before for the same `on_behalf_of`. Raises NotFound where the account has
        no such reply.
        """
        return run(
            self._client.give_feedback(
                message_id, score, label=label, comment=comment, on_behalf_of=on_behalf_of
            )
        )

    def feedback(self, message_id: str) -> tuple[Feedback, ...]:
        """All feedback on a reply, the newest first."""
        return run(self._client.feedback(message_id))

    def withdraw_feedback(self, message_id: str, on_behalf_of: str | None = None) -> None:
        """Take feedback back, that for `on_behalf_of` or that without, if there is any."""
        run(self._client.withdraw_feedback(message_id, on_behalf_of))


class ChatStream(ReplyReader):
    """One reply as typed events. Iterate within a `with` block: leaving it closes the stream.

    Leaving early does not end the run, whose reply is saved in the conversation; `cancel` does. Entering
    raises what `chat` raises; iterating raises ChatError, StreamInterrupted and InvalidResponse, and repeats
    nothing.
    """

    def __init__(self, stream: ReplyReader) -> None:
        super().__init__(stream.sender, stream.call)
        self._each = each(self._events)

    def __enter__(self) -> Self:
        run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._each)

    def cancel(self) -> None:
        """End the run: the stream then raises ChatError `cancelled`. Raises Conflict where it has ended."""
        run(self._cancel())

    def close(self) -> None:
        """Close the connection, whether or not the reply is complete."""
        run(self._close())
