"""Texts that are shown on one line: names."""

import unicodedata


def is_line(text: str) -> bool:
    """No control character, line breaks and NUL among them, and no lone surrogate."""
    return not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)
