"""Plan the reply to a request: its text and tool calls, and where it is cut."""

import random
import re
from itertools import cycle, islice

import msgspec
from msgspec.structs import replace

from agentchat.model_demo import assistant
from agentchat.model_demo.controls import Controls
from agentchat.model_demo.model_request import BYTES_A_TOKEN, DemoConversation, ModelRequest, count_tokens
from agentchat.model_demo.planned_reply import PlannedReply, PlannedToolCall

_MOST_BYTES = 4 << 20
_LOAD_DELTAS = 200
_MOST_OVERLAP = 10_000
_SMALL_WORD = re.compile(r"(?<= )[^\W\d_A-Z]+ ")


def plan_reply(request: ModelRequest, talk: DemoConversation, model_id: str, asked: Controls) -> PlannedReply:
    """Plan the reply: tool calls by the controls, else a text, without what the client has."""
    full = _plan_calls(talk, asked) or _plan_text(talk, model_id, asked)
    full = replace(full, text=_drop_words(full.text, talk, asked.vary), compacts=request.compacts)
    if asked.think and not request.compacts:
        full = replace(full, thinking=f"The user asks: {talk.question}")
    if asked.deltas is not None and model_id != "demo-load":
        full = replace(full, split=lambda text: _split_equally(text, asked.deltas or 1))
    if asked.stop is not None:
        refusal = "The demo model was asked to refuse." if asked.stop == "refusal" else None
        full = replace(full, stop_reason=asked.stop, refusal=refusal)
    return _cut_to_limits(replace(full, text=_remove_sent(full.text, talk.sent)), request)


def _plan_text(talk: DemoConversation, model_id: str, asked: Controls) -> PlannedReply:
    match model_id:
        case "demo-load":
            count = asked.deltas or _LOAD_DELTAS
            text = " ".join(f"{index:06d}" for index in range(count)) + "."
            return PlannedReply(text, split=lambda text: [text[at : at + 7] for at in range(0, len(text), 7)])
        case "demo-echo":
            text = talk.question if asked.say is None else asked.say
            repeated = " ".join([text] * min(asked.repeat, 1 + _MOST_BYTES // (len(text) + 1)))
            return PlannedReply(assistant.apply_persona(talk, repeated))
        case _:
            return assistant.reply(talk)


def _plan_calls(talk: DemoConversation, asked: Controls) -> PlannedReply | None:
    """Plan the calls of the control `tool`: `parallel` in one reply, for `rounds` rounds."""
    if not asked.tool or not talk.may_call or talk.rounds >= asked.rounds:
        return None
    names = asked.tool.split(",")
    given = asked.input
    if given is None:
        offered = [tool for tool in talk.tools if tool.name == names[0]]
        given = msgspec.json.encode(assistant.fill_forced_input(offered[0], talk) if offered else {}).decode()
    named = islice(cycle(names), max(asked.parallel, len(names)))
    calls = [PlannedToolCall(talk.make_id(index), name, given) for index, name in enumerate(named)]
    return PlannedReply(calls=tuple(calls), stop_reason="tool_use")


def _drop_words(text: str, talk: DemoConversation, percent: int) -> str:
    """Drop `percent` of the lower-case words.

    The turn decides which, so retries drop the same.
    """
    if not percent:
        return text
    chance = random.Random(talk.key)  # noqa: S311 - it chooses words
    return _SMALL_WORD.sub(lambda word: word[0] if chance.random() * 100 >= percent else "", text)


def _split_equally(text: str, count: int) -> list[str]:
    """Split the text into `count` pieces of nearly equal length, at least a character each."""
    count = min(count, len(text))
    return [text[len(text) * at // count : len(text) * (at + 1) // count] for at in range(count)]


def _remove_sent(text: str, sent: str) -> str:
    """Return the text after `sent`.

    If it does not begin with `sent`, continue after the overlap.
    """
    if text.startswith(sent):
        return text[len(sent) :]
    most = min(len(text), len(sent), _MOST_OVERLAP)
    overlap = next((size for size in range(most, 0, -1) if sent.endswith(text[:size])), 0)
    joined = " " if text and not overlap and not sent[-1].isspace() else ""
    return joined + text[overlap:]


def _cut_to_limits(reply: PlannedReply, request: ModelRequest) -> PlannedReply:
    """Cut the reply at a stop sequence, then at max_tokens."""
    found = [(at, stop) for stop in request.stop_sequences if (at := reply.text.find(stop)) >= 0]
    if found:
        at, stop = min(found)
        reply = replace(
            reply, text=reply.text[:at], calls=(), stop_reason="stop_sequence", stop_sequence=stop
        )
    left = request.max_tokens - count_tokens(reply.text)
    if left < 0:
        fitting = reply.text.encode()[: request.max_tokens * BYTES_A_TOKEN].decode(errors="ignore")
        return replace(reply, text=fitting, calls=(), stop_reason="max_tokens")
    for index, call in enumerate(reply.calls):
        left -= count_tokens(call.name + call.input_json)
        if left < 0:
            return replace(reply, calls=reply.calls[:index], stop_reason="max_tokens")
    return reply
