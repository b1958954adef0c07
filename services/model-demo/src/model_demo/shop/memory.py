"""What a person wrote in a conversation so far: facts, and ids in the order in which they were spoken of."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from model_demo.request_facts import ConversationFacts, text_of
from model_demo.shop import documents, words
from model_demo.wire.requests import Block, TextBlock, ToolResultBlock, ToolUseBlock

_NAME = re.compile(r"\b(?:[Mm]y name is|[Cc]all me|I'm|I am)\s+([A-Z][\w'-]{0,40}(?:\s[A-Z][\w'-]{1,40})?)\b")
_FACT = re.compile(
    r"\b(?:my|the|our)\s+([a-z][\w' -]{1,60}?)\s+(?:is|are|was)\s+([^\n.!?]{1,200})", re.IGNORECASE
)
_ASKS = re.compile(r"\s*(?:what|who|where|which|when|how|is|are|do|does)\b|.*\?\s*$", re.IGNORECASE)


class Memory(NamedTuple):
    """`facts`: stems of the subject to what was written of it; `name` is one of them.

    `ids`: those of this turn's results, then everything spoken of before the question, latest first.
    `texts`: the person's texts, the question last. `fact_sentences`: the sentences with the facts.
    """

    facts: dict[str, str]
    ids: list[str]
    texts: list[str]
    fact_sentences: list[str]

    @property
    def name(self) -> str | None:
        return self.facts.get("name")


def remember(conversation: ConversationFacts) -> Memory:
    """Everything that was written, the question included for facts but not for ids."""
    at = conversation.question_at
    texts = [*(text_of(turn.blocks) for turn in conversation.turns[:at:2]), conversation.summary]
    written = [documents.plain_text(text) for text in (*texts, conversation.question)]
    before = [block for turn in conversation.turns[:at] for block in turn.blocks]
    results = "\n".join(
        text for pairs in conversation.rounds for _, result in pairs for text in result.texts()
    )
    spoken = [entity for block in before for entity in reversed(words.ids(_read(block)))]
    found = list(dict.fromkeys([*words.ids(results), *reversed(spoken)]))
    facts = dict(fact for text in written for fact in _facts(text))
    sentences = [
        sentence.strip() for text in written for sentence in _sentences(text) if any(_facts(sentence))
    ]
    return Memory(facts, found, [*filter(None, written)], list(dict.fromkeys(sentences)))


def _read(block: Block) -> str:
    match block:
        case TextBlock(text=text):
            return documents.plain_text(text)
        case ToolUseBlock(input=given):
            return str(given)[: documents.MOST_READ]
        case ToolResultBlock():
            return "\n".join(block.texts())[: documents.MOST_READ]
    return ""


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+|\n", text)


def _facts(text: str) -> Iterator[tuple[str, str]]:
    for sentence in _sentences(text):
        if not _ASKS.match(sentence):
            yield from (
                (" ".join(words.stems(subject)), value.strip()) for subject, value in _FACT.findall(sentence)
            )
    yield from (("name", name) for name in _NAME.findall(text))
