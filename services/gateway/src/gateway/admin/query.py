"""The query string of an admin request: only what the route knows, each once."""

import base64
import binascii
from typing import Any
from urllib.parse import parse_qs

from administration.reading import MOST_PAGE
from gateway import strict
from gateway.exchange import Exchange
from gateway.problems import Refusal, invalid

_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_COUNTS = {"limit": MOST_PAGE, "top_k": 50}


def read(exchange: Exchange, known: tuple[str, ...]) -> dict[str, Any]:
    """The parameters by name: counts as int, flags as bool, the cursor as its place. Raises Refusal."""
    try:
        text = exchange.scope["query_string"].decode("ascii")
        found = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=50)
    except (UnicodeDecodeError, ValueError):
        raise Refusal("invalid_request", "The query string is not percent-encoded UTF-8.") from None
    for name, values in found.items():
        if name not in known:
            raise invalid(strict.printable(name), "This parameter is not known here.")
        if len(values) > 1:
            raise invalid(name, "This parameter is given twice.")
    return {name: _value(name, values[0]) for name, values in found.items()}


def cursor_of(after: str) -> str:
    """A place in a list as the caller gets it: not to be read, and to be sent as it is."""
    return base64.urlsafe_b64encode(after.encode()).rstrip(b"=").decode()


def _value(name: str, text: str) -> Any:
    if name in ("force", "dry_run"):
        if text not in _FLAGS:
            raise invalid(name, "This must be true or false.")
        return _FLAGS[text]
    if name in _COUNTS:
        most = _COUNTS[name]
        if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= most):
            raise invalid(name, f"This must be a whole number from 1 to {most}.")
        return int(text)
    if name == "cursor":
        return _place(text)
    if not text or "\x00" in text:
        raise invalid(name, "This must be a text that is not empty and holds no NUL.")
    return text


def _place(cursor: str) -> str | None:
    if not cursor:
        return None
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        place = ""
    if not place or "\x00" in place:
        raise invalid("cursor", "This is not a cursor that the service has given out.")
    return place
