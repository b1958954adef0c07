"""Define the streams and consumers of the bus (docs/change/rules.md 4) and provision them.

Provisioning is idempotent, and any number of processes may do it at once: a process that finds a stream that
another one has just created leaves it as it is.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from nats.js.api import ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError
from nats.js.manager import JetStreamManager

from agentchat.bus.nats_users import ANALYTICS
from agentchat.contracts import subjects
from agentchat.contracts.timings import ACK_WAIT_SECONDS, EVENTS_KEPT_DAYS, TRACES_KEPT_SECONDS
from agentchat.runtime import logs

ADVISORIES = "ADVISORIES"
"""Keeps the server's advisories of messages past their last delivery, since it publishes each only once."""

MAX_DELIVER = 50

_DAY = 24 * 3600
_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_MAX_DELIVERIES = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


def _stream(name: str, *on: str, **more: Any) -> StreamConfig:
    defaults = StreamConfig(
        name=name,
        subjects=list(on),
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        max_age=0,
        max_bytes=-1,
        max_msgs_per_subject=-1,
        allow_direct=True,
        duplicate_window=2 * 60,
    )
    return defaults.evolve(**more)


QUEUES_BYTES = 4 * _GIB
"""File store left for the queues, which have no bound of their own.

The sum of `max_bytes` + QUEUES_BYTES must be <= max_file_store (deploy/nats.conf): the server reserves each
stream's `max_bytes` and refuses a stream that does not fit.
"""

# TRACES precedes RESULTS and CANCELS: in earlier releases it had their subjects, and gives them up first.
STREAMS: tuple[StreamConfig, ...] = (
    _stream(subjects.REQUESTS, "chat.requests.*", retention=RetentionPolicy.WORK_QUEUE),
    _stream(subjects.TOOLS, "chat.tools.requests.*", retention=RetentionPolicy.WORK_QUEUE),
    _stream(
        subjects.TRACES,
        "chat.traces.>",
        storage=StorageType.MEMORY,
        max_age=TRACES_KEPT_SECONDS,
        max_bytes=256 * _MIB,
    ),
    # When full, these two refuse new messages, which the publisher notices, instead of dropping old ones.
    _stream(
        subjects.RESULTS,
        "chat.tools.results.>",
        discard=DiscardPolicy.NEW,
        max_age=TRACES_KEPT_SECONDS,
        max_bytes=_GIB,
        max_msgs_per_subject=1,
    ),
    _stream(
        subjects.CANCELS,
        "chat.control.cancel.>",
        discard=DiscardPolicy.NEW,
        max_age=TRACES_KEPT_SECONDS,
        max_bytes=64 * _MIB,
        max_msgs_per_subject=1,
    ),
    _stream(subjects.EVENTS, "chat.events.>", max_age=EVENTS_KEPT_DAYS * _DAY, max_bytes=8 * _GIB),
    _stream(subjects.DEAD, "chat.dead.>", max_age=30 * _DAY, max_bytes=_GIB),
    _stream(
        ADVISORIES,
        f"{_MAX_DELIVERIES}.{subjects.REQUESTS}.*",
        f"{_MAX_DELIVERIES}.{subjects.TOOLS}.*",
        retention=RetentionPolicy.WORK_QUEUE,
        max_age=30 * _DAY,
    ),
)

NAMES: tuple[str, ...] = tuple(stream.name for stream in STREAMS if stream.name)

CONSUMERS: dict[str, str] = {
    subjects.REQUESTS: "orchestrator",
    subjects.TOOLS: "tool-runner",
    ADVISORIES: "dead-letters",
    subjects.EVENTS: ANALYTICS,
}
"""The one durable consumer of each work queue, and that of the feed.

Only the workers' slots bound how many messages are in progress.
"""

_OF_STREAMS = (
    "subjects",
    "retention",
    "discard",
    "max_age",
    "max_msgs_per_subject",
    "allow_direct",
    "duplicate_window",
)
"""Fields of a stream that the code depends on. An operator may change all others.

A missing bound of bytes is set; replicas are raised to the requested number, never lowered.
"""

_UNBOUNDED = (None, 0, -1)


async def provision(server: JetStreamManager, replicas: int) -> None:
    """Create missing streams and consumers, and restore our settings of existing ones.

    Each stream gets at least `replicas` replicas.

    Raises:
        nats.js.errors.APIError: A stream is missing and cannot be created.
    """
    for stream in STREAMS:
        await _provide_stream(server, stream.evolve(num_replicas=replicas))
    for stream_name, consumer in CONSUMERS.items():
        most = MAX_DELIVER if stream_name in (subjects.REQUESTS, subjects.TOOLS) else -1
        await _provide_consumer(server, stream_name, consumer, most)


async def _provide_stream(server: JetStreamManager, wanted: StreamConfig) -> None:
    name = wanted.name
    assert name is not None
    try:
        current = (await server.stream_info(name)).config
    except NotFoundError:
        await _create_stream(server, wanted)
        return
    ours = {field: getattr(wanted, field) for field in _OF_STREAMS}
    if current.max_bytes in _UNBOUNDED:
        ours["max_bytes"] = wanted.max_bytes
    if (current.num_replicas or 1) < (wanted.num_replicas or 1):
        ours["num_replicas"] = wanted.num_replicas
    if any(getattr(current, field) != value for field, value in ours.items()):
        await _restore(name, ours, partial(server.update_stream, current.evolve(**ours)))


async def _create_stream(server: JetStreamManager, wanted: StreamConfig) -> None:
    try:
        await server.add_stream(wanted)
    except APIError as refused:
        # Another process may be creating it: the server then refuses, or counts its reserved bytes twice.
        assert wanted.name is not None
        try:
            await server.stream_info(wanted.name)
        except NotFoundError:
            raise refused from None


async def _provide_consumer(server: JetStreamManager, stream: str, name: str, max_deliver: int) -> None:
    ours = {"ack_wait": ACK_WAIT_SECONDS, "max_deliver": max_deliver, "max_ack_pending": -1}
    try:
        current = (await server.consumer_info(stream, name)).config
    except NotFoundError:
        await server.add_consumer(stream, ConsumerConfig(name=name, durable_name=name), **ours)
        return
    if any(getattr(current, field) != value for field, value in ours.items()):
        await _restore(name, ours, partial(server.add_consumer, stream, current, **ours))


async def _restore(name: str, ours: dict[str, Any], update: Callable[[], Awaitable[object]]) -> None:
    """Apply our settings to an existing stream or consumer. If the server refuses, only log it."""
    try:
        await update()
    except APIError as error:
        logs.get_logger("bus").error("not_updated", name=name, fields=sorted(ours), reason=error.description)
