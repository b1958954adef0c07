"""Creates the streams and consumers of `streams`, and restores those of their fields that are ours.

Idempotent, and done by any number of processes at once: who finds a stream that another one has just created
leaves it as it is.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bus import streams
from runtime import logs

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
