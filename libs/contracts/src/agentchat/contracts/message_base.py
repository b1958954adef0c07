"""Define the base of bus messages."""

import msgspec


class BusMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=True):
    """Base of all bus messages: `type` is the class name."""
