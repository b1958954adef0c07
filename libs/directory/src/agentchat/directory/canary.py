"""Which version of an agent answers a conversation, where several share its conversations. Pure."""

import hashlib
from collections.abc import Mapping

Shares = Mapping[str, int]
"""How much of the conversations each version answers, by its number as text: {"12": 95, "13": 5}."""

_POINTS = 2**64


def choose_version(shares: Shares, conversation_id: str) -> int:
    """Always the same for a conversation while the shares are. `shares` has one at least.

    Versions take their shares in the order of their numbers: where the last one's grows and the sum stays,
    no conversation leaves it.
    """
    digest = hashlib.sha256(f"canary {conversation_id}".encode()).digest()
    place = int.from_bytes(digest[:8]) * sum(shares.values()) // _POINTS
    *others, last = sorted(shares, key=int)
    for version in others:
        if place < shares[version]:
            return int(version)
        place -= shares[version]
    return int(last)
