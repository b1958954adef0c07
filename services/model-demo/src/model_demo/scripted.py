"""Replies that do what the controls say, whatever is asked: echo, load, named tools, a stop reason."""

from itertools import cycle, islice

import msgspec

from model_demo import identifiers, pieces
from model_demo.controls import Controls
from model_demo.conversation import Conversation
from model_demo.wire.replies import Call, Reply, Say

_MOST_BYTES = 4 << 20
_BROKEN = '{"broken": '
_LOAD_DELTAS = 200


def echo(conversation: Conversation, controls: Controls) -> Reply:
    """The message, or the text of `say`, `repeat` times with spaces between."""
    text = conversation.question if controls.say is None else controls.say
    times = min(controls.repeat, 1 + _MOST_BYTES // (len(text) + 1))
    return Reply((Say(pieces.few_words(" ".join([text] * times))),))


def load(controls: Controls) -> Reply:
    """`deltas` deltas of seven bytes each, numbered from 000000, so that a lost or doubled one shows."""
    count = controls.deltas or _LOAD_DELTAS
    numbered = [f"{place:06d} " for place in range(count - 1)]
    return Reply((Say((*numbered, f"{count - 1:06d}.")),))


def calls(conversation: Conversation, controls: Controls, default_input: str) -> Reply | None:
    """The calls that `tool` names, `parallel` in one reply, for `rounds` rounds; then nothing more."""
    if not controls.tool or not conversation.may_call or len(conversation.rounds) >= controls.rounds:
        return None
    names = controls.tool.split(",")
    count = max(controls.parallel, len(names))
    input_json = controls.input if controls.input is not None else default_input
    if controls.bad_json:
        input_json = _BROKEN
    made = [
        Call(identifiers.tool_use_id(conversation.key, place), name, input_json)
        for place, name in enumerate(islice(cycle(names), count))
    ]
    return Reply(tuple(made), "tool_use")


def recut(reply: Reply, controls: Controls) -> Reply:
    """The reply with its texts in as many pieces as `deltas` asks for."""
    if controls.deltas is None:
        return reply
    parts = [
        Say(pieces.equal(part.text, controls.deltas)) if isinstance(part, Say) else part
        for part in reply.parts
    ]
    return msgspec.structs.replace(reply, parts=tuple(parts))


def stopped(reply: Reply, controls: Controls) -> Reply:
    """The reply with the stop reason that `stop` asks for; a refusal says so."""
    if controls.stop is None:
        return reply
    refusal = "The demo model was asked to refuse." if controls.stop == "refusal" else None
    return msgspec.structs.replace(reply, stop_reason=controls.stop, refusal=refusal)
