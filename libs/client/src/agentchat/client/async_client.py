"""Call the service from asyncio. `agentchat.client.client` runs this implementation for blocking callers."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, TypeVar

import httpx
import msgspec
from msgspec.structs import replace

from agentchat.client.api_calls import (
    LIMITS,
    WEBHOOKS,
    ApiCall,
    ClientSettings,
    Form,
    OnBusy,
    build_cancel_call,
    build_events_call,
    build_feedback_path,
    build_filter_query,
    build_json_call,
    build_thread_path,
    build_webhook_path,
    make_key,
    omit_none,
    quote_segment,
    to_stream_call,
)
from agentchat.client.blocking import BlockingHttp
from agentchat.client.call_sender import CallSender, ReplyReader
from agentchat.client.models import (
    ApiPage,
    ApprovalRequest,
    Conversation,
    Feedback,
    File,
    HistoryMessage,
    Reply,
    WebhookDelivery,
    WebhookEndpoint,
)
from agentchat.client.retries import Timeouts
from agentchat.client.stream_events import Event
from agentchat.client.uploads import AsyncFiles

T = TypeVar("T")

_LARGEST_PAGE = 100


class AsyncAgentChat:
    """The asyncio form of `AgentChat`. Tasks may share it; close it, or use it in an `async with` block."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
        max_retries: int = 2,
        timeouts: Timeouts | None = None,
        http_client: httpx.AsyncClient | BlockingHttp | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.service = ClientSettings(
            *(api_key, base_url, agent_id),
            user_id=user_id,
            max_retries=max_retries,
            timeouts=timeouts,
            clock=clock,
        )
        self._owns_http = http_client is None
        self._http = http_client or httpx.AsyncClient(limits=LIMITS)
        self._sender = CallSender(self.service, self._http, sleep)
        self.files = AsyncFiles(self._sender)

    def __repr__(self) -> str:
        return f"AsyncAgentChat({self.service})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def chat(
        self,
        message: str,
        conversation_id: str | None = None,
        prompt: str | None = None,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
        body: Mapping[str, Any] | None = None,
        attachments: Sequence[File | str] = (),
        on_busy: OnBusy | None = None,
    ) -> Reply:
        """Send a message and wait for the complete reply.

        `conversation_id` continues a thread; `prompt` overrides the agent's system prompt for this request.
        `body` has further fields of the request, such as `context`, `parameters` and `metadata`.
        `attachments` are uploaded files, and https or data URLs. `on_busy` says what to do while a run of the
        conversation is under way; None leaves it to the agent.
        Calls with the same `idempotency_key` have one answer, for a day; without one, each gets a new key.
        """
        call = self.service.build_chat_call(
            message, conversation_id, prompt, agent_id, idempotency_key, body, attachments, on_busy
        )
        return (await self._sender.fetch(call)).reply()

    def stream(
        self,
        message: str,
        conversation_id: str | None = None,
        prompt: str | None = None,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
        form: Form | None = None,
        body: Mapping[str, Any] | None = None,
        attachments: Sequence[File | str] = (),
        on_busy: OnBusy | None = None,
    ) -> "AsyncChatStream":
        """Send a message and read the reply as it comes; the request is sent when the stream is entered.

        `form` chooses the events: "full" has all of them; None leaves it to the service. With the
        `idempotency_key` of an earlier call, that reply is streamed again from the beginning.
        """
        call = self.service.build_chat_call(
            message, conversation_id, prompt, agent_id, idempotency_key, body, attachments, on_busy
        )
        return AsyncChatStream(self._sender, to_stream_call(call, form))

    def events(
        self, trace_id: str, last_event_id: str | None = None, *, form: Form | None = None
    ) -> "AsyncChatStream":
        """Join the stream of a run under way, or read that of an ended one again, by its trace.

        With the `last_event_id` of such a stream, it continues after that event. `form` None is the form of
        the request. Entering raises NotFound for an unknown run, InvalidRequest for an id of another run.
        """
        return AsyncChatStream(self._sender, build_events_call(trace_id, last_event_id, form))

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
    ) -> AsyncIterator[Conversation]:
        """List the account's threads, the newest first, page by page; the list may lag by a moment.

        All filters must match: all pairs of `metadata`, the `agent_id` of the last message, created at
        `created_after` or later and before `created_before`, a part of the `title`, the `rating` of a reply.
        Raises Misconfigured for a time without a zone.
        """
        query = build_filter_query(metadata, agent_id, created_after, created_before, title, rating)
        return self._list(ApiPage[Conversation], "/v1/conversations", limit, query)

    async def conversation(self, conversation_id: str) -> Conversation:
        """Get one thread."""
        return await self._fetch(Conversation, ApiCall(method="GET", path=build_thread_path(conversation_id)))

    async def describe(
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
        given = {"title": title, "metadata": metadata}
        body = {name: value for name, value in given.items() if value is not msgspec.UNSET}
        return await self._fetch(
            Conversation, build_json_call("PATCH", build_thread_path(conversation_id), body, key=make_key())
        )

    async def fork(self, conversation_id: str, at: str | int | None = None) -> Conversation:
        """Create a thread with the messages of this one, all of them or up to `at`.

        `at` is the id of a reply (the last message copied) or of a user's message (the first not copied), a
        version, or a time in ISO 8601. Raises Conflict for a copy of all while a reply is under way.
        """
        body = {} if at is None else {"at": str(at)}
        call = build_json_call("POST", f"{build_thread_path(conversation_id)}/fork", body, key=make_key())
        return await self._fetch(Conversation, call)

    def messages(self, conversation_id: str) -> AsyncIterator[HistoryMessage]:
        """List the messages of a thread, the oldest first, page by page."""
        return self._list(ApiPage[HistoryMessage], f"{build_thread_path(conversation_id)}/messages")

    async def delete(self, conversation_id: str) -> None:
        """Delete a thread for every reader; a run under way is cancelled. Raises NotFound."""
        await self._sender.fetch(ApiCall(method="DELETE", path=build_thread_path(conversation_id)))

    async def cancel(self, trace_id: str) -> None:
        """End a run: its stream ends with ChatError `cancelled`, and the text so far is saved.

        Raises NotFound if the account has no such run, Conflict if it has ended.
        """
        await self._sender.fetch(build_cancel_call(trace_id))

    def approvals(
        self,
        limit: int | None = None,
        *,
        status: Literal["pending", "approved", "denied", "expired", "cancelled"] | None = None,
        conversation_id: str | None = None,
    ) -> AsyncIterator[ApprovalRequest]:
        """List the tool calls that need approval, the newest first, page by page; it may lag by a moment."""
        query: dict[str, str | None] = {"status": status, "conversation_id": conversation_id}
        return self._list(ApiPage[ApprovalRequest], "/v1/approvals", limit, omit_none(query))

    async def approval(self, approval_id: str) -> ApprovalRequest:
        """Get one approval as it is now. Raises NotFound."""
        path = f"/v1/approvals/{quote_segment(approval_id)}"
        return await self._fetch(ApprovalRequest, ApiCall(method="GET", path=path))

    async def decide(
        self,
        approval_id: str,
        decision: Literal["approved", "denied"],
        *,
        input: dict[str, Any] | None = None,  # noqa: A002 - as the API has it
        reason: str | None = None,
        on_behalf_of: str | None = None,
    ) -> None:
        """Approve or deny a tool call. `input` replaces the input that the model wrote.

        For an elicitation `input` is the answer; "denied" declines it. `on_behalf_of` names the person who
        decided; it is recorded, not verified.

        After the last decision that it waits for, the run continues: read it by `events`. The same decision
        again is no error. Raises NotFound, Conflict if another decision was made, InvalidRequest if the
        input does not match or it is too late.
        """
        body = omit_none(
            {"decision": decision, "input": input, "reason": reason, "on_behalf_of": on_behalf_of}
        )
        await self._sender.fetch(
            build_json_call("POST", f"/v1/approvals/{quote_segment(approval_id)}/decision", body)
        )

    async def give_feedback(
        self,
        message_id: str,
        score: float,
        *,
        label: str | None = None,
        comment: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Feedback:
        """Give feedback on a reply, from -1 (bad) to 1 (good), by the reply's id or its trace id.

        It replaces earlier feedback for the same `on_behalf_of`. Raises NotFound if the account has no such
        reply.
        """
        given = {"score": score, "label": label, "comment": comment, "on_behalf_of": on_behalf_of}
        return await self._fetch(
            Feedback, build_json_call("POST", build_feedback_path(message_id), omit_none(given))
        )

    async def feedback(self, message_id: str) -> tuple[Feedback, ...]:
        """Get all feedback on a reply, the newest first."""
        call = ApiCall(method="GET", path=build_feedback_path(message_id))
        return (await self._fetch(ApiPage[Feedback], call)).data

    async def withdraw_feedback(self, message_id: str, on_behalf_of: str | None = None) -> None:
        """Withdraw feedback: that for `on_behalf_of`, or without it the feedback given for nobody."""
        query = omit_none({"on_behalf_of": on_behalf_of})
        await self._sender.fetch(ApiCall(method="DELETE", path=build_feedback_path(message_id), query=query))

    async def create_webhook_endpoint(
        self, url: str, events: Sequence[str], *, payload: Literal["thin", "full"] = "thin"
    ) -> WebhookEndpoint:
        """Create an endpoint that receives these events from now on. Its `secret` is returned only now."""
        body = {"url": url, "events": list(events), "payload": payload}
        call = replace(build_json_call("POST", WEBHOOKS, body), repeatable=False)
        return await self._fetch(WebhookEndpoint, call)

    def webhook_endpoints(self) -> AsyncIterator[WebhookEndpoint]:
        """List the webhook endpoints in the order of their creation, page by page."""
        return self._list(ApiPage[WebhookEndpoint], WEBHOOKS)

    async def webhook_endpoint(self, endpoint_id: str) -> WebhookEndpoint:
        """Get one endpoint. Raises NotFound."""
        return await self._fetch(WebhookEndpoint, ApiCall(method="GET", path=build_webhook_path(endpoint_id)))

    async def change_webhook_endpoint(
        self,
        endpoint_id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        payload: Literal["thin", "full"] | None = None,
        disabled: bool | None = None,
    ) -> WebhookEndpoint:
        """Change an endpoint; arguments that are None change nothing."""
        given: dict[str, object] = {"url": url, "payload": payload, "disabled": disabled}
        body = omit_none({**given, "events": None if events is None else list(events)})
        return await self._fetch(
            WebhookEndpoint, build_json_call("PATCH", build_webhook_path(endpoint_id), body)
        )

    async def delete_webhook_endpoint(self, endpoint_id: str) -> None:
        """Delete an endpoint with its deliveries. Raises NotFound."""
        await self._sender.fetch(ApiCall(method="DELETE", path=build_webhook_path(endpoint_id)))

    async def rotate_webhook_secret(self, endpoint_id: str) -> WebhookEndpoint:
        """Give an endpoint a new `secret`, returned only now; both secrets sign for a day."""
        path = build_webhook_path(endpoint_id, "rotate_secret")
        return await self._fetch(WebhookEndpoint, ApiCall(method="POST", path=path, repeatable=False))

    async def test_webhook_endpoint(
        self, endpoint_id: str, event_type: str = "run.completed"
    ) -> WebhookDelivery:
        """Send an example event and wait up to 20 s for the endpoint's answer."""
        call = build_json_call("POST", build_webhook_path(endpoint_id, "test"), {"type": event_type})
        return await self._fetch(WebhookDelivery, replace(call, repeatable=False))

    def webhook_deliveries(
        self, endpoint_id: str, limit: int | None = None, *, status: str | None = None
    ) -> AsyncIterator[WebhookDelivery]:
        """List an endpoint's deliveries, the newest first, page by page."""
        query = omit_none({"status": status})
        path = build_webhook_path(endpoint_id, "deliveries")
        return self._list(ApiPage[WebhookDelivery], path, limit, query)

    async def resend_webhook_delivery(self, endpoint_id: str, delivery_id: str) -> WebhookDelivery:
        """Send a delivery again, under its own id."""
        path = build_webhook_path(endpoint_id, "deliveries", delivery_id, "resend")
        return await self._fetch(WebhookDelivery, ApiCall(method="POST", path=path))

    async def _fetch(self, kind: type[T], call: ApiCall) -> T:
        return (await self._sender.fetch(call)).decode_as(kind)

    async def _list(
        self, kind: type[ApiPage[T]], path: str, limit: int | None = None, query: dict[str, str] | None = None
    ) -> AsyncIterator[T]:
        query = dict(query or {})
        while limit is None or limit > 0:
            query["limit"] = str(_LARGEST_PAGE if limit is None else min(limit, _LARGEST_PAGE))
            page = await self._fetch(kind, ApiCall(method="GET", path=path, query=query))
            for item in page.data[:limit]:
                yield item
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor
            limit = None if limit is None else limit - len(page.data)


class AsyncChatStream(ReplyReader):
    """The asyncio form of `ChatStream`: use `async for` within an `async with` block."""

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def cancel(self) -> None:
        """End the run: the stream then raises ChatError `cancelled`. Raises Conflict if it has ended."""
        await self._cancel()

    async def aclose(self) -> None:
        """Close the connection, whether or not the reply is complete."""
        await self._close()
