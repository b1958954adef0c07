"""POST /ai-sdk/v1/agents/{agent}/chat: a chat of `useChat` is sent, its next message comes as chunks."""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from litestar import post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from contracts import wire as json
from contracts.examples import CONVERSATION, TRACE
from contracts.http import DecisionBody
from contracts.ids import reply_id
from conversations.queries import shown_history
from gateway.chat import resume_run
from gateway.chat.admitted_request import AdmittedRequest, within_run_limits
from gateway.chat.client_history import MAX_NAME, ClientHistory, Texts, as_shown, check_name
from gateway.chat.launch_run import RUN_REFUSALS
from gateway.chat.run_request import Reason, RunRequest, Verdict
from gateway.chat.start import start
from gateway.http.problem_responses import invalid
from gateway.openapi.described import described, event_of
from gateway.protocols.agent_address import CONVERSATION_ID, SECURITY, check_agent, has_key
from gateway.protocols.ai_sdk import wire
from gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from gateway.runs.event_stream import EventStream

Inputs = dict[str, dict[str, Any]]

_TRIGGERS = ("submit-message", "regenerate-message")


class GivenApproval(msgspec.Struct, frozen=True, kw_only=True):
    """What a person was asked about a tool call, and the answer."""

    id: str = ""
    approved: bool | None = None
    reason: Reason = None


class AiSdkPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message. Of all types but `text` and `file`, what it says is not for the model."""

    type: str
    text: str = ""
    state: str | None = None
    approval: GivenApproval | None = None

    def verdict(self, inputs: Inputs) -> Verdict | None:
        """The decision about the tool call, which has not been sent on yet."""
        given = self.approval
        if self.state != "approval-responded" or given is None or given.approved is None:
            return None
        decision: Literal["approved", "denied"] = "approved" if given.approved else "denied"
        body = DecisionBody(
            decision=decision,
            input=inputs.get(given.id) if given.approved else None,
            reason=given.reason or None,
        )
        return Verdict(approval_id=given.id, body=body)


class UiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client keeps it."""

    role: Annotated[str, Meta(extra_json_schema={"enum": ["system", "user", "assistant"]})]
    parts: tuple[AiSdkPart, ...]


class UiChat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A chat: the fields that count. All others are the application's own, and passed over."""

    messages: Annotated[
        tuple[UiMessage, ...],
        Meta(
            description="The chat; the last message is the user's, texts only, or the agent's with what a "
            "person says of its tool calls.",
            extra_json_schema={"minItems": 1},
        ),
    ]
    id: Annotated[
        str | None,
        Meta(
            description="The chat's. Without it each request is a conversation of its own.",
            extra_json_schema={"minLength": 1, "maxLength": MAX_NAME},
        ),
    ] = None
    trigger: Annotated[str | None, Meta(extra_json_schema={"enum": [*_TRIGGERS, None]})] = None
    approval_inputs: Annotated[
        Inputs | None,
        Meta(description="By the ids of approvals: what their tools ask for, or are run with."),
    ] = None


ChatData = Annotated[
    UiChat,
    BodyKwarg(
        description="As `useChat` sends it. Fields that are not named here are passed over.",
        examples=[
            Example(
                id="question",
                summary="A question",
                value={
                    "id": "chat-7",
                    "trigger": "submit-message",
                    "messages": [
                        {
                            "id": "m1",
                            "role": "user",
                            "parts": [{"type": "text", "text": "Where is my order ORD-1001?"}],
                        }
                    ],
                },
            )
        ],
    ),
]


def name_of(body: UiChat) -> str | None:
    """What the client calls the chat, if anything. Raises Refusal: 400, also for the trigger."""
    if body.trigger not in (None, *_TRIGGERS):
        raise invalid("trigger", "This must be submit-message or regenerate-message.")
    return None if body.id is None else check_name("id", body.id)


def history_of(body: UiChat, max_message_bytes: int | None) -> ClientHistory:
    """What the client shows; `max_message_bytes` is the plan's own bound. Raises Refusal: 400, 413."""
    texts = Texts()
    for index, message in enumerate(body.messages):
        _read(message, f"messages[{index}]", texts)
    return texts.history_for("messages", max_message_bytes)


def verdicts_of(body: UiChat) -> tuple[Verdict, ...]:
    """Those that the last message waits for."""
    if not body.messages or body.messages[-1].role != "assistant":
        return ()
    inputs, parts = body.approval_inputs or {}, body.messages[-1].parts
    return tuple(verdict for part in parts if (verdict := part.verdict(inputs)) is not None)


def _read(message: UiMessage, place: str, texts: Texts) -> None:
    """What our tools did is in the conversation, or, of another one, is left out."""
    if any(part.type == "file" for part in message.parts):
        raise invalid(f"{place}.parts", "Only text can be read here, not files.")
    said = [part.text for part in message.parts if part.type == "text"]
    match message.role:
        case "system":
            texts.instruct("\n".join(said))
        case "user":
            texts.say("\n".join(said))
        case "assistant":
            texts.answer("".join(said))
        case _:
            raise invalid(f"{place}.role", "This must be system, user or assistant.")


VERSION = (b"x-vercel-ai-ui-message-stream", b"v1")
STREAM_HEADERS = {
    **CONVERSATION_ID,
    "X-Vercel-Ai-Ui-Message-Stream": {"schema": {"const": "v1"}, "description": "The form of the stream."},
}
CONTENT = {"text/event-stream": event_of(*wire.CHUNKS)}
_METADATA = {"conversationId": CONVERSATION, "traceId": TRACE}
_EXAMPLE = (
    wire.Start(
        message_id=reply_id(TRACE), message_metadata={"conversationId": CONVERSATION, "traceId": TRACE}
    ),
    wire.StartStep(),
    wire.TextStart(id="1"),
    wire.TextDelta(id="1", delta="It has shipped."),
    wire.TextEnd(id="1"),
    wire.FinishStep(),
    wire.Finish(finish_reason="stop", message_metadata={"usage": {"totalTokens": 469}}),
)
EXAMPLE = b"".join(map(json.encode_sse, _EXAMPLE)).decode()


async def _run_request(request: AdmittedRequest, body: UiChat) -> RunRequest:
    """Under the chat's id its conversation is the one whose texts are those shown; without one, none is.

    What was decided in the last message is of a run that waits, whatever else is shown.

    Raises Refusal, DatabaseUnavailable.
    """
    account_id, limit = request.auth.account_id, request.auth.plan.max_message_bytes
    name, verdicts = name_of(body), verdicts_of(body)
    asked = partial(RunRequest, form="ai_sdk", agent_id=request.agent_id, streamed=True)
    if verdicts:
        return asked(verdicts=verdicts)
    given = await request.in_turn(partial(history_of, body, limit))
    requested = asked(outputs=True, unlisted=name is None)
    if name is None:
        return await as_shown(request, requested, given, None, None)
    hash_of = partial(shown_history.named_hash_of, account_id, request.agent_id, name)
    return await as_shown(request, requested, given, name, hash_of)


@post(
    "/ai-sdk/v1/agents/{agent:str}/chat",
    status_code=200,
    media_type="text/event-stream",
    operation_id="chatWithUi",
    summary="Send a chat, get its next message as a UI message stream.",
    description="For `useChat`. See docs/integrate/ai-sdk.md for what is ignored and what is refused.",
    response_description="The message is saved, and these are the chunks of its reply. The last is `[DONE]`, "
    "after `finish`; or an `error`.",
    request_class=AdmittedRequest,
    guards=[has_key, within_run_limits],
    before_request=check_agent,
    security=SECURITY,
    tags=["ai-sdk"],
)
@described(
    *RUN_REFUSALS,
    *resume_run.REFUSALS,
    content=CONTENT,
    headers=STREAM_HEADERS,
    examples={"text": EXAMPLE},
)
async def chat(request: AdmittedRequest, data: ChatData) -> EventStream:
    started = await start(request, await _run_request(request, data))
    claim, run = started.claim, started.run
    request.exchange.headers += (VERSION, (b"x-conversation-id", claim.conversation_id.encode()))
    chunks = AiSdkChunks(claim.trace_id, claim.conversation_id, started.after_pause)
    return EventStream(run, lambda: chunks.encode(run.take()))
