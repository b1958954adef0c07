"""What text may hold before it is stored: JSON allows more than UTF-8 and Postgres do (RELIABILITY E9)."""

from typing import Any

_REPLACEMENT = "�"


def is_storable(text: str) -> bool:
    """False for text with a lone surrogate, which has no UTF-8 form."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def cleaned(text: str) -> str:
    """`text` with NUL and lone surrogates replaced by U+FFFD: for text of models and tools, never refused."""
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    if is_storable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
