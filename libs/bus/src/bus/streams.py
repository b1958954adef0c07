"""The streams and consumers of the bus (docs/change/design.md 5); `provisioning` creates them."""

from typing import Any

from contracts import subjects
from contracts.timings import ACK_WAIT_SECONDS, EVENTS_KEPT_DAYS, TRACES_KEPT_SECONDS

ADVISORIES = "ADVISORIES"
"""Advisories of messages past their last delivery: the server only says it once, so it is kept here."""

ANALYTICS = "analytics"
"""The consumer of EVENTS for those who may make none of their own."""

MAX_DELIVER = 50

_SECOND = 1_000_000_000
_DAY = 24 * 3600 * _SECOND
_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_MAX_DELIVERIES = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


def _stream(name: str, *on: str, **more: Any) -> dict[str, Any]:
    defaults = {
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_age": 0,
        "max_bytes": -1,
        "max_msgs_per_subject": -1,
        "allow_direct": True,
        "duplicate_window": 2 * 60 * _SECOND,
    }
    return {"name": name, "subjects": list(on), **defaults, **more}


QUEUES_BYTES = 4 * _GIB
"""What the bounded file streams leave of the file store to the queues, which have no bound of their own:

the sum of `max_bytes` + QUEUES_BYTES <= max_file_store (deploy/nats.conf)

The server reserves `max_bytes` of each stream, so it refuses a stream that does not fit.
"""

# TRACES is before RESULTS and CANCELS: it held their subjects once, and gives them up first.
STREAMS: tuple[dict[str, Any], ...] = (
    _stream(subjects.REQUESTS, "chat.requests.*", retention="workqueue"),
    _stream(subjects.TOOLS, "chat.tools.requests.*", retention="workqueue"),
    _stream(
        subjects.TRACES,
        "chat.traces.>",
        storage="memory",
        max_age=TRACES_KEPT_SECONDS * _SECOND,
        max_bytes=256 * _MIB,
    ),
    # Full, these two refuse what is new and the publisher learns of it; nothing is dropped in silence.
    _stream(
        subjects.RESULTS,
        "chat.tools.results.>",
        discard="new",
        max_age=TRACES_KEPT_SECONDS * _SECOND,
        max_bytes=_GIB,
        max_msgs_per_subject=1,
    ),
    _stream(
        subjects.CANCELS,
        "chat.control.cancel.>",
        discard="new",
        max_age=TRACES_KEPT_SECONDS * _SECOND,
        max_bytes=64 * _MIB,
        max_msgs_per_subject=1,
    ),
    _stream(subjects.EVENTS, "chat.events.>", max_age=EVENTS_KEPT_DAYS * _DAY, max_bytes=8 * _GIB),
    _stream(subjects.DEAD, "chat.dead.>", max_age=30 * _DAY, max_bytes=_GIB),
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
    subjects.EVENTS: _consumer(ANALYTICS, -1),
}
"""The one durable consumer of each work queue, and one of the feed.

Worker slots bound what is in work, so nothing else does.
"""
