"""Headers of the OpenAI door: the key, the caller's own key for the conversation, a try after the first."""

import re

from gateway import auth
from gateway.exchange import Exchange
from gateway.problems import Refusal, invalid

_BEARER = re.compile(rb"bearer +([!-~]+)\Z", re.IGNORECASE)
_NAMES = ("X-Conversation-Id", "X-OpenWebUI-Chat-Id")
_KEY = re.compile(rb"[!-~]{1,255}\Z")
_COUNT = b"x-stainless-retry-count"


def api_key_of(exchange: Exchange) -> str:
    """Our key, as OpenAI's clients send theirs, or as Azure's do. Raises Refusal: 401."""
    values = exchange.header(b"authorization")
    if not values:
        return auth.one_key(exchange.header(b"api-key"))
    found = _BEARER.match(values[0]) if len(values) == 1 else None
    if found is None:
        raise Refusal("invalid_api_key")
    return auth.one_key([found[1]])


def who(exchange: Exchange) -> tuple[str, str | None]:
    """The key; the agent is named in the body. Raises Refusal: 401."""
    return api_key_of(exchange), None


def conversation_key_of(exchange: Exchange) -> str | None:
    """What the caller calls the conversation; None where he does not say. Raises Refusal: 400.

    A template that a client did not fill in (`{{CHAT_ID}}`) would be one key for all.
    """
    for name in _NAMES:
        values = exchange.header(name.lower().encode())
        if not values or not values[0] or b"{{" in values[0]:
            continue
        if len(values) > 1 or not _KEY.match(values[0]):
            raise invalid(name, "This header is sent once, with 1 to 255 characters of visible ASCII.")
        return values[0].decode()
    return None


def again(exchange: Exchange) -> bool:
    """Whether the SDK sends this for the second time, with a key under which the first is found."""
    counts = exchange.header(_COUNT)
    return bool(counts) and counts[0] != b"0" and any(exchange.header(n.lower().encode()) for n in _NAMES)
