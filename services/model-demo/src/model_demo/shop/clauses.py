"""The parts of a message, each with what matters for choosing a tool."""

import re
from collections.abc import Iterator, Set

import msgspec

from model_demo.shop import entities, words

_SPLIT = re.compile(
    r"[.!?;](?=\s|$)|\n+|,?\s+(?:and then|and also|and|then|also|plus)\s+|,\s+(?=[A-Za-z])", re.IGNORECASE
)
_WISHES = re.compile(
    r"\b(?:(?:do|would) you (?:have|sell|carry|offer|stock)|have you got|got any|looking for|buy"
    r"|i (?:want|need|would like) (?:to buy|an?|some|new)|i'd like (?:to buy|an?|some|new)"
    r"|(?:show|find|get) me)\b",
    re.IGNORECASE,
)
_RULES = re.compile(
    r"\b(?:how (?:long|do i|can i|does|much is)|(?:what(?:'s| is| are) )?your (?:\w{1,20} )?(?:polic|rule))",
    re.IGNORECASE,
)
_PAIRS = re.compile(r"\b(?:goes? (?:well |nicely )?(?:together )?with|accessor(?:y|ies))\b", re.IGNORECASE)
_ASKS_WHETHER = re.compile(
    r"\b(?:can i|could i|may i|is it possible|how do i|how can i|how to)\b", re.IGNORECASE
)
_NEGATED = re.compile(r"\b(?:don'?t|do not|never|without)\b", re.IGNORECASE)


_NUMBERED = re.compile(r"\b([a-z]+)s?\s+(?:number\s+|no\.?\s+)?#?\d{2,8}\b", re.IGNORECASE)
_OF = re.compile(r"\b(\w+?)s?\s+(?:of|behind|from|in|on)\s+(?:the\s+)?(?:\w+\s+)?$")
_NEAR = 40
_GOODS = {"product", "item"}


class Clause(msgspec.Struct, frozen=True):
    """`asked`: stems of its words; `kinds`: prefixes of the ids that it is about.

    `numbered`: nouns with a number, as in "order 1028".

    `may_change`: whether it can be an order to change something, not a question whether that is possible.
    `is_wordy`: whether it says anything beside ids.
    """

    text: str
    asked: tuple[str, ...]
    kinds: frozenset[str]
    numbered: frozenset[str]
    may_change: bool
    is_wordy: bool


def of(message: str, nouns: Set[str]) -> list[Clause]:
    """The parts of a message: sentences, and what "and" or a comma tells apart."""
    return [read(text, nouns) for text in _SPLIT.split(message) if text and text.strip()]


def read(text: str, nouns: Set[str]) -> Clause:
    """One part of a message. `nouns` are things that have ids: "the customer of ORD-1001" is no order."""
    kinds = frozenset(_kinds(text, nouns))
    numbered = frozenset(map(str.lower, _NUMBERED.findall(text)))
    bare = entities.without_ids(text)
    said = {word.lower().rstrip("s") for word in words.split(bare)} - _GOODS
    return Clause(
        text=text,
        asked=tuple(words.asked(_in_tools_words(bare, is_named=bool(kinds) or bool(said & nouns)))),
        kinds=kinds,
        numbered=numbered,
        may_change=not (_NEGATED.search(text) or _ASKS_WHETHER.search(text)),
        is_wordy=bool(words.asked(bare)),
    )


def _kinds(text: str, nouns: Set[str]) -> Iterator[str]:
    for match in entities.ID.finditer(text):
        prefix = entities.prefix(match[0].upper())
        owner = _OF.search(text[max(0, match.start() - _NEAR) : match.start()])
        noun = owner[1].lower() if owner else ""
        if noun not in nouns or entities.is_short_for(prefix, noun):
            yield prefix


def _in_tools_words(bare: str, *, is_named: bool) -> str:
    """What people say, and beside it the words that tools are described with."""
    bare = _PAIRS.sub(" bought together suggest ", bare)
    return bare if is_named else _RULES.sub(" help articles polic", _WISHES.sub(" search products ", bare))
