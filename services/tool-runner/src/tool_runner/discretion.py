"""Credentials that a tool server repeats in its answers: struck out before a model or a log sees them.

Only of headers whose name says that they are credentials: others may hold words that answers are to hold too.
"""

import json
import re
from collections.abc import Mapping, Sequence

_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|password|credential|session", re.IGNORECASE)
_SHORTEST = 8
_STRUCK = "[hidden]"


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """What is not to be repeated: the credentials as they are sent, and the parts behind their scheme."""
    found: set[str] = set()
    for name, value in headers.items():
        if _CREDENTIAL.search(name):
            parts = {value, *re.split(r"[\s;,=]+", value)}
            found |= {part for part in parts if len(part) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def struck(text: str, secrets: Sequence[str]) -> str:
    """`text` without the secrets, also where it holds them as JSON does."""
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1]):
            if form in text:
                text = text.replace(form, _STRUCK)
    return text
