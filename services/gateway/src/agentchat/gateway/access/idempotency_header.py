"""Read the header Idempotency-Key: visible ASCII, bare or as a quoted string.

IETF draft-ietf-httpapi-idempotency-key-header; RFC 9651 section 3.3.3. How keys are claimed: decision 9.
"""

import re
from typing import Annotated

import msgspec
from litestar.datastructures import Headers
from litestar.params import HeaderParameter

from agentchat.conversations.idempotency import idempotency_keys
from agentchat.directory.api_keys import Caller
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.runtime.postgres import Pool

NAME = "Idempotency-Key"
MAX_LENGTH = 255

IdempotencyHeader = Annotated[
    str | None,
    HeaderParameter(
        name=NAME,
        description="Names this request: sent again with the same key and body within 24 hours, it gives the "
        "first one's result and starts nothing. Visible ASCII, such as a new UUID.",
    ),
]
"""Only for the description of a handler: the guard has read it."""

_BARE = re.compile(r"[!#-~][!-~]*\Z")
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"\Z')
_ESCAPED = re.compile(r'\\(["\\])')


class IdempotencyKey(msgspec.Struct, frozen=True):
    """The key of a request. `text` is None if it has none; `is_valid` False if the header is wrong.

    `repeats`: a request with this key has begun a run, or is on its way.
    """

    text: str | None = None
    is_valid: bool = True
    repeats: bool = False

    def check(self) -> None:
        """Raise Refusal, 400, for a header that is wrong."""
        if not self.is_valid:
            message = f"This header is sent once, with 1 to {MAX_LENGTH} characters of visible ASCII."
            raise build_field_refusal(NAME, message)


async def read_idempotency_key(headers: Headers, pool: Pool, caller: Caller) -> IdempotencyKey:
    """Read the key, and look up whether it is known. Raises DatabaseUnavailable."""
    values = headers.getall(NAME, [])
    if not values:
        return IdempotencyKey()
    text = parse(values[0]) if len(values) == 1 else None
    if text is None:
        return IdempotencyKey(is_valid=False)
    return IdempotencyKey(text, repeats=await idempotency_keys.is_repeat(pool, caller, text))


def parse(value: str) -> str | None:
    """Return the key in a header's value; None if there is none that is allowed."""
    value = value.strip(" \t")
    text = value if _BARE.match(value) else ""
    if quoted := _QUOTED.match(value):
        text = _ESCAPED.sub(r"\1", quoted[1])
    return text if 1 <= len(text) <= MAX_LENGTH else None
