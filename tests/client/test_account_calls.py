"""Delete, approvals and webhooks: the requests that are sent, and the models that come back."""

from typing import Any

import pytest

from agentchat.client import (
    ApprovalRequest,
    ConnectionFailed,
    NotFound,
    RateLimited,
    ServerFailed,
    WebhookDelivery,
    WebhookEndpoint,
)
from tests.client.conftest import Connect, Serve
from tests.client.given import THREAD
from tests.client.server import Answer, as_json, respond_problem

APPROVAL: dict[str, Any] = {
    "id": "a1",
    "status": "approved",
    "trace_id": "t",
    "conversation_id": THREAD,
    "agent_id": "g",
    "tool": {"name": "cancel", "server": "shop"},
    "input": {"order_id": "ORD-1"},
    "requested_at": "2026-11-21T09:30:00Z",
    "expires_at": "2026-11-22T09:30:00Z",
    "decision": {"decision": "approved", "by": {"kind": "account", "id": "k"}, "at": "now"},
}
ENDPOINT: dict[str, Any] = {
    "id": "e1",
    "url": "https://hooks.example.com",
    "events": ["run.completed"],
    "payload": "thin",
    "disabled": False,
    "disabled_reason": None,
    "secret_last4": "abcd",
    "position": 7,
    "failing_since": None,
    "created_at": "2026-11-21T09:30:00Z",
}
DELIVERY: dict[str, Any] = {
    "id": "msg_1",
    "type": "run.completed",
    "position": 7,
    "status": "delivered",
    "attempts": [{"at": "2026-11-21T09:30:00Z", "ms": 12, "status": 200}],
    "next_attempt_at": None,
    "created_at": "2026-11-21T09:30:00Z",
}
HOOKS = "/v1/webhook_endpoints"


def as_page(*items: Any) -> Answer:
    return as_json({"data": items, "next_cursor": None})


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, Answer, Any, type]] = [
    ("delete", (THREAD,), {}, f"DELETE /v1/conversations/{THREAD}", as_json(None), None, object),
    (
        *("approvals", (), {"status": "pending", "conversation_id": THREAD}),
        f"GET /v1/approvals?status=pending&conversation_id={THREAD}&limit=100",
        *(as_page(APPROVAL, APPROVAL), None, ApprovalRequest),
    ),
    ("approval", ("a/1",), {}, "GET /v1/approvals/a%2F1", as_json(APPROVAL), None, ApprovalRequest),
    (
        *("decide", ("a1", "approved"), {"on_behalf_of": "ada@shop.example"}),
        *("POST /v1/approvals/a1/decision", as_json(APPROVAL)),
        *({"decision": "approved", "on_behalf_of": "ada@shop.example"}, object),
    ),
    (
        *("create_webhook_endpoint", ("https://x", ["run.failed"]), {"payload": "full"}, f"POST {HOOKS}"),
        as_json({**ENDPOINT, "secret": "whsec_x"}),
        {"url": "https://x", "events": ["run.failed"], "payload": "full"},
        WebhookEndpoint,
    ),
    ("webhook_endpoints", (), {}, f"GET {HOOKS}?limit=100", as_page(ENDPOINT), None, WebhookEndpoint),
    ("webhook_endpoint", ("e1",), {}, f"GET {HOOKS}/e1", as_json(ENDPOINT), None, WebhookEndpoint),
    (
        *("change_webhook_endpoint", ("e1",), {"disabled": False, "events": ("run.failed",)}),
        *(f"PATCH {HOOKS}/e1", as_json(ENDPOINT)),
        *({"disabled": False, "events": ["run.failed"]}, WebhookEndpoint),
    ),
    ("delete_webhook_endpoint", ("e1",), {}, f"DELETE {HOOKS}/e1", as_json(None), None, object),
    (
        *("rotate_webhook_secret", ("e1",), {}, f"POST {HOOKS}/e1/rotate_secret"),
        *(as_json({**ENDPOINT, "secret": "whsec_y"}), None, WebhookEndpoint),
    ),
    (
        *("test_webhook_endpoint", ("e1", "run.failed"), {}, f"POST {HOOKS}/e1/test"),
        *(as_json(DELIVERY), {"type": "run.failed"}, WebhookDelivery),
    ),
    (
        *("webhook_deliveries", ("e1",), {"status": "failed"}),
        f"GET {HOOKS}/e1/deliveries?status=failed&limit=100",
        *(as_page(DELIVERY), None, WebhookDelivery),
    ),
    (
        *("resend_webhook_delivery", ("e1", "msg_1"), {}, f"POST {HOOKS}/e1/deliveries/msg_1/resend"),
        *(as_json(DELIVERY), None, WebhookDelivery),
    ),
]


@pytest.mark.parametrize(
    ("name", "args", "options", "target", "answer", "body", "kind"), CALLS, ids=[call[0] for call in CALLS]
)
def test_call_sends_its_request_and_returns_its_model(
    serve: Serve,
    connect: Connect,
    name: str,
    args: tuple[Any, ...],
    options: dict[str, Any],
    target: str,
    answer: Answer,
    body: Any,
    kind: type,
) -> None:
    server = serve(answer)
    result = getattr(connect(server), name)(*args, **options)
    asked = server.requests[0]
    assert f"{asked.method} {asked.target}" == target
    if body is not None:
        assert asked.json == body
    for each in result if isinstance(result, list) else [result]:
        assert isinstance(each, kind) or (kind is object and each is None)


def test_secret_of_an_endpoint_is_not_shown(serve: Serve, connect: Connect) -> None:
    server = serve(as_json({**ENDPOINT, "secret": "whsec_x"}))
    endpoint = connect(server).create_webhook_endpoint("https://x", ["run.failed"])
    assert endpoint.secret == "whsec_x"
    assert "whsec_x" not in repr(endpoint)


def test_creation_is_retried_only_after_a_rate_limit(serve: Serve, connect: Connect) -> None:
    server = serve(respond_problem(503, "overloaded"), as_json(ENDPOINT))
    with pytest.raises((ServerFailed, ConnectionFailed)):
        connect(server).create_webhook_endpoint("https://x", ["run.failed"])
    assert len(server.requests) == 1
    server = serve(respond_problem(429, "rate_limited"), as_json(ENDPOINT))
    assert connect(server).create_webhook_endpoint("https://x", ["run.failed"]).id == "e1"
    assert issubclass(RateLimited, Exception)


def test_unknown_conversation_is_not_found(serve: Serve, connect: Connect) -> None:
    with pytest.raises(NotFound):
        connect(serve(respond_problem(404, "conversation_not_found"))).delete(THREAD)


def test_agent_may_be_named(serve: Serve, connect: Connect) -> None:
    server = serve(as_json({"conversation_id": THREAD, "message": {}}))
    with pytest.raises(Exception, match="JSON"):
        connect(server).chat("Hello", agent_id="Order desk")
    assert server.requests[0].headers["x-agent-id"] == "Order desk"


def test_a_client_for_a_user_names_it_in_each_request(serve: Serve, connect: Connect) -> None:
    server = serve(as_page(), as_page())
    list(connect(server, user_id="CUST-001").conversations())
    list(connect(server).conversations())
    named, unnamed = (request.headers.get("x-user-id") for request in server.requests)
    assert (named, unnamed) == ("CUST-001", None)
