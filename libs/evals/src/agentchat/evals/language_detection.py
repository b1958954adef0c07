"""Detect the language of a text by the n-gram model of `py3langid`."""

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

UNDETERMINED = "und"
_NO_LANGUAGE = "zxx"
_LEAST_CONFIDENCE = 0.4
"""Below this a text has no language: "OK", "ORD-1001" and brand names reach at most 0.31."""
_MOST_CHARACTERS = 2_000
LANGUAGES = (
    *("am", "ar", "az", "be", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi"),
    *("fr", "gu", "he", "hi", "hr", "hu", "hy", "id", "it", "ja", "ka", "kk", "km", "kn", "ko", "lo"),
    *("lt", "lv", "mk", "ml", "mr", "ms", "my", "ne", "nl", "no", "pa", "pl", "pt", "ro", "ru", "si"),
    *("sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk", "ur", "vi", "zh"),
)
"""The model knows 137. Most of the others are neighbours of these (Afrikaans, Galician, Occitan) and take
short questions in Dutch or Spanish.
"""
_CLOSE = (frozenset({"da", "no"}), frozenset({"hr", "sr"}), frozenset({"id", "ms"}))
"""Languages that a few sentences cannot tell apart."""


def detect_language(text: str) -> str:
    """Return one of LANGUAGES (ISO 639), or UNDETERMINED if the text is too short or has no words.

    It takes 0.1 ms a sentence; the first call loads the model, which takes a second.
    """
    code, _ = _load_identifier().classify(text[:_MOST_CHARACTERS])
    return UNDETERMINED if code == _NO_LANGUAGE else str(code)


def are_same(one: str, other: str) -> bool:
    """Return True if two codes mean one language, as far as texts can tell."""
    return one == other or any({one, other} <= close for close in _CLOSE)


@functools.cache
def _load_identifier() -> "LanguageIdentifier":
    # Imported here: it loads numpy, which no other command needs.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    found = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=_LEAST_CONFIDENCE)
    found.set_languages([*LANGUAGES, _NO_LANGUAGE])
    return found
