"""What a conversation has told so far: a name, facts, ids in the order in which they were spoken of."""

import re
from collections.abc import Iterator

import msgspec

from model_demo.conversation import Conversation, result_text, text_of
from model_demo.shop import documents, entities, words
from model_demo.wire.requests import Json, TextBlock, ToolResultBlock, ToolUseBlock

_NAME = re.compile(
    r"\b(?:[Mm]y name is|[Mm]y name's|[Cc]all me|[Tt]his is)\s+([A-Z][\w'-]{0,40}(?:\s[A-Z][\w'-]{1,40})?)"
    r"|\bI(?:'m| am)\s+([A-Z][a-z'-]{1,40})\b(?!\w)"
)
_FACT = re.compile(
    r"\b(my|the|our)\s+([a-z][\w' -]{1,60}?)\s+(?:is|are|was)\s+([^\n.!?]{1,200})", re.IGNORECASE
)
_REMEMBER = re.compile(r"\bremember(?:\s+that)?\s*:?\s+([^\n.!?]{2,200})", re.IGNORECASE)
_QUESTION_WORDS = ("what", "who", "where", "which", "when", "how", "is", "was", "are", "do", "does")


class Memory(msgspec.Struct, frozen=True):
    """`ids`: everything spoken of before the question, latest first; `found`: what this turn's tools gave."""

    name: str | None
    facts: dict[str, str]
    remembered: tuple[str, ...]
    ids: tuple[str, ...]
    found: tuple[str, ...]
    found_fields: dict[str, str]
    said: tuple[str, ...]

    def last_id(self, prefix: str) -> str | None:
        """The id of a kind that was spoken of last."""
        return next((entity for entity in self.ids if entities.prefix(entity) == prefix), None)


def remember(conversation: Conversation) -> Memory:
    """Everything that the conversation told, the question included for facts but not for ids."""
    at = conversation.question_at
    said = tuple(
        documents.said(text_of(turn.blocks)) for turn in conversation.turns[: at + 1] if turn.role == "user"
    )
    said = tuple(text for text in said if text)
    found = tuple(result_text(result) for round_ in conversation.rounds for result in round_.results)
    return Memory(
        name=_name(said),
        facts=_facts(said),
        remembered=tuple(match for text in said for match in _REMEMBER.findall(text)),
        ids=_latest_first(_told(conversation, at)),
        found=tuple(dict.fromkeys(entity for text in found for entity in entities.ids(text))),
        found_fields=_fields(found),
        said=said,
    )


def _name(said: tuple[str, ...]) -> str | None:
    names = [next(filter(None, match)) for text in said for match in _NAME.findall(text)]
    return names[-1] if names else None


def _facts(said: tuple[str, ...]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for text in said:
        for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
            first = sentence.strip().partition(" ")[0].lower().rstrip(",")
            if first in _QUESTION_WORDS or sentence.rstrip().endswith("?"):
                continue
            for _, subject, value in _FACT.findall(sentence):
                facts[" ".join(words.stems(subject))] = value.strip()
    return facts


def _told(conversation: Conversation, before: int) -> Iterator[str]:
    for turn in conversation.turns[:before]:
        for block in turn.blocks:
            match block:
                case TextBlock(text=text):
                    yield documents.said(text)
                case ToolUseBlock(input=value):
                    yield msgspec.json.encode(value).decode()[: documents.MOST_READ]
                case ToolResultBlock():
                    yield result_text(block)[: documents.MOST_READ]


def _latest_first(texts: Iterator[str]) -> tuple[str, ...]:
    seen: list[str] = []
    for text in texts:
        seen.extend(reversed(entities.ids(text)))
    return tuple(dict.fromkeys(reversed(seen)))


def _fields(results: tuple[str, ...]) -> dict[str, str]:
    """Field name to the first text found under it in the results: `customer_id` to CUST-001."""
    fields: dict[str, str] = {}
    for text in results:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            continue
        for name, found in _leaves(value):
            fields.setdefault(name, found)
    return fields


def _leaves(value: Json, depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > 8:
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str):
                yield name, inner
            else:
                yield from _leaves(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, depth + 1)
