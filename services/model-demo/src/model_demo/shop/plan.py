"""What to call next: the tools that a message asks for, with their inputs, and what must be asked back."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from model_demo.conversation import Conversation, text_of
from model_demo.shop import documents, entities, inputs, texts, tools, words
from model_demo.shop.memory import Memory
from model_demo.shop.selection import Chooser, Group
from model_demo.shop.tools import Trait

_MOST_ROUNDS = 4
_MOST_CALLS = 8
_SPEAKS_OF = 1.4
_ASKED_BACK = "Could you tell me?"
_IT = re.compile(r"\b(?:it|its|this one|that one)\b", re.IGNORECASE)
_SAME_AGAIN = re.compile(r"^\s*(?:and\s+)?(?:what|how) about\b", re.IGNORECASE)


class Wanted(msgspec.Struct, frozen=True):
    """A call to make."""

    name: str
    input: dict[str, Any]


class Lack(msgspec.Struct, frozen=True):
    """A tool that is asked for, and the properties that nobody told."""

    trait: Trait
    missing: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True):
    """`calls` to make now; `asked_for`: names of the tools whose results answer the message; `lacks`."""

    calls: tuple[Wanted, ...]
    asked_for: frozenset[str]
    lacks: tuple[Lack, ...]


def make(conversation: Conversation, known: Memory) -> Plan:
    """The plan for the next round of this turn. A tool that was called in this turn is not called again."""
    traits = [tools.trait(tool) for tool in conversation.tools]
    chooser = Chooser(traits)
    question = meant(conversation, known, chooser)
    called = {call.name for round_ in conversation.rounds for call in round_.calls}
    groups = chooser.choose(question)
    # A message that names an id is about that one: what else is needed is looked up before it is guessed.
    near = msgspec.structs.replace(known, ids=()) if entities.ids(question) else known
    calls: list[Wanted] = []
    lacks: list[Lack] = []
    for group in groups:
        name = group.trait.tool.name
        if name in called:
            continue
        filled = inputs.fill(group.trait, group.text, question, near)
        lookup = None if called else _lookup(group, filled.missing, question, traits, known)
        if filled.missing and lookup is None:
            filled = inputs.fill(group.trait, group.text, question, known)
        if not filled.missing:
            calls += [Wanted(name, one) for one in filled.inputs]
        elif lookup is not None:
            calls.append(lookup)
        else:
            lacks.append(Lack(group.trait, filled.missing))
    if len(conversation.rounds) >= _MOST_ROUNDS:
        calls = []
    return Plan(tuple(_once(calls)), frozenset(group.trait.tool.name for group in groups), tuple(lacks))


def meant(conversation: Conversation, known: Memory, chooser: Chooser) -> str:
    """The question; with the one before it, where it answers what was asked back or says "what about".

    "It" is the id that the person named last, where the words are the shop's.
    """
    question = documents.said(conversation.question)
    if _IT.search(question) and not entities.ids(question) and chooser.is_of_the_shop(question):
        named = [entity for text in reversed(known.said) for entity in reversed(entities.ids(text))]
        return " ".join([question, *named[:1]])
    before = _before(conversation)
    if before is None:
        return question
    earlier, reply = before
    if _ASKED_BACK in reply and not chooser.choose(question, ids_alone=False):
        return f"{earlier} {question}"
    if _SAME_AGAIN.match(question):
        return f"{entities.without_ids(earlier)} {_SAME_AGAIN.sub('', question)}"
    return question


def ask(lacks: Sequence[Lack]) -> str:
    """The question that asks for what is missing."""
    wishes = [f"to {_deed(lack.trait)} I need {_list(lack)}" for lack in lacks]
    return f"Gladly: {', and '.join(wishes)}. {_ASKED_BACK}"


def _before(conversation: Conversation) -> tuple[str, str] | None:
    """The user's text and the assistant's last text before the question."""
    at = conversation.question_at
    if at < 2:
        return None
    reply = text_of(conversation.turns[at - 1].blocks)
    for turn in reversed(conversation.turns[: at - 1]):
        if turn.role == "user" and (text := text_of(turn.blocks)):
            return documents.said(text), reply
    return None


def _lookup(
    group: Group,
    missing: Sequence[str],
    question: str,
    traits: Sequence[Trait],
    known: Memory,
) -> Wanted | None:
    """A reading tool that may find the one missing id: by another id at hand, or by a name."""
    if len(missing) != 1:
        return None
    name = missing[0]
    if tools.id_prefix(name, group.trait.properties[name]) is None:
        return None
    noun = words.label(name).rsplit(" ", 1)[0].rstrip("s")
    for trait in traits:
        if trait.deed or name in trait.required or not trait.required:
            continue
        first = trait.required[0]
        by_name = texts.is_query(first) and trait.bag.get(words.stem(noun), 0.0) >= _SPEAKS_OF
        if not by_name and tools.id_prefix(first, trait.properties[first]) is None:
            continue
        filled = inputs.fill(trait, group.text, question, known)
        if not filled.missing and _is_told(str(filled.inputs[0][first]), question, by_name=by_name):
            return Wanted(trait.tool.name, filled.inputs[0])
    return None


def _is_told(value: str, question: str, *, by_name: bool) -> bool:
    """Whether the question itself names what to look up, so that no guess is made from earlier talk."""
    if by_name:
        return "@" in value or value[:1].isupper()
    return value in entities.ids(question)


def _once(calls: Sequence[Wanted]) -> list[Wanted]:
    kept: list[Wanted] = []
    for call in calls:
        if call not in kept:
            kept.append(call)
    return kept[:_MOST_CALLS]


def _deed(trait: Trait) -> str:
    return words.label(tools.title(trait.tool))


def _list(lack: Lack) -> str:
    things = [_described(name, lack.trait.properties[name]) for name in lack.missing]
    return words.enumerated(things)


def _described(name: str, schema: dict[str, Any]) -> str:
    examples, choices = schema.get("examples"), schema.get("enum")
    text = f"the {words.label(name)}"
    if isinstance(choices, list) and choices:
        return f"{text} (one of {', '.join(map(str, choices))})"
    if isinstance(examples, list) and examples:
        shown = examples[0] if not isinstance(examples[0], list) else " and ".join(map(str, examples[0]))
        return f"{text} (such as {shown})"
    return text
