"""What text may hold before it is stored: JSON allows more than UTF-8 and Postgres do.

And before it is shown: characters that drive a terminal, or have text read other than it is. Source:
docs/change/reliability.md Postgres, docs/change/design.md 6.
"""

import re
import unicodedata
from typing import Any

_REPLACEMENT = "�"

# In UTF-8: DEL and C1, U+061C, U+200E and U+200F, U+2028 to U+202E, U+2066 to U+2069.
_DRIVING = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")


def is_storable(text: str) -> bool:
    """False for text with a lone surrogate, which has no UTF-8 form."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def has_controls(text: str) -> bool:
    """Whether there is a control character in it, line breaks and NUL among them."""
    # What is printable has none, and nearly every line is.
    return not text.isprintable() and any(unicodedata.category(character) == "Cc" for character in text)


def is_line(text: str) -> bool:
    """Whether it can be shown on one line, as names are: no control character, no lone surrogate."""
    return is_storable(text) and not has_controls(text)


def escaped(data: bytes) -> bytes:
    """JSON, or lines of it, with what drives a terminal or turns the order of text as `\\u` escapes.

    It says the same. That holds for DEL, C1, line and paragraph separators and bidirectional controls; other
    control characters are escapes in all JSON.
    """
    if data.isascii() and b"\x7f" not in data:
        return data
    return _DRIVING.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


def cleaned(text: str) -> str:
    """`text` with NUL and lone surrogates replaced by U+FFFD: for text of models and tools, never refused."""
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    if text.isascii() or is_storable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def short_line(text: str, most: int = 64) -> str:
    """The beginning of `text` as one line: what others name something by, for logs and attributes."""
    line = cleaned(text[:most])
    return (
        "".join(_REPLACEMENT if has_controls(each) else each for each in line) if has_controls(line) else line
    )


def cleaned_json(value: Any) -> Any:
    """A JSON value with every string in it cleaned, keys too."""
    match value:
        case str():
            return cleaned(value)
        case list() | tuple():
            return [cleaned_json(item) for item in value]
        case dict():
            return {cleaned(str(key)): cleaned_json(item) for key, item in value.items()}
        case _:
            return value
