"""The shop assistant's decisions: what to call, what to say. Always the same for the same conversation."""

from typing import Any, NamedTuple

import msgspec

from agentchat.model_demo.replies import PlannedReply, PlannedToolCall
from agentchat.model_demo.request import DemoConversation, Tool
from agentchat.model_demo.shop import documents, rules, schema_values, talk, wording, words
from agentchat.model_demo.shop.talk import Memory

_CLOSING = "Is there anything else I can do for you?"
_MOST_ROUNDS, _MOST_CALLS = 4, 8
_ASKED_BACK = "Could you tell me?"


class _Call(NamedTuple):
    tool: Tool
    input: dict[str, Any]


class _Plan(NamedTuple):
    """`calls` to make now; `wished`: names of the tools whose results answer the message; `lacking`: wishes
    without an id that they need."""

    calls: list[_Call]
    wished: set[str]
    lacking: list[rules.Wish]


def forced_input(tool: Tool, conversation: DemoConversation) -> dict[str, Any]:
    """Return an input for a tool that must be called: what the message gives, else the least that fits."""
    return rules.fill_input(tool, documents.plain_text(conversation.question), _known_ids(conversation))


def as_ordered(conversation: DemoConversation, text: str) -> str:
    """Return the text with what the system prompt orders of each reply."""
    return talk.persona(conversation.system).says(text)


def reply(conversation: DemoConversation) -> PlannedReply:
    """Return the assistant's next reply: tool calls, or a text."""
    choice = conversation.tool_choice
    if choice.type == "tool":
        return _force(conversation, choice.name)
    is_free = choice.type != "any"
    persona, known = talk.persona(conversation.system), talk.remember(conversation)
    question = documents.plain_text(conversation.question)
    small = None
    if is_free and not conversation.results:
        small = talk.answer(question, persona, known, conversation.tools)
    plan = _Plan([], set(), []) if small else _plan(conversation)
    if plan.calls and conversation.may_call:
        calls = plan.calls[:1] if choice.disable_parallel_tool_use else plan.calls
        spoken = is_free and conversation.schema is None
        return _calling(conversation, calls, _preamble(conversation, plan.calls, known) if spoken else "")
    if not is_free:
        return _force(conversation, [*(wish.tool for wish in plan.lacking), *conversation.tools][0].name)
    text = persona.says(small or _text(conversation, plan, question, known))
    if (schema := conversation.schema) is not None:
        value = schema_values.smallest(schema, schema, text) or {"answer": text}
        text = msgspec.json.encode(value).decode()
    return PlannedReply(text)


def _plan(conversation: DemoConversation) -> _Plan:
    """Plan the next round of this turn. A tool that was called in this turn is not called again."""
    called = {call.name for call, _ in conversation.results}
    wishes = rules.find_wishes(_meant(conversation), conversation.tools, _known_ids(conversation))
    new = [wish for wish in wishes if wish.tool.name not in called]
    calls = [_Call(wish.tool, each) for wish in new if not wish.missing for each in wish.inputs]
    enough = conversation.rounds >= _MOST_ROUNDS
    wished = {wish.tool.name for wish in wishes}
    return _Plan([] if enough else calls[:_MOST_CALLS], wished, [wish for wish in new if wish.missing])


def _meant(conversation: DemoConversation) -> str:
    """Return the question; after a question of the assistant's together with the message before that one."""
    question, at = documents.plain_text(conversation.question), conversation.question_at
    if at >= 2 and conversation.messages[at - 1].text.endswith(_ASKED_BACK):
        return f"{documents.plain_text(conversation.messages[at - 2].text)} {question}"
    return question


def _known_ids(conversation: DemoConversation) -> list[str]:
    """Return the ids of this turn's results, then those that the person has named, the last one first."""
    results = "\n".join(result.text[: documents.MOST_READ] for _, result in conversation.results)
    named = words.ids("\n".join(map(documents.plain_text, conversation.earlier)))
    return list(dict.fromkeys([*words.ids(results), *reversed(named)]))


def _force(conversation: DemoConversation, name: str) -> PlannedReply:
    tool = next(tool for tool in conversation.tools if tool.name == name)
    return _calling(conversation, [_Call(tool, forced_input(tool, conversation))], "")


def _calling(conversation: DemoConversation, calls: list[_Call], preamble: str) -> PlannedReply:
    """Return a reply that calls tools. The preamble ends its paragraph: the next text follows it bare."""
    made = [
        PlannedToolCall(conversation.make_id(index), call.tool.name, msgspec.json.encode(call.input).decode())
        for index, call in enumerate(calls)
    ]
    return PlannedReply(f"{preamble}\n\n" if preamble else "", tuple(made), stop_reason="tool_use")


def _preamble(conversation: DemoConversation, calls: list[_Call], known: Memory) -> str:
    named = words.listed(list(dict.fromkeys(each for call in calls for each in words.ids(str(call.input)))))
    if any(rules.changes_something(call.tool) for call in calls):
        task = f"take care of {named or 'that'}"
    else:
        task = f"look up {named}" if named else "look that up"
    if conversation.results:
        return f"One moment, I will also {task}."
    greets = known.name and known.name in conversation.question
    return f"{f'Hello {known.name}! ' if greets else ''}Let me {task} for you."


def _text(conversation: DemoConversation, plan: _Plan, question: str, known: Memory) -> str:
    """Answer from results, from documents, or from the talk so far."""
    if conversation.results:
        return _worded_results(conversation, plan)
    passages = documents.split_passages(conversation)
    if found := documents.answer(question, passages):
        return found
    if plan.lacking:
        return _ask_back(plan.lacking)
    if plan.calls:
        return "I would have to look that up, and must not use a tool for it now."
    if noted := talk.note_fact(question, known):
        return noted
    if passages:
        return "The documents that I was given do not say anything about that."
    return talk.give_up(question, conversation.tools)


def _worded_results(conversation: DemoConversation, plan: _Plan) -> str:
    """Word every result that answers the message, each under its tool's title where there are several."""
    meant = [pair for pair in conversation.results if pair[0].name in plan.wished] or conversation.results
    parts: list[str] = []
    for call, result in meant:
        text = wording.word_result(result.text, is_error=result.is_error)
        title = words.label(call.name).capitalize()
        heading = ": ".join(filter(None, [title, ", ".join(words.ids(str(call.input)))]))
        parts.append(f"### {heading}\n\n{text}" if len(meant) > 1 else text)
    return "\n\n".join([*parts, _ask_back(plan.lacking) if plan.lacking else _CLOSING])


def _ask_back(lacking: list[rules.Wish]) -> str:
    needs = [
        f"to {words.label(wish.tool.name)} I need the {words.listed([*map(words.label, wish.missing)])}"
        for wish in lacking
    ]
    return f"Gladly: {', and '.join(needs)}. {_ASKED_BACK}"
