"""The streams and consumers of the bus (DESIGN section 5), and their idempotent provisioning."""

from typing import Any

from contracts import subjects

ADVISORIES = "ADVISORIES"
"""Advisories of messages past their last delivery: the server only says it once, so it is kept here."""

MAX_DELIVER = 50
ACK_WAIT_SECONDS = 10

_SECOND = 1_000_000_000
_MINUTE = 60 * _SECOND
_DAY = 24 * 60 * _MINUTE
_MIB = 1024 * 1024
_MAX_DELIVERIES = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


def _stream(name: str, *on: str, **more: Any) -> dict[str, Any]:
    defaults = {
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "num_replicas": 1,
        "max_age": 0,
        "max_bytes": -1,
        "allow_direct": True,
        "duplicate_window": 2 * _MINUTE,
    }
    return {"name": name, "subjects": list(on), **defaults, **more}


STREAMS: tuple[dict[str, Any], ...] = (
    _stream(subjects.REQUESTS, "chat.requests.*", retention="workqueue"),
    _stream(subjects.TOOLS, "chat.tools.requests.*", retention="workqueue"),
    _stream(
        subjects.TRACES,
        "chat.traces.>",
        "chat.tools.results.>",
        "chat.control.cancel.>",
        storage="memory",
        max_age=15 * _MINUTE,
        max_bytes=256 * _MIB,
    ),
    _stream(subjects.EVENTS, "chat.events.>", max_age=subjects.EVENTS_KEPT_DAYS * _DAY),
    _stream(subjects.DEAD, "chat.dead.>", max_age=30 * _DAY),
    _stream(
        ADVISORIES,
        f"{_MAX_DELIVERIES}.{subjects.REQUESTS}.*",
        f"{_MAX_DELIVERIES}.{subjects.TOOLS}.*",
        retention="workqueue",
        max_age=30 * _DAY,
    ),
)


def _consumer(name: str, max_deliver: int) -> dict[str, Any]:
    return {
        "durable_name": name,
        "name": name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": ACK_WAIT_SECONDS * _SECOND,
        "max_deliver": max_deliver,
        "max_ack_pending": -1,
        "replay_policy": "instant",
    }


CONSUMERS: dict[str, dict[str, Any]] = {
    subjects.REQUESTS: _consumer("orchestrator", MAX_DELIVER),
    subjects.TOOLS: _consumer("tool-runner", MAX_DELIVER),
    ADVISORIES: _consumer("dead-letters", -1),
}
"""The one durable consumer of each work queue. Worker slots bound what is in work, so nothing else does."""
