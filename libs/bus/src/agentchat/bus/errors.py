"""Define the errors of the bus that callers distinguish."""


class BusUnavailable(Exception):  # noqa: N818 - reads as the condition it is
    """NATS did not answer in time. A publication may have been stored; repeating it is safe."""


class FeedConflict(Exception):  # noqa: N818 - reads as the condition it is
    """Another process has published to EVENTS, so it does not end at `sequence` any more."""

    def __init__(self, sequence: int) -> None:
        super().__init__(f"EVENTS does not end at sequence {sequence}")
        self.sequence = sequence


class MessageTooLarge(Exception):  # noqa: N818 - reads as the condition it is
    """A request is too large for the bus even when compressed. The text says how many bytes it has."""


class RequestDeclined(Exception):  # noqa: N818 - not a failure
    """A handler leaves the request to another server of its group; the caller asks again."""
