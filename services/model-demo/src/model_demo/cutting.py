"""Where a reply stops short: at a stop sequence, then at max_tokens."""

from collections.abc import Sequence

import msgspec

from model_demo.wire.replies import Part, Reply, Say
from model_demo.wire.tokens import BYTES_A_TOKEN, of_part


def cut(reply: Reply, stop_sequences: Sequence[str], max_tokens: int) -> Reply:
    """The reply as far as the request lets it go, with the stop reason that tells why."""
    return _at_budget(_at_sequence(reply, stop_sequences), max_tokens)


def _at_sequence(reply: Reply, sequences: Sequence[str]) -> Reply:
    for place, part in enumerate(reply.parts):
        if not isinstance(part, Say):
            continue
        found = [(at, sequence) for sequence in sequences if (at := part.text.find(sequence)) >= 0]
        if found:
            at, sequence = min(found)
            kept = (*reply.parts[:place], *_say(part.pieces, at))
            return msgspec.structs.replace(
                reply, parts=kept, stop_reason="stop_sequence", stop_sequence=sequence
            )
    return reply


def _at_budget(reply: Reply, budget: int) -> Reply:
    kept: list[Part] = []
    for part in reply.parts:
        cost = of_part(part)
        if cost > budget:
            if isinstance(part, Say):
                kept.extend(_say(part.pieces, _characters(part.text, budget * BYTES_A_TOKEN)))
            return Reply(tuple(kept), "max_tokens")
        budget -= cost
        kept.append(part)
    return reply if reply.parts or budget else Reply((), "max_tokens")


def _say(pieces: Sequence[str], length: int) -> tuple[Say, ...]:
    """The first `length` characters of the pieces, as one part or none."""
    kept: list[str] = []
    for piece in pieces:
        kept.append(piece[:length])
        length = max(0, length - len(piece))
    left = tuple(filter(None, kept))
    return (Say(left),) if left else ()


def _characters(text: str, size: int) -> int:
    """How many whole characters of `text` fit `size` bytes of UTF-8."""
    return len(text.encode()[:size].decode(errors="ignore"))
