"""The body of a run: AG-UI's RunAgentInput."""

from typing import Annotated, Any, Literal

import msgspec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from contracts.http import DecisionBody
from gateway.chat.client_history import MAX_NAME, ClientHistory, Texts
from gateway.chat.run_request import Verdict
from gateway.http.problem_responses import invalid

_NAME = Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_NAME})
_ROLES = ["system", "developer", "user", "assistant", "tool", "activity", "reasoning"]


class AgUiPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message's content."""

    type: str
    text: str = ""


class AgUiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client keeps it. The content of an activity is an object, which nobody reads."""

    role: Annotated[str, Meta(extra_json_schema={"enum": _ROLES})]
    content: str | tuple[AgUiPart, ...] | dict[str, msgspec.Raw] | None = None


class AgUiContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the application has the agent know."""

    description: str
    value: str


class InterruptAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a person says of a tool call, or, with an `input`, to what its tool asks for."""

    approved: bool
    edited_args: Annotated[
        dict[str, Any] | None, Meta(description="In the place of the agent's, complete.")
    ] = None
    input: Annotated[dict[str, Any] | None, Meta(description="What a tool has asked for.")] = None
    reason: Annotated[str | None, Meta(description="Of a refusal, for the agent.")] = None


class ResumeEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An interrupt of the thread that is answered: `resolved`, with a payload, or `cancelled`."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: InterruptAnswer | None = None


class RunAgentInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of a thread: the fields that count."""

    thread_id: Annotated[str, Meta(description="Your own name for the conversation."), _NAME]
    run_id: Annotated[str, Meta(description="As an Idempotency-Key: one run for one id."), _NAME]
    messages: Annotated[
        tuple[AgUiMessage, ...],
        Meta(
            description="The thread; the last message is the user's. Texts only.",
            extra_json_schema={"minItems": 1},
        ),
    ]
    context: tuple[AgUiContext, ...] = ()
    protocol_version: str | None = None
    resume: Annotated[
        tuple[ResumeEntry, ...] | None,
        Meta(description="Answers to all that the thread waits for; then no new message."),
    ] = None


RunData = Annotated[
    RunAgentInput,
    BodyKwarg(
        description="AG-UI's RunAgentInput. Fields that are not named here are passed over.",
        examples=[
            Example(
                id="question",
                summary="A question",
                value={
                    "threadId": "thread-7",
                    "runId": "run-1",
                    "messages": [{"id": "m1", "role": "user", "content": "Where is order ORD-1001?"}],
                    "tools": [],
                    "context": [],
                    "state": {},
                    "forwardedProps": {},
                },
            )
        ],
    ),
]


def check_run_id(run_id: str) -> None:
    """Raises Refusal: 400."""
    if not run_id.strip() or len(run_id) > MAX_NAME:
        raise invalid("runId", f"This has 1 to {MAX_NAME} characters, and not only blanks.")


def history_of(body: RunAgentInput, max_message_bytes: int | None) -> ClientHistory:
    """What the client shows; `max_message_bytes` is the plan's own bound. Raises Refusal: 400, 413."""
    texts = Texts()
    for index, message in enumerate(body.messages):
        _read(message, f"messages[{index}]", texts)
    for each in body.context:
        texts.instruct(f"{each.description}: {each.value}")
    return texts.history_for("messages", max_message_bytes)


def verdicts_of(body: RunAgentInput) -> tuple[Verdict, ...]:
    """What was decided, of what the thread waits for. Raises Refusal: 400."""
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


def _read(message: AgUiMessage, place: str, texts: Texts) -> None:
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


def _text_of(message: AgUiMessage, place: str) -> str:
    match message.content:
        case None:
            return ""
        case str() as text:
            return text
        case tuple() as parts if all(part.type == "text" for part in parts):
            return "\n".join(part.text for part in parts)
        case _:
            raise invalid(f"{place}.content", "Only text can be read here.")
