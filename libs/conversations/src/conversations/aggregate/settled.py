"""Where in a conversation no run is under way. Pure."""

from collections.abc import Sequence

from contracts import events

_ENDS = events.RunCompleted | events.RunFailed | events.RunCancelled


def settled(stored: Sequence[events.Event]) -> int:
    """How many of a conversation's events, from its first on, are there when no run is under way."""
    open_trace, kept = None, 0
    for count, event in enumerate(stored, start=1):
        if isinstance(event, events.MessageSaved) and event.role == "user":
            open_trace = event.trace_id
        elif isinstance(event, _ENDS) and event.trace_id == open_trace:
            open_trace = None
        if open_trace is None:
            kept = count
    return kept
