"""Define the base of all stored events."""

import msgspec


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events: the trace (one request, one run) and the time, ISO 8601 UTC.

    In a fork, `inherited_from` is the trace of which the event is a copy: it happened there and counts only
    there.
    """

    trace_id: str
    at: str
    inherited_from: str | msgspec.UnsetType = msgspec.UNSET
