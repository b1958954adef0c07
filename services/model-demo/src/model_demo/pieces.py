"""Texts cut into deltas: a few words each, or a number of pieces that was asked for."""

import re
from collections.abc import Iterator
from itertools import cycle, pairwise

_TOKEN = re.compile(r"\s+|\S{1,80}")
_WORDS_A_PIECE = (2, 3, 4)
_JSON_PIECE = 24


def few_words(text: str) -> tuple[str, ...]:
    """Pieces of two to four words; joined they are the text."""
    return tuple(_grouped(text))


def equal(text: str, count: int) -> tuple[str, ...]:
    """`count` pieces of nearly one length, or one a character where the text is shorter."""
    count = max(1, min(count, len(text)))
    cuts = [len(text) * place // count for place in range(count + 1)]
    return tuple(text[start:end] for start, end in pairwise(cuts) if end > start)


def of_json(text: str) -> Iterator[str]:
    """The pieces of a tool's input, as `partial_json` deltas carry them."""
    return (text[start : start + _JSON_PIECE] for start in range(0, len(text), _JSON_PIECE))


def _grouped(text: str) -> Iterator[str]:
    sizes = cycle(_WORDS_A_PIECE)
    piece, words, size = "", 0, next(sizes)
    for token in _TOKEN.findall(text):
        if words == size:
            yield piece
            piece, words, size = "", 0, next(sizes)
        piece += token
        words += not token.isspace()
    if piece:
        yield piece
