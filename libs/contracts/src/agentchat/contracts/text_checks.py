"""Check and clean text before it is stored or shown.

JSON allows text that UTF-8 and Postgres do not. Terminals obey control characters, and bidirectional controls
change the order in which text is read. Source: docs/change/reliability.md Postgres, docs/change/rules.md 5.
"""

import codecs
import re
import unicodedata
from typing import Any

_REPLACEMENT = "�"

# UTF-8 of DEL and C1, U+061C, U+200E and U+200F, U+2028 to U+202E, U+2066 to U+2069.
_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: it begins with the same two bytes
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def convert_to_utf8(data: bytes) -> bytes:
    """Return a file's content without its byte order mark, in UTF-8 if the mark says UTF-16 or UTF-32.

    Editors and shells of Windows write such files. Content without a mark is returned unchanged.

    Raises:
        UnicodeDecodeError: The content is not what its mark says.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding).encode()
    return data


def is_wide(data: bytes) -> bool:
    """Return True if the byte order mark of a file says UTF-16 or UTF-32."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))


def is_storable(text: str) -> bool:
    """Return False for text with a lone surrogate, which has no UTF-8 form."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def has_controls(text: str) -> bool:
    """Return True if the text has a control character, line breaks and NUL included."""
    # Nearly every line is printable, and then it has no control character.
    return not text.isprintable() and any(unicodedata.category(character) == "Cc" for character in text)


def is_line(text: str) -> bool:
    """Return True if the text can be shown on one line: no control character, no lone surrogate."""
    return is_storable(text) and not has_controls(text)


def escape_controls(data: bytes) -> bytes:
    r"""Escape characters in JSON that drive a terminal or change the order of text.

    The JSON keeps its meaning. Escaped as `\u` are DEL, C1, line and paragraph separators and bidirectional
    controls; JSON escapes the other control characters anyway.
    """
    if data.isascii() and b"\x7f" not in data:
        return data
    return _CONTROLS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


def clean_text(text: str) -> str:
    """Replace NUL and lone surrogates by U+FFFD, for text of models and tools, which is never refused."""
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    if text.isascii() or is_storable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shorten_line(text: str, most: int = 64) -> str:
    """Return the beginning of `text` as one line, for logs and attributes."""
    line = clean_text(text[:most])
    return (
        "".join(_REPLACEMENT if has_controls(each) else each for each in line) if has_controls(line) else line
    )


def clean_json(value: Any) -> Any:
    """Clean every string of a JSON value, keys included."""
    match value:
        case str():
            return clean_text(value)
        case list() | tuple():
            return [clean_json(item) for item in value]
        case dict():
            return {clean_text(str(key)): clean_json(item) for key, item in value.items()}
        case _:
            return value


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 run`, `1,200 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format seconds as `85 ms`, `4.1 s`, `2 m 05 s`, `2 h 10 m` or `3 d 4 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} m"
    return f"{hours // 24} d {hours % 24} h"
