"""In which language a text is written, by a model of n-grams that comes with `py3langid`."""

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

UNDETERMINED = "und"
_NO_LANGUAGE = "zxx"
_LEAST_CONFIDENCE = 0.6
"""Below it a text has no language: "OK" and "ORD-1001" have none. Of sentences few fall below."""
_MOST_CHARACTERS = 2_000
_CLOSE = (frozenset({"da", "no", "nn"}), frozenset({"bs", "hr", "sr"}), frozenset({"id", "ms"}))
"""Languages that a few sentences do not tell apart."""


def language_of(text: str) -> str:
    """The ISO 639 code, or UNDETERMINED where the text is too short or has no words. 0.1 ms a sentence; the
    first call loads the model, which takes a second.
    """
    code, _ = _identifier().classify(text[:_MOST_CHARACTERS])
    return UNDETERMINED if code == _NO_LANGUAGE else str(code)


def are_same(one: str, other: str) -> bool:
    """Whether two codes stand for one language, as far as texts tell."""
    return one == other or any({one, other} <= close for close in _CLOSE)


@functools.cache
def _identifier() -> "LanguageIdentifier":
    # Imported here: it loads numpy, which no other command needs.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=_LEAST_CONFIDENCE)
