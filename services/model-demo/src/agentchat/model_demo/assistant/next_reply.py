"""The shop assistant's decisions: what to call, what to say.

Always the same for the same conversation.
"""

from typing import Any, NamedTuple

import msgspec

from agentchat.model_demo.assistant import (
    documents,
    result_text,
    schema_values,
    small_talk,
    tool_rules,
    words,
)
from agentchat.model_demo.assistant.small_talk import Memory
from agentchat.model_demo.model_request import DemoConversation, Tool
from agentchat.model_demo.planned_reply import PlannedReply, PlannedToolCall

_CLOSING = "Is there anything else I can do for you?"
_MOST_ROUNDS, _MOST_CALLS = 4, 8
_ASKED_BACK = "Could you tell me?"


class _Call(NamedTuple):
    tool: Tool
    input: dict[str, Any]


class _Plan(NamedTuple):
    """The calls to make now, the tools whose results answer the message, and wishes without a needed id."""

    calls: list[_Call]
    wished: set[str]
    lacking: list[tool_rules.Wish]


def fill_forced_input(tool: Tool, conversation: DemoConversation) -> dict[str, Any]:
    """Return an input for a forced tool: values of the message, else the smallest valid ones."""
    return tool_rules.fill_input(
        tool, documents.extract_text(conversation.question), _list_known_ids(conversation)
    )


def apply_persona(conversation: DemoConversation, text: str) -> str:
    """Apply what the system prompt orders for each reply."""
    return small_talk.read_persona(conversation.system).speak(text)


def reply(conversation: DemoConversation) -> PlannedReply:
    """Return the assistant's next reply: tool calls, or a text."""
    choice = conversation.tool_choice
    if choice.type == "tool":
        return _force(conversation, choice.name)
    is_free = choice.type != "any"
    persona, known = small_talk.read_persona(conversation.system), small_talk.remember(conversation)
    question = documents.extract_text(conversation.question)
    small = None
    if is_free and not conversation.results:
        small = small_talk.answer(question, persona, known, conversation.tools)
    plan = _Plan([], set(), []) if small else _plan(conversation)
    if plan.calls and conversation.may_call:
        calls = plan.calls[:1] if choice.disable_parallel_tool_use else plan.calls
        spoken = is_free and conversation.schema is None
        return _build_call_reply(
            conversation, calls, _write_preamble(conversation, plan.calls, known) if spoken else ""
        )
    if not is_free:
        return _force(conversation, [*(wish.tool for wish in plan.lacking), *conversation.tools][0].name)
    text = persona.speak(small or _write_text(conversation, plan, question, known))
    if (schema := conversation.schema) is not None:
        value = schema_values.build_smallest(schema, schema, text) or {"answer": text}
        text = msgspec.json.encode(value).decode()
    return PlannedReply(text)


def _plan(conversation: DemoConversation) -> _Plan:
    """Plan the next round. A tool that was called in this turn is not called again."""
    called = {call.name for call, _ in conversation.results}
    wishes = tool_rules.find_wishes(
        _combine_with_earlier(conversation), conversation.tools, _list_known_ids(conversation)
    )
    new = [wish for wish in wishes if wish.tool.name not in called]
    calls = [_Call(wish.tool, each) for wish in new if not wish.missing for each in wish.inputs]
    enough = conversation.rounds >= _MOST_ROUNDS
    wished = {wish.tool.name for wish in wishes}
    return _Plan([] if enough else calls[:_MOST_CALLS], wished, [wish for wish in new if wish.missing])


def _combine_with_earlier(conversation: DemoConversation) -> str:
    """Return the question, with the message before it if the assistant asked back."""
    question, at = documents.extract_text(conversation.question), conversation.question_at
    if at >= 2 and conversation.messages[at - 1].text.endswith(_ASKED_BACK):
        return f"{documents.extract_text(conversation.messages[at - 2].text)} {question}"
    return question


def _list_known_ids(conversation: DemoConversation) -> list[str]:
    """Return the ids in this turn's results, then those of the person, the latest first."""
    results = "\n".join(result.text[: documents.MOST_READ] for _, result in conversation.results)
    named = words.find_ids("\n".join(map(documents.extract_text, conversation.earlier)))
    return list(dict.fromkeys([*words.find_ids(results), *reversed(named)]))


def _force(conversation: DemoConversation, name: str) -> PlannedReply:
    tool = next(tool for tool in conversation.tools if tool.name == name)
    return _build_call_reply(conversation, [_Call(tool, fill_forced_input(tool, conversation))], "")


def _build_call_reply(conversation: DemoConversation, calls: list[_Call], preamble: str) -> PlannedReply:
    """Return a reply with tool calls. The preamble is a paragraph of its own."""
    made = [
        PlannedToolCall(conversation.make_id(index), call.tool.name, msgspec.json.encode(call.input).decode())
        for index, call in enumerate(calls)
    ]
    return PlannedReply(f"{preamble}\n\n" if preamble else "", tuple(made), stop_reason="tool_use")


def _write_preamble(conversation: DemoConversation, calls: list[_Call], known: Memory) -> str:
    named = words.join(
        list(dict.fromkeys(each for call in calls for each in words.find_ids(str(call.input))))
    )
    if any(tool_rules.is_changing(call.tool) for call in calls):
        task = f"take care of {named or 'that'}"
    else:
        task = f"look up {named}" if named else "look that up"
    if conversation.results:
        return f"One moment, I will also {task}."
    greets = known.name and known.name in conversation.question
    return f"{f'Hello {known.name}! ' if greets else ''}Let me {task} for you."


def _describe_files(conversation: DemoConversation) -> str:
    """Return a sentence on the images and PDFs that the model sees; "" for none."""
    seen = [f"{file.media_type} of {file.size:,} bytes" for file in conversation.files]
    return f"I see {words.join(seen)}." if seen else ""


def _write_text(conversation: DemoConversation, plan: _Plan, question: str, known: Memory) -> str:
    """Answer from results, from files, from documents, or from the talk so far."""
    seen = _describe_files(conversation)
    if conversation.results:
        return "\n\n".join(filter(None, [seen, _write_results(conversation, plan)]))
    if seen:
        return seen
    passages = documents.split_passages(conversation)
    if found := documents.answer(question, passages):
        return found
    if plan.lacking:
        return _ask_back(plan.lacking)
    if plan.calls:
        return "I would have to look that up, and must not use a tool for it now."
    if noted := small_talk.note_fact(question, known):
        return noted
    if passages:
        return "The documents that I was given do not say anything about that."
    return small_talk.give_up(question, conversation.tools)


def _write_results(conversation: DemoConversation, plan: _Plan) -> str:
    """Write the results that answer the message; several get a heading each."""
    meant = [pair for pair in conversation.results if pair[0].name in plan.wished] or conversation.results
    parts: list[str] = []
    for call, result in meant:
        text = result_text.write_result(result.text, is_error=result.is_error)
        title = words.to_label(call.name).capitalize()
        heading = ": ".join(filter(None, [title, ", ".join(words.find_ids(str(call.input)))]))
        parts.append(f"### {heading}\n\n{text}" if len(meant) > 1 else text)
    return "\n\n".join([*parts, _ask_back(plan.lacking) if plan.lacking else _CLOSING])


def _ask_back(lacking: list[tool_rules.Wish]) -> str:
    needs = [
        f"to {words.to_label(wish.tool.name)} I need the {words.join([*map(words.to_label, wish.missing)])}"
        for wish in lacking
    ]
    return f"Gladly: {', and '.join(needs)}. {_ASKED_BACK}"
