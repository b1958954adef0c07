"""Split text into words for Postgres' full-text search, in the same way for every database locale.

In the C locale Postgres takes “quotes” for letters and leaves É as it is, and in every locale a script
without blanks between words is one word to it. So Python splits words, and Postgres only stems them.
"""

import re
import unicodedata
from collections.abc import Iterator

import msgspec

_MOST_WORD = 64
_MOST_QUERY = 4000
_MOST_WORDS = 64

# Searched by pairs of characters: scripts without blanks between words (kana and Han; Thai, Lao, Burmese,
# Khmer), and Hangul, whose particles are part of the word.
_UNSPACED = re.compile(
    "[\uac00-\ud7a3]+|[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
    "|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
_PARTICLES = "은는이가을를의에도와과로만"
"""Korean particles of one syllable: the noun before one is a word by itself."""
_QUOTED = re.compile(r'"([^"]+)"|[“„]([^“”„]+)[”“]|«([^«»]+)»')


class SearchQuery(msgspec.Struct, frozen=True):
    """A search: its `words` in order, and the `phrases` among them that were in quotes.

    Other operators of web search are not supported: in a person's question, or in a command line that it
    quotes, a dash before a word and the word "or" are plain text.
    """

    words: str
    phrases: tuple[str, ...] = ()


class _Letters(dict[int, int | None]):
    """Keeps letters, digits and the marks on them; everything else separates words.

    Invisible characters (soft hyphens, joiners) are removed, as is the dot that folding the case of İ leaves.
    """

    def __missing__(self, code: int) -> int | None:
        category = unicodedata.category(chr(code))
        kept: int | None = code if category[0] in "LNM" else 0x20
        if category == "Cf" or 0xFE00 <= code <= 0xFE0F or code == 0x307:
            kept = None
        self[code] = kept
        return kept


_letters = _Letters()


def make_searchable(text: str) -> str:
    """Return the words of `text` in order, in lower case, with single blanks between them."""
    return " ".join(_split_words(text))


def parse_question(text: str) -> SearchQuery:
    """Return a person's question as a search: of a long text the beginning and the end, at most 64 words."""
    text = shorten_text(text)
    words = list(_split_words(text))
    if len(words) > _MOST_WORDS:
        half = _MOST_WORDS // 2
        return SearchQuery(" ".join((*words[:half], *words[-half:])))
    quoted = (make_searchable("".join(found.groups(""))) for found in _QUOTED.finditer(text))
    return SearchQuery(" ".join(words), tuple(phrase for phrase in quoted if phrase))


def shorten_text(text: str) -> str:
    """Return the beginning and the end of a long text, one of which has the question."""
    if len(text) <= _MOST_QUERY:
        return text
    return f"{text[: _MOST_QUERY // 2]} {text[-_MOST_QUERY // 2 :]}"


def _split_words(text: str) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u0131", "i")
    folded = unicodedata.normalize("NFC", folded.translate(_letters))
    for word in _UNSPACED.sub(_pair, folded).split():
        yield word[:_MOST_WORD]


def _pair(run: re.Match[str]) -> str:
    text = run[0]
    pairs = [text[at : at + 2] for at in range(max(1, len(text) - 1))]
    if len(text) == 2 and text[1] in _PARTICLES and "\uac00" <= text[0] <= "\ud7a3":
        pairs.append(text[0])
    return f" {' '.join(pairs)} "
