"""The query string of an admin request: only what the route knows, each once."""

from typing import Any

from administration.reading import MOST_PAGE
from gateway import query, strict
from gateway.exchange import Exchange
from gateway.problems import invalid

_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_COUNTS = {"limit": MOST_PAGE, "top_k": 50}


def read(exchange: Exchange, known: tuple[str, ...]) -> dict[str, Any]:
    """The parameters by name: counts as int, flags as bool, the cursor as its place. Raises Refusal."""
    found = query.fields(exchange, "strict")
    for name in found:
        if name not in known:
            raise invalid(strict.printable(name), "This parameter is not known here.")
    return {name: _value(name, query.once(name, values)) for name, values in found.items()}


def cursor_of(after: str) -> str:
    """A place in a list as the caller gets it."""
    return query.cursor_of(after.encode())


def _value(name: str, text: str) -> Any:
    if name in ("force", "dry_run"):
        if text not in _FLAGS:
            raise invalid(name, "This must be true or false.")
        return _FLAGS[text]
    if name in _COUNTS:
        return query.whole_number(name, text, _COUNTS[name])
    if name == "cursor":
        return _place(text)
    if not text or "\x00" in text:
        raise invalid(name, "This must be a text that is not empty and holds no NUL.")
    return text


def _place(cursor: str) -> str | None:
    if not cursor:
        return None
    try:
        place = query.place_of(cursor).decode()
    except UnicodeDecodeError:
        raise query.wrong_cursor() from None
    if not place or "\x00" in place:
        raise query.wrong_cursor()
    return place
