"""The base of the messages on the bus: `messages` has them, and `authorizations` those of OAuth."""

import msgspec


class BusMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all bus messages: `type` is the class name."""
