"""Passages given with a request: `<document index="1" title="...">...</document>`, answered from with [1]."""

import re
from collections import Counter
from typing import NamedTuple

from agentchat.model_demo.request import DemoConversation
from agentchat.model_demo.shop import words

_END = "</document>"
_DOCUMENT = re.compile(r"<document index=\"(\d{1,9})\" title=\"([^\"]{0,500})\">(.*?)</document>", re.DOTALL)
_WRAPPER = re.compile(r"</?documents?\b[^>]{0,500}>")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[^\n]+")
_WRAPPED = re.compile(r"(?<=[\w,;])\n(?=[a-z(])")
"""A line's end within a sentence."""
_MOST_SENTENCES, _NEARLY_BEST = 3, 0.6
MOST_READ = 8000
"""Characters of a message."""


class Sentence(NamedTuple):
    """A sentence of a passage: its words and those of the passage's title."""

    source: str
    text: str
    stems: set[str]
    title: set[str]


def without(text: str) -> str:
    """The text without the documents in it: what the person wrote."""
    # Only up to the last end mark, so that no search for one runs to the text's end again and again.
    closed, end, rest = text.rpartition(_END)
    return _WRAPPER.sub("", _DOCUMENT.sub("", closed + end) + rest).strip()


def plain_text(text: str) -> str:
    """What the person wrote, as far as the assistant reads: without documents, its first 8,000 characters."""
    return re.sub(r"[^\S\n]{2,}", " ", without(text)[:MOST_READ])


def split_passages(conversation: DemoConversation) -> list[Sentence]:
    """Split the passages of the system prompt, then those of the asking turn, into sentences."""
    asking = conversation.messages[conversation.question_at].text
    return [
        Sentence(index, text, set(words.stems(text)), set(words.stems(title)))
        for index, title, body in _DOCUMENT.findall(f"{conversation.system}\n{asking}")
        for text in (found.strip(" \t\r\n#*->") for found in _SENTENCE.findall(_WRAPPED.sub(" ", body)))
        if text
    ]


def answer(question: str, sentences: list[Sentence]) -> str | None:
    """The sentences that speak of what is asked, each with its source; nothing where none does."""
    asked = set(words.stems(question))
    enough = min(2, len(asked))
    spread = Counter(stem for sentence in sentences for stem in sentence.stems)
    scored: list[tuple[float, int]] = []
    for order, sentence in enumerate(sentences):
        hits, title = asked & sentence.stems, asked & sentence.title
        if hits and len(hits | title) >= enough:
            scored.append((-len(hits) - sum(1 / spread[stem] for stem in hits) - len(title) / 2, order))
    best = sorted(scored)[:_MOST_SENTENCES]
    chosen = sorted(order for score, order in best if score <= best[0][0] * _NEARLY_BEST)
    return (
        " ".join(f"{_closed(sentences[order].text)} [{sentences[order].source}]" for order in chosen) or None
    )


def _closed(text: str) -> str:
    return text if text[-1] in ".!?:;" else f"{text}."
