"""The streams and consumers of the bus (docs/change/design.md 5), and how they are provisioned.

That is idempotent, and done by any number of processes at once: who finds a stream that another one has just
created leaves it as it is.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bus import streams
from contracts import subjects
from contracts.timings import ACK_WAIT_SECONDS, EVENTS_KEPT_DAYS, TRACES_KEPT_SECONDS
from runtime import logs

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


if TYPE_CHECKING:
    from bus.jetstream import JetStream

_OF_STREAMS = (
    "subjects",
    "retention",
    "discard",
    "max_age",
    "max_msgs_per_subject",
    "allow_direct",
    "duplicate_window",
)
"""Fields of a stream that the code depends on. What else there is, an operator may change.

A bound of bytes is set where there is none, and replicas are raised to what is asked for, never lowered.
"""

_OF_CONSUMERS = ("ack_wait", "max_deliver", "max_ack_pending")

_STREAM_NOT_FOUND = 10059
_CONSUMER_NOT_FOUND = 10014
_UNBOUNDED = (None, 0, -1)


async def provision(jetstream: "JetStream", replicas: int) -> None:
    """Provision everything, each stream with at least so many replicas.

    Raises BusUnavailable, also where a stream is missing and cannot be created.
    """
    for stream in streams.STREAMS:
        await _provide_stream(jetstream, {**stream, "num_replicas": replicas})
    for stream_name, consumer in streams.CONSUMERS.items():
        await _provide_consumer(jetstream, stream_name, consumer)


async def _provide_stream(jetstream: "JetStream", wanted: dict[str, Any]) -> None:
    name = wanted["name"]
    found = await jetstream.call(f"STREAM.INFO.{name}")
    if found.error is not None and found.error.err_code == _STREAM_NOT_FOUND:
        await _create_stream(jetstream, wanted)
        return
    jetstream.check(found, name)
    current = found.config or {}
    ours = {field: wanted[field] for field in _OF_STREAMS}
    if current.get("max_bytes") in _UNBOUNDED:
        ours["max_bytes"] = wanted["max_bytes"]
    if current.get("num_replicas", 1) < wanted["num_replicas"]:
        ours["num_replicas"] = wanted["num_replicas"]
    await _restore(jetstream, f"STREAM.UPDATE.{name}", current, ours, name)


async def _create_stream(jetstream: "JetStream", wanted: dict[str, Any]) -> None:
    name = wanted["name"]
    created = await jetstream.call(f"STREAM.CREATE.{name}", wanted)
    if created.error is not None:
        # Another process may be creating it: the server then refuses, or counts its reserved bytes twice.
        found = await jetstream.call(f"STREAM.INFO.{name}")
        jetstream.check(created if found.error is not None else found, name)


async def _provide_consumer(jetstream: "JetStream", stream: str, wanted: dict[str, Any]) -> None:
    name = wanted["name"]
    operation = f"CONSUMER.CREATE.{stream}.{name}"
    found = await jetstream.call(f"CONSUMER.INFO.{stream}.{name}")
    if found.error is not None and found.error.err_code == _CONSUMER_NOT_FOUND:
        body = {"stream_name": stream, "config": wanted}
        jetstream.check(await jetstream.call(operation, body), name)
        return
    jetstream.check(found, name)
    ours = {field: wanted[field] for field in _OF_CONSUMERS}
    await _restore(jetstream, operation, found.config or {}, ours, name, stream=stream)


async def _restore(
    jetstream: "JetStream",
    operation: str,
    current: Mapping[str, Any],
    ours: dict[str, Any],
    name: str,
    *,
    stream: str | None = None,
) -> None:
    """Give what exists its own fields. It serves as it is where the server refuses: that is only logged."""
    if all(current.get(field) == value for field, value in ours.items()):
        return
    config = {**current, **ours}
    body = config if stream is None else {"stream_name": stream, "config": config}
    reply = await jetstream.call(operation, body)
    if reply.error is not None:
        reason = reply.error.description
        logs.get_logger("bus").error("not_updated", name=name, fields=sorted(ours), reason=reason)
