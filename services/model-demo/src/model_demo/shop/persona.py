"""What the system prompt makes of the assistant: who it is, and texts that it is told to use."""

import re

import msgspec

from model_demo.shop import documents

_YOU_ARE = re.compile(r"\b(?:You are|Your name is|You're)\s+(?:called\s+|named\s+)?([^\n.;:!?]{2,120})")
_NAMED = re.compile(r"(?:called|named)\s+([A-Z][\w'-]{1,40})|^([A-Z][\w'-]*(?:\s[A-Z][\w'-]*){0,3})")
_QUOTE = r"[\"“]([^\"”\n]{1,400})[\"”]"
_EACH = r"(?:(?:each|every|all|your|the)\s+)*(?:repl(?:y|ies)|answers?|messages?|responses?|it)?"
_BEGIN = re.compile(rf"\b(?:begin|start)\s+{_EACH}\s*(?:with|by saying)\s*:?\s*{_QUOTE}", re.IGNORECASE)
_END = re.compile(rf"\b(?:end|finish|close)\s+{_EACH}\s*(?:with|by saying)\s*:?\s*{_QUOTE}", re.IGNORECASE)
_EXACTLY = re.compile(
    r"\b(?:reply|answer|respond|say)\s+(?:(?:only|always|just|exactly|nothing but|with|the|single|one|words?"
    rf"|phrase|text|following)\s*)+:?\s*(?:{_QUOTE}|([A-Z][A-Z0-9_-]{{1,60}})\b)",
    re.IGNORECASE,
)
_DEFAULT = "the assistant of the demo shop"
QUOTED_LENGTH = 200


class Persona(msgspec.Struct, frozen=True):
    """`identity` completes "I am ..."; `exactly` is the whole reply, where the prompt orders that."""

    identity: str
    name: str | None
    begin: str
    end: str
    exactly: str | None


def read(system: str) -> Persona:
    """The persona of a system prompt; documents in it are no part of the prompt."""
    prompt = documents.without(system)
    match = _YOU_ARE.search(prompt)
    identity = match[1].strip(" ,") if match else _DEFAULT
    named = _NAMED.search(identity)
    return Persona(
        identity=identity,
        name=next(filter(None, named.groups()), None) if named else None,
        begin=_first(_BEGIN, prompt),
        end=_first(_END, prompt),
        exactly=exact_words(_END.sub(" ", _BEGIN.sub(" ", prompt))),
    )


def quote(system: str) -> str:
    """The first 200 characters of the system prompt, as an answer to "what are your instructions?"."""
    prompt = documents.without(system)
    if not prompt:
        return "I was given no instructions."
    more = "…" if len(prompt) > QUOTED_LENGTH else ""
    return f'My instructions begin: "{prompt[:QUOTED_LENGTH]}{more}"'


def exact_words(text: str) -> str | None:
    """What a text orders to be said word for word: quoted, or one word in capitals."""
    for match in _EXACTLY.finditer(text):
        given = match[1] or (match[2] if match[2] and match[2].isupper() else None)
        if given:
            return given
    return None


def dressed(text: str, persona: Persona) -> str:
    """A reply with the beginning and the end that the prompt orders."""
    return " ".join(filter(None, (persona.begin, text, persona.end)))


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
