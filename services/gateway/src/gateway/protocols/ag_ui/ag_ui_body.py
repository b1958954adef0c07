"""The body of a run: AG-UI's RunAgentInput."""

from typing import Any, Literal

import msgspec

from contracts.http import DecisionBody
from gateway.chat.run_request import Verdict
from gateway.chat.shown import MAX_NAME, Shown, Texts, check_name
from gateway.http import strict_json
from gateway.http.problem_responses import invalid


class AgUiPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message's content."""

    type: str
    text: str = ""


class GivenMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client keeps it. The content of an activity is an object, which nobody reads."""

    role: str
    content: str | tuple[AgUiPart, ...] | dict[str, msgspec.Raw] | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the application has the agent know."""

    description: str
    value: str


class InterruptAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a person says of a tool call, or, with an `input`, to what its tool asks for."""

    approved: bool
    edited_args: dict[str, Any] | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None


class ResumeEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An interrupt of the thread that is answered: `resolved`, with what is said, or `cancelled`."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: InterruptAnswer | None = None


class RunInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that count. All others are passed over."""

    thread_id: str
    run_id: str
    messages: tuple[GivenMessage, ...]
    context: tuple[Context, ...] = ()
    protocol_version: str | None = None
    resume: tuple[ResumeEntry, ...] | None = None


class AgUiRequest(msgspec.Struct, frozen=True):
    """What a client shows, or what was decided of what the thread waits for, and what it calls them.

    `is_1_0`: its client knows what came with version 1.0.
    """

    thread_id: str
    run_id: str
    is_1_0: bool
    shown: Shown | None
    verdicts: tuple[Verdict, ...]


_decoder = msgspec.json.Decoder(RunInput)


def parse(data: bytes, max_message_bytes: int | None) -> AgUiRequest:
    """The body, which `strict_json.check` has let pass; `max_message_bytes` is the plan's own bound.

    Raises Refusal.
    """
    body = strict_json.decoded(_decoder, data)
    if not body.run_id.strip() or len(body.run_id) > MAX_NAME:
        raise invalid("runId", f"This has 1 to {MAX_NAME} characters, and not only blanks.")
    return AgUiRequest(
        thread_id=check_name("threadId", body.thread_id),
        run_id=body.run_id,
        is_1_0=body.protocol_version is not None,
        shown=None if body.resume else _shown(body, max_message_bytes),
        verdicts=_verdicts(body),
    )


def _shown(body: RunInput, max_message_bytes: int | None) -> Shown:
    texts = Texts()
    for index, message in enumerate(body.messages):
        _read(message, f"messages[{index}]", texts)
    for each in body.context:
        texts.instruct(f"{each.description}: {each.value}")
    return texts.shown("messages", max_message_bytes)


def _verdicts(body: RunInput) -> tuple[Verdict, ...]:
    if body.resume and body.messages and body.messages[-1].role == "user":
        raise invalid("resume", "First answer what the thread waits for, in a run of its own.")
    return tuple(_verdict(entry, f"resume[{index}]") for index, entry in enumerate(body.resume or ()))


def _verdict(entry: ResumeEntry, place: str) -> Verdict:
    """What is cancelled was not answered: the call is not run."""
    if entry.status == "cancelled":
        return Verdict(
            approval_id=entry.interrupt_id, body=DecisionBody(decision="denied"), is_dismissal=True
        )
    if entry.payload is None:
        raise invalid(f"{place}.payload", "What is resolved has a payload: approved is true or false.")
    answer = entry.payload
    given = answer.input if answer.edited_args is None else answer.edited_args
    decision = DecisionBody(
        decision="approved" if answer.approved else "denied",
        input=given if answer.approved else None,
        reason=answer.reason or None,
    )
    return Verdict(approval_id=entry.interrupt_id, body=decision)


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
