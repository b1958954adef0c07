"""Text as words for Postgres's full text search, the same whatever the database's locale is.

In the C locale Postgres takes “quotes” for letters and leaves É as it is; and a script without blanks between
words is one word to it everywhere. So words are separated here, and Postgres only stems them.
"""

import re
import unicodedata
from collections.abc import Iterator

import msgspec

_MOST_WORD = 64
_MOST_QUERY = 4000
_MOST_WORDS = 64

# Scripts that write no blanks: kana and Han; Thai, Lao, Burmese, Khmer. Searched by pairs of characters.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
    "|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
_QUOTED = re.compile(r'"([^"]+)"|[“„]([^“”„]+)[”“]|«([^«»]+)»')


class SearchQuery(msgspec.Struct, frozen=True):
    """What is looked for: `words` in order, and of them the `phrases` that stood in quotes.

    Of web search's other operators none is known: in a person's question, or in a command line that it
    quotes, a dash before a word and the word "or" mean no more than they say.
    """

    words: str
    phrases: tuple[str, ...] = ()


class _Letters(dict[int, int]):
    """Keeps letters, digits and the marks on them; everything else parts words."""

    def __missing__(self, code: int) -> int:
        kept = code if unicodedata.category(chr(code))[0] in "LNM" else 0x20
        self[code] = kept
        return kept


_letters = _Letters()


def searchable(text: str) -> str:
    """The words of `text` in order, in lower case, with single blanks between them."""
    return " ".join(_words(text))


def question(text: str) -> SearchQuery:
    """A person's question. Of a long text it is the beginning and the end, 64 words at most."""
    text = shortened(text)
    words = list(_words(text))
    if len(words) > _MOST_WORDS:
        half = _MOST_WORDS // 2
        return SearchQuery(" ".join((*words[:half], *words[-half:])))
    quoted = (searchable("".join(found.groups(""))) for found in _QUOTED.finditer(text))
    return SearchQuery(" ".join(words), tuple(phrase for phrase in quoted if phrase))


def shortened(text: str) -> str:
    """The beginning and the end of a long text: one of them has the question."""
    if len(text) <= _MOST_QUERY:
        return text
    return f"{text[: _MOST_QUERY // 2]} {text[-_MOST_QUERY // 2 :]}"


def _words(text: str) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", text).lower().translate(_letters)
    for word in _UNSPACED.sub(_paired, folded).split():
        yield word[:_MOST_WORD]


def _paired(run: re.Match[str]) -> str:
    text = run[0]
    pairs = [text[at : at + 2] for at in range(max(1, len(text) - 1))]
    return f" {' '.join(pairs)} "
