"""Messages past their last delivery: each is handled once, copied to DEAD and taken from its queue."""

import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from bus.delivery import Delivery
from bus.jetstream import JetStream
from contracts import messages, subjects, wire
from runtime import logs


class Exhausted(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was delivered `deliveries` times without being settled."""

    stream: str
    subject: str
    data: bytes
    deliveries: int


class _Advisory(msgspec.Struct):
    """What nats-server publishes at max_deliver (its schema io.nats.jetstream.advisory.v1.max_deliver)."""

    stream: str
    stream_seq: int
    deliveries: int


async def dead_letter(jetstream: JetStream, message: messages.DeadLettered) -> None:
    """Copy a message to DEAD, acknowledged; the same message within two minutes is kept once."""
    payload = wire.encode(message)
    subject = subjects.dead(message.stream)
    await jetstream.publish(subject, payload, f"{subject}:{hashlib.sha256(payload).hexdigest()}")


async def handle_advisory(
    jetstream: JetStream, delivery: Delivery, handle: Callable[[Exhausted], Awaitable[None]]
) -> None:
    """Work off one advisory; raises when a step failed, so that the advisory comes again."""
    try:
        advisory = msgspec.json.decode(delivery.data, type=_Advisory)
    except msgspec.DecodeError:
        logs.get_logger("bus").warning("advisory_undecodable")
        return
    message = await jetstream.message(advisory.stream, advisory.stream_seq)
    if message is None:
        return
    await handle(
        Exhausted(
            stream=advisory.stream,
            subject=message.subject,
            data=message.data,
            deliveries=advisory.deliveries,
        )
    )
    reason = f"not settled in {advisory.deliveries} deliveries"
    await dead_letter(
        jetstream,
        messages.DeadLettered(
            stream=advisory.stream,
            subject=message.subject,
            reason=reason,
            payload=message.data.decode("utf-8", "replace"),
        ),
    )
    await jetstream.delete(advisory.stream, advisory.stream_seq)
