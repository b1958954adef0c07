"""The body of a run: AG-UI's RunAgentInput."""

import msgspec

from gateway.chat.shown import MAX_NAME, Shown, Texts, check_name
from gateway.http import strict_json
from gateway.http.problems import invalid


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message's content."""

    type: str
    text: str = ""


class GivenMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client keeps it. The content of an activity is an object, which nobody reads."""

    role: str
    content: str | tuple[Part, ...] | dict[str, msgspec.Raw] | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the application has the agent know."""

    description: str
    value: str


class RunInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that count. All others are passed over."""

    thread_id: str
    run_id: str
    messages: tuple[GivenMessage, ...]
    context: tuple[Context, ...] = ()
    protocol_version: str | None = None
    resume: tuple[msgspec.Raw, ...] | None = None


class Asked(msgspec.Struct, frozen=True):
    """What a client shows, and what it calls it. `is_1_0`: its client knows what came with version 1.0."""

    thread_id: str
    run_id: str
    is_1_0: bool
    shown: Shown


_decoder = msgspec.json.Decoder(RunInput)


def parse(data: bytes, max_message_bytes: int | None) -> Asked:
    """The body, which `strict_json.check` has let pass; `max_message_bytes` is the plan's own bound.

    Raises Refusal.
    """
    body = strict_json.decoded(_decoder, data)
    if not body.run_id.strip() or len(body.run_id) > MAX_NAME:
        raise invalid("runId", f"This has 1 to {MAX_NAME} characters, and not only blanks.")
    if body.resume:
        raise invalid("resume", "No run of this thread waits for a decision.")
    texts = Texts()
    for index, message in enumerate(body.messages):
        _read(message, f"messages[{index}]", texts)
    for each in body.context:
        texts.instruct(f"{each.description}: {each.value}")
    return Asked(
        thread_id=check_name("threadId", body.thread_id),
        run_id=body.run_id,
        is_1_0=body.protocol_version is not None,
        shown=texts.shown("messages", max_message_bytes),
    )


def _read(message: GivenMessage, place: str, texts: Texts) -> None:
    """What our tools did is in the conversation, or, of another one, is left out."""
    match message.role:
        case "system" | "developer":
            texts.instruct(_text_of(message, place))
        case "user":
            texts.say(_text_of(message, place))
        case "assistant":
            texts.answer(_text_of(message, place))
        case "tool":
            texts.answer("")
        case "activity" | "reasoning":
            pass
        case _:
            raise invalid(f"{place}.role", "This is no role of AG-UI.")


def _text_of(message: GivenMessage, place: str) -> str:
    match message.content:
        case None:
            return ""
        case str() as text:
            return text
        case tuple() as parts if all(part.type == "text" for part in parts):
            return "\n".join(part.text for part in parts)
        case _:
            raise invalid(f"{place}.content", "Only text can be read here.")
