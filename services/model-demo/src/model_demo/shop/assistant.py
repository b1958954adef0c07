"""The shop assistant's decisions: what to call, what to say. Always the same for the same conversation."""

from typing import Any

import msgspec

from model_demo.request_facts import Conversation
from model_demo.shop import (
    documents,
    filled_inputs,
    intents,
    json_schemas,
    memory,
    plan,
    talk,
    wording,
    words,
)
from model_demo.shop.plan import Plan, PlannedCall
from model_demo.wire.replies import Call, Reply
from model_demo.wire.requests import Tool

_CLOSING = "Is there anything else I can do for you?"


def forced_input(tool: Tool, conversation: Conversation) -> dict[str, Any]:
    """An input for a tool that must be called: what the message gives, for the rest the least that fits."""
    known, root = memory.remember(conversation), tool.input_schema
    question = known.said[-1] if known.said else ""
    given = filled_inputs.fill(tool, question, question, known).inputs[0]
    return json_schemas.completed(given, json_schemas.simple(root, root), root, question)


def reply(conversation: Conversation) -> Reply:
    """What the assistant does next in the conversation."""
    return _Turn(conversation).reply()


class _Turn:
    """One turn of the assistant, with all that it is decided from."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._known = memory.remember(conversation)
        self._persona = talk.persona(conversation.system)
        self._question = documents.said(conversation.question)

    def reply(self) -> Reply:
        asked, choice = self._conversation, self._conversation.tool_choice
        if choice.type == "tool":
            return self._forced(str(choice.name))
        is_free = choice.type != "any"
        small = self._small_talk() if is_free and not asked.rounds else None
        planned = Plan([], set(), []) if small else plan.make(asked, self._known)
        if planned.calls and asked.may_call:
            calls = planned.calls[:1] if choice.disable_parallel_tool_use else planned.calls
            return self._calling(calls, self._preamble(planned.calls) if is_free else "")
        if not is_free:
            return self._forced([*(tool for tool, _ in planned.lacks), *asked.tools][0].name)
        text = self._persona.says(small or self._text(planned))
        if (schema := asked.schema) is not None:
            value = json_schemas.smallest(schema, schema, text) or {"answer": text}
            text = msgspec.json.encode(value).decode()
        return Reply(text)

    def _forced(self, name: str) -> Reply:
        tool = next(tool for tool in self._conversation.tools if tool.name == name)
        return self._calling([PlannedCall(tool, forced_input(tool, self._conversation))], "")

    def _calling(self, calls: list[PlannedCall], preamble: str) -> Reply:
        """A reply that calls tools. The preamble ends its paragraph: the next text follows it bare."""
        made = [
            Call(self._conversation.id(index), one.name, msgspec.json.encode(given).decode())
            for index, (one, given) in enumerate(calls)
        ]
        return Reply(f"{preamble}\n\n" if preamble else "", tuple(made), stop_reason="tool_use")

    def _preamble(self, calls: list[PlannedCall]) -> str:
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

    def _text(self, planned: Plan) -> str:
        """The answer from results, from documents, or from the talk so far."""
        if self._conversation.rounds:
            return self._results(planned)
        passages = documents.given(self._conversation)
        if found := documents.answer(self._question, passages):
            return found
        if planned.lacks:
            return plan.ask(planned.lacks)
        if planned.calls:
            return "I would have to look that up, and must not use a tool for it now."
        if noted := talk.noted(self._question, self._known):
            return noted
        if passages:
            return "The documents that I was given do not say anything about that."
        return talk.lost(self._question, self._conversation.tools)

    def _results(self, planned: Plan) -> str:
        """Every result that answers the message, each under its tool's title where there are several."""
        found = [pair for pairs in self._conversation.rounds for pair in pairs]
        meant = [pair for pair in found if pair[0].name in planned.asked_for] or found
        parts: list[str] = []
        for call, result in meant:
            text = wording.result("\n".join(result.texts()), is_error=result.is_error)
            title = words.label(call.name).capitalize()
            heading = ": ".join(filter(None, [title, ", ".join(words.ids(str(call.input)))]))
            parts.append(f"### {heading}\n\n{text}" if len(meant) > 1 else text)
        return "\n\n".join([*parts, plan.ask(planned.lacks) if planned.lacks else _CLOSING])
