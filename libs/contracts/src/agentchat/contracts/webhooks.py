"""Define what webhook endpoints receive (Standard Webhooks 1.0.0) and how the API shows endpoints."""

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
    "budget.warning",
    "budget.exceeded",
    "endpoint.disabled",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)

Payload = Literal["thin", "full"]
"""`thin`: ids and the log position. `full`: also the event's content, such as the reply."""

DisabledReason = Literal["account", "failing", "gone"]
"""Why an endpoint is disabled: by its account, after five days of failures, or by its own answer 410."""

DeliveryStatus = Literal["waiting", "delivered", "failed", "erased"]
"""`waiting` for the next attempt; `failed` at the last one; `erased`: the conversation was deleted before."""

AttemptError = Literal[
    "status",
    "redirect_refused",
    "address_refused",
    "unresolved",
    "connection_failed",
    "timeout",
]
"""Why an attempt failed: an answer other than 2xx, or no answer."""

PORTS = (443, 8443)
"""Ports of endpoints that an operator has not listed. 8443 is the usual second port of https."""

MAX_ENDPOINTS = 50
"""Endpoints of one account."""

ROTATION_SECONDS = 24 * 3600
"""How long a rotated secret still signs, next to the new one."""


def derive_webhook_id(endpoint_id: str, event: str) -> str:
    """Return the `webhook-id` of an event at an endpoint; it never changes.

    `event` is the event's log position, or an id.
    """
    return f"msg_{hashlib.sha256(f'{endpoint_id} {event}'.encode()).hexdigest()[:32]}"


class RunFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run failed: one of the codes of `contracts.errors`."""

    code: str
    message: str


class ConversationData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Data of `conversation.*`, thin and full; with it begin the data of what happens in a conversation."""

    position: int
    conversation_id: str
    version: int
    user_id: str | None = None
    external_id: str | None = None


class RunData(ConversationData, frozen=True, kw_only=True, omit_defaults=True):
    """Data of `run.*`. Fields after `trace_id` are only in full payloads."""

    trace_id: str
    message: Message | None = None
    usage: Usage | None = None
    error: RunFailure | None = None


class ApprovalData(ConversationData, frozen=True, kw_only=True, omit_defaults=True):
    """Data of `approval.*`. Fields after `approval_id` are only in full payloads."""

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


class FeedbackData(ConversationData, frozen=True, kw_only=True, omit_defaults=True):
    """Data of `feedback.*`. Fields after `message_id` are only in full payloads."""

    trace_id: str
    message_id: str
    by: Decider | None = None
    on_behalf_of: str | None = None
    score: float | None = None
    label: str | None = None
    comment: str | None = None


class BudgetData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Data of `budget.*`: the cost in a month (UTC) of the account, or of its user `user_id`."""

    month: str
    budget: float
    cost: float
    currency: str
    user_id: str | None = None


class EndpointData(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `endpoint.disabled`, sent to the account's other endpoints."""

    endpoint_id: str
    url: str
    reason: DisabledReason


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a delivery. `id` equals its header `webhook-id` and stays the same at each attempt.

    `timestamp` is when the event happened, `created_at` the same in whole seconds.
    """

    id: str
    type: EventType
    created_at: int
    timestamp: str


class RunWebhook(WebhookBody, frozen=True, kw_only=True):
    """A run has ended."""

    data: RunData


class ApprovalWebhook(WebhookBody, frozen=True, kw_only=True):
    """A tool call waits for a person's decision or answer, was decided, or has expired."""

    data: ApprovalData


class ConversationWebhook(WebhookBody, frozen=True, kw_only=True):
    """A conversation has started or was deleted."""

    data: ConversationData


class FeedbackWebhook(WebhookBody, frozen=True, kw_only=True):
    """Somebody gave feedback on a reply or withdrew it."""

    data: FeedbackData


class BudgetWebhook(WebhookBody, frozen=True, kw_only=True):
    """80 % of a monthly budget are spent (`warning`), or all of it (`exceeded`)."""

    data: BudgetData


class EndpointWebhook(WebhookBody, frozen=True, kw_only=True):
    """Another endpoint of the account was disabled because it failed."""

    data: EndpointData


WEBHOOKS: dict[str, type[WebhookBody]] = {
    "run": RunWebhook,
    "approval": ApprovalWebhook,
    "conversation": ConversationWebhook,
    "feedback": FeedbackWebhook,
    "budget": BudgetWebhook,
    "endpoint": EndpointWebhook,
}
"""The bodies by the first word of the event's type."""


Events = Annotated[tuple[EventType, ...], msgspec.Meta(min_length=1, max_length=len(EVENT_TYPES))]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=2048)]


class NewEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An endpoint to create. `url` is https, on port 443 or 8443, at a public address."""

    url: Url
    events: Events
    payload: Payload = "thin"


class EndpointChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to an endpoint; fields left out stay.

    Once enabled again, an endpoint gets what happened while it was disabled.
    """

    url: Url | msgspec.UnsetType = msgspec.UNSET
    events: Events | msgspec.UnsetType = msgspec.UNSET
    payload: Payload | msgspec.UnsetType = msgspec.UNSET
    disabled: bool | msgspec.UnsetType = msgspec.UNSET


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint as the API shows it.

    `position` is the log position of its newest delivery of an event, 0 without one. Every event up to there
    was delivered, waits, or has failed. `failing_since` is the time of the first failure since the last
    success.
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
    """An endpoint with its account, for operators, who see those of all accounts."""

    account_id: str


class IssuedEndpoint(Endpoint, frozen=True, kw_only=True):
    """An endpoint with its secret, which is shown only this once."""

    secret: str

    def __repr__(self) -> str:
        """Leave out the secret."""
        return f"IssuedEndpoint(id={self.id!r}, url={self.url!r})"


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt at a delivery: when, how long, and the answer's status, or why there is none."""

    at: datetime
    ms: int
    status: int | None = None
    error: AttemptError | None = None
    message: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an endpoint. `id` is its `webhook-id`, `position` its event's in the log."""

    id: str
    type: EventType
    position: int | None
    status: DeliveryStatus
    attempts: tuple[Attempt, ...]
    next_attempt_at: datetime | None
    created_at: datetime


class EndpointTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to send a test event of this type."""

    type: EventType = "run.completed"
