"""Choose the version of an agent that answers a conversation if several share its traffic."""

import hashlib
from collections.abc import Mapping

Shares = Mapping[str, int]
"""The share of conversations that each version answers, by its number as text: {"12": 95, "13": 5}."""

_POINTS = 2**64


def choose_version(shares: Shares, conversation_id: str) -> int:
    """Return the version for a conversation; the same one as long as the shares do not change.

    `shares` must not be empty. Versions take their shares in the order of their numbers: if the last
    version's share grows and the sum stays, no conversation leaves that version.
    """
    digest = hashlib.sha256(f"canary {conversation_id}".encode()).digest()
    place = int.from_bytes(digest[:8]) * sum(shares.values()) // _POINTS
    *others, last = sorted(shares, key=int)
    for version in others:
        if place < shares[version]:
            return int(version)
        place -= shares[version]
    return int(last)
