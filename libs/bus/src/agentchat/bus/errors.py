"""What can go wrong between a service and NATS, in the ways that callers distinguish."""


class BusUnavailable(Exception):  # noqa: N818 - a state of things, as its callers read it
    """NATS did not answer in time; whether a publication was stored is unknown, and repeating it is safe."""


class FeedConflict(Exception):  # noqa: N818 - the same
    """Somebody else has published to EVENTS since; `sequence` is what the caller took for the last one."""

    def __init__(self, sequence: int) -> None:
        super().__init__(f"EVENTS does not end at sequence {sequence}")
        self.sequence = sequence


class MessageTooLarge(Exception):  # noqa: N818 - the same
    """A request has more bytes than a message may have, compressed too; the text says how many."""


class Declined(Exception):  # noqa: N818 - no failure
    """A handler of requests leaves one to another server of its group: who asks is to ask again."""
