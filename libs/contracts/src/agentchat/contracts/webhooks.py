"""Webhooks: what endpoints get, after Standard Webhooks 1.0.0, and what the API returns of endpoints."""

import hashlib
from datetime import datetime
from typing import Annotated, Literal, get_args

import msgspec

from agentchat.contracts.values import ApprovalDecision, Decider, Elicitation, Message, Usage

EventType = Literal[
    "run.completed",
    "run.failed",
    "run.cancelled",
    "approval.requested",
    "approval.decided",
    "approval.expired",
    "conversation.started",
    "conversation.deleted",
    "feedback.given",
    "feedback.withdrawn",
    "endpoint.disabled",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)

Payload = Literal["thin", "full"]
"""`thin`: ids and the position; `full`: also the event's content, such as the reply."""

DisabledReason = Literal["account", "failing", "gone"]
"""Who disabled an endpoint: the account, five days without a success, or its own answer 410."""

DeliveryStatus = Literal["waiting", "delivered", "failed", "erased"]
"""`waiting` for its next attempt; `failed` with the last; `erased`: its conversation was deleted first."""

AttemptError = Literal[
    "status",
    "redirect_refused",
    "address_refused",
    "unresolved",
    "connection_failed",
    "timeout",
]
"""Why an attempt was no success: an answer other than 2xx, or none."""

PORTS = (443, 8443)
"""Of endpoints that an operator has not listed; 8443 is the usual second port of https."""

MAX_ENDPOINTS = 50
"""Of one account."""

ROTATION_SECONDS = 24 * 3600
"""A secret that was rotated signs next to the new one for so long."""


def message_id(endpoint_id: str, event: str) -> str:
    """The `webhook-id` of an event at an endpoint, always the same. `event`: its log position, or an id."""
    return f"msg_{hashlib.sha256(f'{endpoint_id} {event}'.encode()).hexdigest()[:32]}"


class RunFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run failed: one of the codes of `contracts.errors`."""

    code: str
    message: str


class RunData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of `run.*`. After `trace_id`: in full payloads alone."""

    position: int
    conversation_id: str
    version: int
    trace_id: str
    message: Message | None = None
    usage: Usage | None = None
    error: RunFailure | None = None


class ApprovalData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of `approval.*`. After `approval_id`: in full payloads alone."""

    position: int
    conversation_id: str
    version: int
    trace_id: str
    approval_id: str
    agent_id: str | None = None
    server: str | None = None
    tool: str | None = None
    expires_at: str | None = None
    elicitation: Elicitation | None = None
    decision: ApprovalDecision | None = None
    by: Decider | None = None
    on_behalf_of: str | None = None
    reason: str | None = None


class ConversationData(msgspec.Struct, frozen=True, kw_only=True):
    """Of `conversation.*`, thin and full."""

    position: int
    conversation_id: str
    version: int


class FeedbackData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of `feedback.*`. After `message_id`: in full payloads alone."""

    position: int
    conversation_id: str
    version: int
    trace_id: str
    message_id: str
    by: Decider | None = None
    on_behalf_of: str | None = None
    score: float | None = None
    label: str | None = None
    comment: str | None = None


class EndpointData(msgspec.Struct, frozen=True, kw_only=True):
    """Of `endpoint.disabled`, sent to the account's other endpoints."""

    endpoint_id: str
    url: str
    reason: DisabledReason


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a delivery. `id` is that of its header `webhook-id`: the same each time it is sent.

    `timestamp` is when it happened, `created_at` the same in whole seconds.
    """

    id: str
    type: EventType
    created_at: int
    timestamp: str


class RunWebhook(WebhookBody, frozen=True, kw_only=True):
    """A run has ended."""

    data: RunData


class ApprovalWebhook(WebhookBody, frozen=True, kw_only=True):
    """A person is to decide about a tool call, or to answer its tool, or has, or it is too late to."""

    data: ApprovalData


class ConversationWebhook(WebhookBody, frozen=True, kw_only=True):
    """A conversation has begun, or was deleted."""

    data: ConversationData


class FeedbackWebhook(WebhookBody, frozen=True, kw_only=True):
    """Somebody has given feedback on a reply, or has taken it back."""

    data: FeedbackData


class EndpointWebhook(WebhookBody, frozen=True, kw_only=True):
    """Another endpoint of the account has been disabled, because it failed."""

    data: EndpointData


WEBHOOKS: dict[str, type[WebhookBody]] = {
    "run": RunWebhook,
    "approval": ApprovalWebhook,
    "conversation": ConversationWebhook,
    "feedback": FeedbackWebhook,
    "endpoint": EndpointWebhook,
}
"""By what the type of the event begins with."""


Events = Annotated[tuple[EventType, ...], msgspec.Meta(min_length=1, max_length=len(EVENT_TYPES))]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=2048)]


class NewEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`url` is https, on port 443 or 8443, at a public address."""

    url: Url
    events: Events
    payload: Payload = "thin"


class EndpointChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays. Enabled again, an endpoint gets what happened while it was disabled."""

    url: Url | msgspec.UnsetType = msgspec.UNSET
    events: Events | msgspec.UnsetType = msgspec.UNSET
    payload: Payload | msgspec.UnsetType = msgspec.UNSET
    disabled: bool | msgspec.UnsetType = msgspec.UNSET


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`position`: that of its newest delivery of an event, 0 without one. Every event up to there was
    delivered, or has a delivery that waits or has failed.

    `failing_since` is when the first of the failures was that no success has followed.
    """

    id: str
    url: str
    events: tuple[EventType, ...]
    payload: Payload
    disabled: bool
    disabled_reason: DisabledReason | None
    secret_last4: str
    position: int
    failing_since: datetime | None
    created_at: datetime


class OwnedEndpoint(Endpoint, frozen=True, kw_only=True):
    """An endpoint as an operator sees it, who sees those of all accounts."""

    account_id: str


class IssuedEndpoint(Endpoint, frozen=True, kw_only=True):
    """An endpoint with its secret, at the one moment when that is shown."""

    secret: str

    def __repr__(self) -> str:
        """Without the secret."""
        return f"IssuedEndpoint(id={self.id!r}, url={self.url!r})"


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One try: when, how long it took, and the answer's status, or why there is none."""

    at: datetime
    ms: int
    status: int | None = None
    error: AttemptError | None = None
    message: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message of an endpoint. `id` is its `webhook-id`, `position` its event's in the log."""

    id: str
    type: EventType
    position: int | None
    status: DeliveryStatus
    attempts: tuple[Attempt, ...]
    next_attempt_at: datetime | None
    created_at: datetime


class EndpointTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which type of event the test is of."""

    type: EventType = "run.completed"
