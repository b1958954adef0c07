"""The shop assistant's decisions: what to call, what to say. Always the same for the same conversation."""

import msgspec

from model_demo import identifiers, pieces
from model_demo.conversation import Conversation, result_text
from model_demo.shop import (
    documents,
    entities,
    inputs,
    instances,
    memory,
    persona,
    plan,
    smalltalk,
    tools,
    wording,
    words,
)
from model_demo.shop.memory import Memory
from model_demo.shop.plan import Plan, Wanted
from model_demo.wire.replies import Call, Reply, Say
from model_demo.wire.requests import Tool, ToolUseBlock

_CLOSINGS = (
    "Is there anything else I can do for you?",
    "Shall I look up anything else?",
    "Let me know if you need more.",
)


def reply(conversation: Conversation) -> Reply:
    """What the assistant does next in the conversation."""
    known = memory.remember(conversation)
    if forced := _forced(conversation):
        return _calling(conversation, forced, "")
    small = _small_talk(conversation, known)
    planned = plan.make(conversation, known) if conversation.tools and small is None else _NOTHING
    if planned.calls and conversation.may_call:
        return _calling(
            conversation, _bounded(conversation, planned.calls), _preamble(conversation, planned, known)
        )
    who = persona.read(conversation.system)
    text = who.exactly or persona.dressed(small or _text(conversation, planned, known), who)
    return _saying(_structured(conversation, text) if conversation.schema is not None else text)


_NOTHING = Plan((), frozenset(), ())


def _forced(conversation: Conversation) -> list[Wanted]:
    """The call that tool_choice demands: the named tool, or the one that the message speaks for most."""
    choice = conversation.tool_choice
    if choice.type == "tool":
        tool = next(tool for tool in conversation.tools if tool.name == choice.name)
        return [Wanted(tool.name, inputs.forced(tool, conversation))]
    if choice.type != "any":
        return []
    wanted = plan.make(conversation, memory.remember(conversation))
    if wanted.calls:
        return _bounded(conversation, wanted.calls)
    lacking = [lack.trait.tool for lack in wanted.lacks]
    tool = (lacking or list(conversation.tools))[0]
    return [Wanted(tool.name, inputs.forced(tool, conversation))]


def _bounded(conversation: Conversation, calls: tuple[Wanted, ...]) -> list[Wanted]:
    return list(calls[:1] if conversation.tool_choice.disable_parallel_tool_use else calls)


def _calling(conversation: Conversation, calls: list[Wanted], preamble: str) -> Reply:
    """A reply that calls tools. The preamble ends its paragraph, as the next round's text follows it bare."""
    made = [
        Call(
            identifiers.tool_use_id(conversation.key, place),
            call.name,
            msgspec.json.encode(call.input).decode(),
        )
        for place, call in enumerate(calls)
    ]
    said = (Say(pieces.few_words(preamble + "\n\n")),) if preamble else ()
    return Reply((*said, *made), "tool_use")


def _preamble(conversation: Conversation, planned: Plan, known: Memory) -> str:
    if conversation.schema is not None:
        return ""
    deeds = {tool.name for tool in conversation.tools if tools.trait(tool).deed}
    verb = "take care of" if any(call.name in deeds for call in planned.calls) else "look up"
    shown = list(dict.fromkeys(entity for call in planned.calls for entity in entities.ids(str(call.input))))
    task = f"{verb} {words.enumerated(shown) if shown else 'that'}".replace("look up that", "look that up")
    if conversation.rounds:
        return f"One moment, I will also {task}."
    hello = f"Hello {known.name}! " if known.name and known.name in conversation.question else ""
    return f"{hello}Let me {task} for you."


def _saying(text: str) -> Reply:
    return Reply((Say(pieces.few_words(text)),) if text else ())


def _small_talk(conversation: Conversation, known: Memory) -> str | None:
    if conversation.rounds:
        return None
    return smalltalk.answer(_talk(conversation, known))


def _text(conversation: Conversation, planned: Plan, known: Memory) -> str:
    """The answer from results, from documents, or from the talk so far."""
    if conversation.rounds:
        return _from_results(conversation, planned)
    question = documents.said(conversation.question)
    passages = documents.given(conversation)
    if passages and (found := documents.answer(question, passages)):
        return found
    if planned.lacks:
        return plan.ask(planned.lacks)
    if planned.calls:
        return "I would have to look that up, and must not use a tool for it now."
    talk = _talk(conversation, known)
    if said := smalltalk.introduction(talk) or smalltalk.noted(talk):
        return said
    if passages:
        return "The documents that I was given do not say anything about that."
    return smalltalk.lost(talk)


def _from_results(conversation: Conversation, planned: Plan) -> str:
    """Every result that answers the message, each under its tool's title where there are several."""
    found = [(call, result) for round_ in conversation.rounds for call, result in round_.pairs()]
    meant = [(call, result) for call, result in found if call.name in planned.asked_for] or found
    offered = {tool.name: tool for tool in conversation.tools}
    parts: list[str] = []
    for call, result in meant:
        text = wording.result(result_text(result), is_error=result.is_error)
        parts.append(f"{_heading(call, offered.get(call.name))}\n\n{text}" if len(meant) > 1 else text)
    if planned.lacks:
        parts.append(plan.ask(planned.lacks))
    else:
        parts.append(_CLOSINGS[sum(conversation.key) % len(_CLOSINGS)])
    return "\n\n".join(parts)


def _heading(call: ToolUseBlock, tool: Tool | None) -> str:
    title = tools.title(tool) if tool else words.label(call.name)
    shown = entities.ids(str(call.input))
    return f"### {title[:1].upper()}{title[1:]}{': ' if shown else ''}{', '.join(shown)}"


def _structured(conversation: Conversation, text: str) -> str:
    schema = conversation.schema or {}
    return msgspec.json.encode(instances.Maker(schema, text).make(schema)).decode()


def _talk(conversation: Conversation, known: Memory) -> smalltalk.Talk:
    return smalltalk.Talk(
        documents.said(conversation.question),
        conversation.system,
        persona.read(conversation.system),
        known,
        conversation.tools,
    )
