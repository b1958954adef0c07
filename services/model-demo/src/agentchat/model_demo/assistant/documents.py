"""Answer from `<document index="1" title="...">` passages, with citations such as [1]."""

import re
from collections import Counter
from typing import NamedTuple

from agentchat.model_demo.assistant import words
from agentchat.model_demo.model_request import DemoConversation

_END = "</document>"
_DOCUMENT = re.compile(r"<document index=\"(\d{1,9})\" title=\"([^\"]{0,500})\">(.*?)</document>", re.DOTALL)
_WRAPPER = re.compile(r"</?documents?\b[^>]{0,500}>")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[^\n]+")
_WRAPPED = re.compile(r"(?<=[\w,;])\n(?=[a-z(])")
"""A line break within a sentence."""
_MOST_SENTENCES, _NEARLY_BEST = 3, 0.6
MOST_READ = 8000
"""The characters of a message that are read."""


class Sentence(NamedTuple):
    """A sentence of a passage: its words and those of the passage's title."""

    source: str
    text: str
    stems: set[str]
    title: set[str]


def remove_documents(text: str) -> str:
    """Return the text that the person wrote, without documents."""
    # Only up to the last end mark, so that no search for one runs to the text's end again and again.
    closed, end, rest = text.rpartition(_END)
    return _WRAPPER.sub("", _DOCUMENT.sub("", closed + end) + rest).strip()


def extract_text(text: str) -> str:
    """Return the first 8,000 characters that the person wrote, without documents."""
    return re.sub(r"[^\S\n]{2,}", " ", remove_documents(text)[:MOST_READ])


def split_passages(conversation: DemoConversation) -> list[Sentence]:
    """Split the passages of the system prompt, then those of the asking turn, into sentences."""
    asking = conversation.messages[conversation.question_at].text
    return [
        Sentence(index, text, set(words.find_stems(text)), set(words.find_stems(title)))
        for index, title, body in _DOCUMENT.findall(f"{conversation.system}\n{asking}")
        for text in (found.strip(" \t\r\n#*->") for found in _SENTENCE.findall(_WRAPPED.sub(" ", body)))
        if text
    ]


def answer(question: str, sentences: list[Sentence]) -> str | None:
    """Return the sentences that match the question, with their sources; None without a match."""
    asked = set(words.find_stems(question))
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
        " ".join(f"{_close_sentence(sentences[order].text)} [{sentences[order].source}]" for order in chosen)
        or None
    )


def _close_sentence(text: str) -> str:
    return text if text[-1] in ".!?:;" else f"{text}."
