"""Passages given with a request: `<document index="1" title="...">...</document>`, answered from with [1]."""

import re
from collections import Counter

import msgspec

from model_demo.conversation import Conversation, text_of
from model_demo.shop import words
from model_demo.wire.requests import DocumentBlock

_END = "</document>"
_DOCUMENT = re.compile(r"<document\b([^>]{0,500})>(.*?)</document>", re.DOTALL)
_WRAPPER = re.compile(r"</?documents?\b[^>]{0,500}>")
_ATTRIBUTE = re.compile(r"(\w+)=\"([^\"]*)\"")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[^\n]+")
_BLANKS = re.compile(r"[^\S\n]{2,}")
_MOST_SENTENCES = 3
MOST_READ = 8000
_MARGIN = " \t\r\n#*->"


class Passage(msgspec.Struct, frozen=True):
    index: str
    title: str
    text: str


class Sentence(msgspec.Struct, frozen=True):
    index: str
    text: str
    place: int


def without(text: str) -> str:
    """The text without documents in it: what the person said."""
    if "<document" not in text:
        return text.strip()
    closed, rest = _closed_part(text)
    return _WRAPPER.sub("", _DOCUMENT.sub("", closed) + rest).strip()


def said(text: str) -> str:
    """What the person said, as far as the assistant reads: without documents, its first 8,000 characters."""
    return _BLANKS.sub(" ", without(text)[:MOST_READ])


def given(conversation: Conversation) -> list[Passage]:
    """The passages in the system prompt, then those of the turn that asks."""
    turn = conversation.turns[conversation.question_at]
    passages = [
        _passage(attributes, body, place)
        for place, (attributes, body) in enumerate(
            [*_found(conversation.system), *_found(text_of(turn.blocks))], start=1
        )
    ]
    for block in turn.blocks:
        if isinstance(block, DocumentBlock) and block.source.get("type") == "text":
            index = str(len(passages) + 1)
            passages.append(Passage(index, block.title or "", str(block.source.get("data", ""))))
    return passages


def answer(question: str, passages: list[Passage]) -> str | None:
    """The sentences that speak of what is asked, each with its source; nothing where none does."""
    asked = set(words.topics(question))
    sentences = [
        Sentence(passage.index, text, place)
        for place, passage in enumerate(passages)
        for text in (found.strip(_MARGIN) for found in _SENTENCE.findall(passage.text))
        if text
    ]
    titles = {passage.index: set(words.topics(passage.title)) for passage in passages}
    known = {sentence: set(words.topics(sentence.text)) for sentence in sentences}
    rarity = Counter(word for stems in known.values() for word in stems)
    scored = []
    for order, sentence in enumerate(sentences):
        hits = asked & known[sentence]
        score = sum(1 / rarity[word] for word in hits) + len(hits) + len(asked & titles[sentence.index]) / 2
        if hits and len(hits | (asked & titles[sentence.index])) >= min(2, len(asked)):
            scored.append((-score, order, sentence))
    if not scored:
        return None
    best = -min(scored)[0]
    chosen = [entry for entry in sorted(scored)[:_MOST_SENTENCES] if -entry[0] >= best * 0.6]
    chosen.sort(key=lambda entry: entry[1])
    return " ".join(f"{_closed(entry[2].text)} [{entry[2].index}]" for entry in chosen)


def _found(text: str) -> list[tuple[str, str]]:
    """The attributes and the body of each document."""
    return _DOCUMENT.findall(_closed_part(text)[0])


def _closed_part(text: str) -> tuple[str, str]:
    """The text up to its last end mark, and the rest: so that no search for an end runs to the text's end."""
    cut = text.rfind(_END) + len(_END) if _END in text else 0
    return text[:cut], text[cut:]


def _passage(attributes: str, body: str, place: int) -> Passage:
    named = dict(_ATTRIBUTE.findall(attributes))
    return Passage(named.get("index", str(place)), named.get("title", ""), body.strip())


def _closed(sentence: str) -> str:
    return sentence if sentence[-1] in ".!?:;" else sentence + "."
