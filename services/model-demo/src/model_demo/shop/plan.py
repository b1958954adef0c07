"""What to call next: the tools that a message asks for, with their inputs, and what must be asked back."""

import re
from typing import Any, NamedTuple

from model_demo.request_facts import Conversation, text_of
from model_demo.shop import filled_inputs, intents, json_schemas, words
from model_demo.shop.memory import Memory
from model_demo.wire.requests import Schema, Tool

_MOST_ROUNDS, _MOST_CALLS = 4, 8
_ASKED_BACK = "Could you tell me?"
_IT = re.compile(r"\b(?:it|its|this one|that one)\b", re.IGNORECASE)
_SAME_AGAIN = re.compile(r"^\s*(?:and\s+)?(?:what|how) about\b", re.IGNORECASE)
_A_NAME = re.compile(r"(?<=\w )[A-Z][a-z]+(?: [A-Z][a-z]+)?|\S+@\S+")


class PlannedCall(NamedTuple):
    """A call to make."""

    tool: Tool
    input: dict[str, Any]


class Plan(NamedTuple):
    """`calls` to make now; `asked_for`: names of the tools whose results answer the message; `lacks`: those
    of them for whose inputs something was not said, with the names of it."""

    calls: list[PlannedCall]
    asked_for: set[str]
    lacks: list[tuple[Tool, list[str]]]


def make(conversation: Conversation, known: Memory) -> Plan:
    """The plan for the next round of this turn. A tool that was called in this turn is not called again."""
    offered = conversation.tools
    question = _meant(conversation, known)
    called = {call.name for pairs in conversation.rounds for call, _ in pairs}
    wishes = intents.wishes(question, offered)
    calls: list[PlannedCall] = []
    lacks: list[tuple[Tool, list[str]]] = []
    for tool, text in wishes:
        if tool.name in called:
            continue
        lookup = None if called else _lookup(tool, text, offered)
        filled = filled_inputs.fill(tool, text, question, known)
        if lookup is not None:
            calls.append(lookup)
        elif filled.missing:
            lacks.append((tool, filled.missing))
        else:
            calls += [PlannedCall(tool, one) for one in filled.inputs]
    once = [call for index, call in enumerate(calls) if call not in calls[:index]][:_MOST_CALLS]
    enough = len(conversation.rounds) >= _MOST_ROUNDS
    return Plan([] if enough else once, {tool.name for tool, _ in wishes}, lacks)


def ask(lacks: list[tuple[Tool, list[str]]]) -> str:
    """The question that asks for what is missing."""
    wishes = [
        f"to {words.label(tool.name)} I need"
        f" {words.listed([_described(name, tool.input_schema['properties'][name]) for name in missing])}"
        for tool, missing in lacks
    ]
    return f"Gladly: {', and '.join(wishes)}. {_ASKED_BACK}"


def _described(name: str, schema: Schema) -> str:
    shown = ", ".join(map(str, json_schemas.choices(schema) or schema.get("examples", [])))
    return f"the {words.label(name)}" + (f" (such as {shown})" if shown else "")


def _meant(conversation: Conversation, known: Memory) -> str:
    """The question; with the one before it, where it answers what was asked back or says "what about".

    "It" is the id that the person named last.
    """
    earlier, question = ["", "", *map(intents.with_ids, known.said)][-2:]
    at = conversation.question_at
    asked_back = at and _ASKED_BACK in text_of(conversation.turns[at - 1].blocks)
    if asked_back and not intents.wishes(words.ID.sub(" ", question), conversation.tools):
        return f"{earlier} {question}"
    if _SAME_AGAIN.match(question):
        return f"{words.ID.sub(' ', earlier)} {_SAME_AGAIN.sub('', question)}"
    if _IT.search(question) and not words.ids(question):
        named = [entity for text in reversed(known.said) for entity in reversed(words.ids(text))]
        return _IT.sub(named[0], question, count=1) if named else question
    return question


def _lookup(tool: Tool, said: str, offered: list[Tool]) -> PlannedCall | None:
    """What finds a customer whose id is not said: the order that is named, or a name."""
    named, name = words.ids(said), _A_NAME.search(said)
    wanted = tool.input_schema.get("required", ())
    if "customer_id" not in wanted or any(one.startswith("CUST-") for one in named):
        return None
    by_name = {other.name: other for other in offered}
    orders = [one for one in named if one.startswith("ORD-")]
    if orders and "get_order" in by_name:
        return PlannedCall(by_name["get_order"], {"order_id": orders[0]})
    if name and "find_customer" in by_name:
        return PlannedCall(by_name["find_customer"], {"query": name[0]})
    return None
