"""Credentials that a tool server repeats in its answers: struck out before a model or a log sees them.

Only of headers whose name says that they are credentials: others may hold words that answers are to hold too.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|password|credential|session", re.IGNORECASE)
_SCHEME = re.compile(r"([\w.+-]+)\s+(?=\S)")
# A parameter or a cookie, of which the value is a secret and the name is not: RFC 9110 11.2, RFC 6265 4.1.
_VALUE = re.compile(r'\s*(?:[^\s;,="]+\s*=\s*)?("(?:\\.|[^"\\])*"|[^;,]*)')
_SHORTEST = 8
_STRUCK = "[hidden]"


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """What is not to be repeated: the credentials as they are sent, and their secret parts."""
    found: set[str] = set()
    for name, value in headers.items():
        if _CREDENTIAL.search(name):
            found |= {part for part in _secret_parts(value.strip()) if len(part) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def _secret_parts(value: str) -> Iterator[str]:
    yield value
    if scheme := _SCHEME.match(value):
        value = value[scheme.end() :]
        yield value
        yield value.rstrip("=")  # base64 is repeated without its padding too
    for match in _VALUE.finditer(value):
        yield match[1].strip().strip('"')


def redacted(text: str, secrets: Sequence[str]) -> str:
    """`text` without the secrets, also where it holds them as JSON does."""
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1]):
            if form in text:
                text = text.replace(form, _STRUCK)
    return text


def redacted_value(value: Any, secrets: Sequence[str]) -> Any:
    """A JSON value without the secrets, in keys neither; a number that holds one becomes a string."""
    match value:
        case str():
            return redacted(value, secrets)
        case list() | tuple():
            return [redacted_value(item, secrets) for item in value]
        case dict():
            return {redacted(str(key), secrets): redacted_value(item, secrets) for key, item in value.items()}
        case int() | float():
            return value if redacted(text := str(value), secrets) == text else _STRUCK
        case _:
            return value


def redacted_json(text: str, secrets: Sequence[str]) -> str:
    """JSON without the secrets, however it escapes them: still JSON, and as it was where it holds none."""
    if not secrets:
        return text
    try:
        value = msgspec.json.decode(text)
        found = redacted_value(value, secrets)
    except RecursionError:
        return redacted(text, secrets)
    return text if found == value else json.dumps(found, ensure_ascii=False, separators=(",", ":"))
