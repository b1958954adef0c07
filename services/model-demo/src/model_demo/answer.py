"""From a request to the reply: what is said in full, what of it is not sent yet, where it is cut."""

import msgspec

from model_demo import continuation, controls, conversation, cutting, scripted, shop
from model_demo.controls import Controls, Model
from model_demo.conversation import Conversation
from model_demo.shop import inputs
from model_demo.wire import signatures
from model_demo.wire.replies import Call, Reply, Thought
from model_demo.wire.requests import MessageRequest

_TITLE_LENGTH = 60


class Answer(msgspec.Struct, frozen=True):
    """A reply, and the turn that it answers: `key` is the same for every attempt at that turn."""

    model: Model
    key: bytes
    reply: Reply


def answer(request: MessageRequest) -> Answer:
    """Answer a checked request. Raises ApiError for an unknown model or control."""
    model = controls.parse(request.model)
    split = continuation.split(request.messages)
    talk = conversation.read(request, split)
    reply = _full(talk, model)
    reply = continuation.go_on_from(reply, split.sent)
    if talk.thinking or model.controls.thinking:
        reply = _with_thought(reply, talk, _shown(request))
    reply = cutting.cut(reply, request.stop_sequences, request.max_tokens)
    return Answer(model, talk.key, reply)


def _full(talk: Conversation, model: Model) -> Reply:
    """What the model says to this turn when nothing of it was sent yet."""
    reply = scripted.calls(talk, model.controls, _default_input(talk, model.controls))
    if reply is None:
        reply = _behave(talk, model)
    return scripted.stopped(scripted.recut(reply, model.controls), model.controls)


def _behave(talk: Conversation, model: Model) -> Reply:
    if model.id == "demo-echo":
        return scripted.echo(talk, model.controls)
    if model.id == "demo-load":
        return scripted.load(model.controls)
    return shop.reply(talk)


def _default_input(talk: Conversation, wanted: Controls) -> str:
    """The input of a tool that a control names: pulled out of the message, as the shop assistant does it."""
    first = (wanted.tool or "").partition(",")[0]
    for tool in talk.tools:
        if tool.name == first:
            return msgspec.json.encode(inputs.forced(tool, talk)).decode()
    return "{}"


def _with_thought(reply: Reply, talk: Conversation, shown: bool) -> Reply:
    topic = " ".join(talk.question.split())[:_TITLE_LENGTH]
    calls = [part.name for part in reply.parts if isinstance(part, Call)]
    plan = f"I will call {' and '.join(calls)}." if calls else "I can answer this directly."
    text = f"The message is about: {topic!r}. {plan}"
    thought = Thought(text, signatures.sign(text), shown)
    return msgspec.structs.replace(reply, parts=(thought, *reply.parts))


def _shown(request: MessageRequest) -> bool:
    return request.thinking is None or request.thinking.display != "omitted"
