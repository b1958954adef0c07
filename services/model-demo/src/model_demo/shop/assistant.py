"""The shop assistant's decisions: what to call, what to say. Always the same for the same conversation."""

import re
from typing import Any, NamedTuple

import msgspec

from model_demo.request_facts import ConversationFacts, text_of
from model_demo.shop import (
    documents,
    filled_inputs,
    intents,
    json_schemas,
    memory,
    talk,
    wording,
    words,
)
from model_demo.shop.memory import Memory
from model_demo.wire.replies import PlannedReply, PlannedToolCall
from model_demo.wire.requests import ClientTool, Schema

_CLOSING = "Is there anything else I can do for you?"
_MOST_ROUNDS, _MOST_CALLS = 4, 8
_ASKED_BACK = "Could you tell me?"
_IT = re.compile(r"\b(?:it|its|this one|that one)\b", re.IGNORECASE)
_SAME_AGAIN = re.compile(r"^\s*(?:and\s+)?(?:what|how) about\b", re.IGNORECASE)
_A_NAME = re.compile(r"(?<=\w )[A-Z][a-z]+(?: [A-Z][a-z]+)?|\S+@\S+")


class _PlannedCall(NamedTuple):
    """A call to make."""

    tool: ClientTool
    input: dict[str, Any]


class _Plan(NamedTuple):
    """`calls` to make now; `asked_for`: names of the tools whose results answer the message; `lacks`: those
    of them for whose inputs something was not written, with the names of it."""

    calls: list[_PlannedCall]
    asked_for: set[str]
    lacks: list[tuple[ClientTool, list[str]]]


def forced_input(tool: ClientTool, conversation: ConversationFacts) -> dict[str, Any]:
    """An input for a tool that must be called: what the message gives, for the rest the least that fits."""
    known, root = memory.remember(conversation), tool.input_schema
    question = known.texts[-1] if known.texts else ""
    given = filled_inputs.fill(tool, question, question, known).inputs[0]
    return json_schemas.completed(given, json_schemas.simple(root, root), root, question)


def as_ordered(conversation: ConversationFacts, text: str) -> str:
    """The text with what the system prompt orders of each reply."""
    return talk.persona(conversation.system).says(text)


def reply(conversation: ConversationFacts) -> PlannedReply:
    return _Turn(conversation).reply()


class _Turn:
    """One turn of the assistant, with all that it is decided from."""

    def __init__(self, conversation: ConversationFacts) -> None:
        self._conversation = conversation
        self._known = memory.remember(conversation)
        self._persona = talk.persona(conversation.system)
        self._question = documents.plain_text(conversation.question)

    def reply(self) -> PlannedReply:
        asked, choice = self._conversation, self._conversation.tool_choice
        if choice.type == "tool":
            return self._forced(str(choice.name))
        is_free = choice.type != "any"
        small = self._small_talk() if is_free and not asked.rounds else None
        planned = _Plan([], set(), []) if small else _plan(asked, self._known)
        if planned.calls and asked.may_call:
            calls = planned.calls[:1] if choice.disable_parallel_tool_use else planned.calls
            return self._calling(calls, self._preamble(planned.calls) if is_free else "")
        if not is_free:
            return self._forced([*(tool for tool, _ in planned.lacks), *asked.tools][0].name)
        text = self._persona.says(small or self._text(planned))
        if (schema := asked.schema) is not None:
            value = json_schemas.smallest(schema, schema, text) or {"answer": text}
            text = msgspec.json.encode(value).decode()
        return PlannedReply(text)

    def _forced(self, name: str) -> PlannedReply:
        tool = next(tool for tool in self._conversation.tools if tool.name == name)
        return self._calling([_PlannedCall(tool, forced_input(tool, self._conversation))], "")

    def _calling(self, calls: list[_PlannedCall], preamble: str) -> PlannedReply:
        """A reply that calls tools. The preamble ends its paragraph: the next text follows it bare."""
        made = [
            PlannedToolCall(self._conversation.id(index), one.name, msgspec.json.encode(given).decode())
            for index, (one, given) in enumerate(calls)
        ]
        return PlannedReply(f"{preamble}\n\n" if preamble else "", tuple(made), stop_reason="tool_use")

    def _preamble(self, calls: list[_PlannedCall]) -> str:
        if self._conversation.schema is not None:
            return ""
        shown = list(dict.fromkeys(entity for call in calls for entity in words.ids(str(call.input))))
        things = words.listed(shown) if shown else "that"
        orders = any(intents.is_order(call.tool) for call in calls)
        task = f"take care of {things}" if orders else f"look up {things}" if shown else "look that up"
        if self._conversation.rounds:
            return f"One moment, I will also {task}."
        name = self._known.name
        return f"{f'Hello {name}! ' if name and name in self._question else ''}Let me {task} for you."

    def _small_talk(self) -> str | None:
        return talk.answer(self._question, self._persona, self._known, self._conversation.tools)

    def _text(self, planned: _Plan) -> str:
        """The answer from results, from documents, or from the talk so far."""
        if self._conversation.rounds:
            return self._results(planned)
        passages = documents.given(self._conversation)
        if found := documents.answer(self._question, passages):
            return found
        if planned.lacks:
            return _ask_back(planned.lacks)
        if planned.calls:
            return "I would have to look that up, and must not use a tool for it now."
        if noted := talk.noted(self._question, self._known):
            return noted
        if passages:
            return "The documents that I was given do not say anything about that."
        return talk.lost(self._question, self._conversation.tools)

    def _results(self, planned: _Plan) -> str:
        """Every result that answers the message, each under its tool's title where there are several."""
        found = [pair for pairs in self._conversation.rounds for pair in pairs]
        meant = [pair for pair in found if pair[0].name in planned.asked_for] or found
        parts: list[str] = []
        for call, result in meant:
            text = wording.result("\n".join(result.texts()), is_error=result.is_error)
            title = words.label(call.name).capitalize()
            heading = ": ".join(filter(None, [title, ", ".join(words.ids(str(call.input)))]))
            parts.append(f"### {heading}\n\n{text}" if len(meant) > 1 else text)
        return "\n\n".join([*parts, _ask_back(planned.lacks) if planned.lacks else _CLOSING])


def _plan(conversation: ConversationFacts, known: Memory) -> _Plan:
    """The plan for the next round of this turn. A tool that was called in this turn is not called again."""
    offered = conversation.tools
    question = _meant(conversation, known)
    called = {call.name for pairs in conversation.rounds for call, _ in pairs}
    found = intents.intents_of(question, offered)
    calls: list[_PlannedCall] = []
    lacks: list[tuple[ClientTool, list[str]]] = []
    for tool, text in found:
        if tool.name in called:
            continue
        lookup = None if called else _lookup(tool, text, offered)
        filled = filled_inputs.fill(tool, text, question, known)
        if lookup is not None:
            calls.append(lookup)
        elif filled.missing:
            lacks.append((tool, filled.missing))
        else:
            calls += [_PlannedCall(tool, one) for one in filled.inputs]
    once = [call for index, call in enumerate(calls) if call not in calls[:index]][:_MOST_CALLS]
    enough = len(conversation.rounds) >= _MOST_ROUNDS
    return _Plan([] if enough else once, {tool.name for tool, _ in found}, lacks)


def _ask_back(lacks: list[tuple[ClientTool, list[str]]]) -> str:
    needs = [
        f"to {words.label(tool.name)} I need"
        f" {words.listed([_described(name, tool.input_schema['properties'][name]) for name in missing])}"
        for tool, missing in lacks
    ]
    return f"Gladly: {', and '.join(needs)}. {_ASKED_BACK}"


def _described(name: str, schema: Schema) -> str:
    shown = ", ".join(map(str, json_schemas.choices(schema) or schema.get("examples", [])))
    return f"the {words.label(name)}" + (f" (such as {shown})" if shown else "")


def _meant(conversation: ConversationFacts, known: Memory) -> str:
    """The question; with the one before it, where it answers what was asked back or says "what about".

    "It" is the id that the person named last.
    """
    earlier, question = ["", "", *map(intents.with_ids, known.texts)][-2:]
    at = conversation.question_at
    asked_back = at and _ASKED_BACK in text_of(conversation.turns[at - 1].blocks)
    if asked_back and not intents.intents_of(words.ID.sub(" ", question), conversation.tools):
        return f"{earlier} {question}"
    if _SAME_AGAIN.match(question):
        return f"{words.ID.sub(' ', earlier)} {_SAME_AGAIN.sub('', question)}"
    if _IT.search(question) and not words.ids(question):
        named = [entity for text in reversed(known.texts) for entity in reversed(words.ids(text))]
        return _IT.sub(named[0], question, count=1) if named else question
    return question


def _lookup(tool: ClientTool, text: str, offered: list[ClientTool]) -> _PlannedCall | None:
    """What finds a customer whose id is not written: the order that is named, or a name."""
    named, name = words.ids(text), _A_NAME.search(text)
    wanted = tool.input_schema.get("required", ())
    if "customer_id" not in wanted or any(one.startswith("CUST-") for one in named):
        return None
    by_name = {other.name: other for other in offered}
    orders = [one for one in named if one.startswith("ORD-")]
    if orders and "get_order" in by_name:
        return _PlannedCall(by_name["get_order"], {"order_id": orders[0]})
    if name and "find_customer" in by_name:
        return _PlannedCall(by_name["find_customer"], {"query": name[0]})
    return None
