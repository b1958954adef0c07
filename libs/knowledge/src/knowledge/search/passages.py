"""What a search gives."""

import msgspec

from contracts.values import Source


class Passage(msgspec.Struct, frozen=True):
    """A passage that was found: as callers see it, and its whole text for the model."""

    source: Source
    text: str
