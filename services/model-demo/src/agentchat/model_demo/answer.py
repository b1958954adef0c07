"""From a request to the reply: its complete text, what of it is not sent yet, where it is cut."""

import random
import re
from itertools import cycle, islice

import msgspec
from msgspec.structs import replace

from agentchat.model_demo import shop
from agentchat.model_demo.controls import Controls
from agentchat.model_demo.replies import PlannedReply, PlannedToolCall
from agentchat.model_demo.request import BYTES_A_TOKEN, DemoConversation, ModelRequest, count_tokens

_MOST_BYTES = 4 << 20
_LOAD_DELTAS = 200
_MOST_OVERLAP = 10_000
_SMALL_WORD = re.compile(r"(?<= )[^\W\d_A-Z]+ ")


def reply(request: ModelRequest, talk: DemoConversation, model_id: str, asked: Controls) -> PlannedReply:
    full = _calls(talk, asked) or _behave(talk, model_id, asked)
    full = replace(full, text=_varied(full.text, talk, asked.vary), compacts=request.compacts)
    if asked.deltas is not None and model_id != "demo-load":
        full = replace(full, split=lambda text: _equal(text, asked.deltas or 1))
    if asked.stop is not None:
        refusal = "The demo model was asked to refuse." if asked.stop == "refusal" else None
        full = replace(full, stop_reason=asked.stop, refusal=refusal)
    return _cut(replace(full, text=_unsent(full.text, talk.sent)), request)


def _behave(talk: DemoConversation, model_id: str, asked: Controls) -> PlannedReply:
    match model_id:
        case "demo-load":
            count = asked.deltas or _LOAD_DELTAS
            text = " ".join(f"{index:06d}" for index in range(count)) + "."
            return PlannedReply(text, split=lambda text: [text[at : at + 7] for at in range(0, len(text), 7)])
        case "demo-echo":
            text = talk.question if asked.say is None else asked.say
            repeated = " ".join([text] * min(asked.repeat, 1 + _MOST_BYTES // (len(text) + 1)))
            return PlannedReply(shop.as_ordered(talk, repeated))
        case _:
            return shop.reply(talk)


def _calls(talk: DemoConversation, asked: Controls) -> PlannedReply | None:
    """The calls that `tool` names, `parallel` in one reply, for `rounds` rounds; then nothing more."""
    if not asked.tool or not talk.may_call or talk.rounds >= asked.rounds:
        return None
    names = asked.tool.split(",")
    given = asked.input
    if given is None:
        offered = [tool for tool in talk.tools if tool.name == names[0]]
        given = msgspec.json.encode(shop.forced_input(offered[0], talk) if offered else {}).decode()
    named = islice(cycle(names), max(asked.parallel, len(names)))
    calls = [PlannedToolCall(talk.make_id(index), name, given) for index, name in enumerate(named)]
    return PlannedReply(calls=tuple(calls), stop_reason="tool_use")


def _varied(text: str, talk: DemoConversation, percent: int) -> str:
    """Without so many of its words in small letters. Which ones depends on all that the turn is made of."""
    if not percent:
        return text
    chance = random.Random(talk.key)  # noqa: S311 - it chooses words
    return _SMALL_WORD.sub(lambda word: word[0] if chance.random() * 100 >= percent else "", text)


def _equal(text: str, count: int) -> list[str]:
    """`count` pieces of nearly one length, or one a character where the text is shorter."""
    count = min(count, len(text))
    return [text[len(text) * at // count : len(text) * (at + 1) // count] for at in range(count)]


def _unsent(text: str, sent: str) -> str:
    """The text without what was sent. Where `sent` is not its beginning, it joins on where they overlap."""
    if text.startswith(sent):
        return text[len(sent) :]
    most = min(len(text), len(sent), _MOST_OVERLAP)
    overlap = next((size for size in range(most, 0, -1) if sent.endswith(text[:size])), 0)
    joined = " " if text and not overlap and not sent[-1].isspace() else ""
    return joined + text[overlap:]


def _cut(reply: PlannedReply, request: ModelRequest) -> PlannedReply:
    """The reply as far as the request lets it go: to a stop sequence, then to max_tokens."""
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
