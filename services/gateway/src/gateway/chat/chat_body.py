"""The chat body: nothing unknown, nothing too large, nothing that cannot be stored."""

from itertools import islice
from typing import Annotated, Any

from litestar.openapi.spec import Example
from litestar.params import BodyKwarg

from contracts import http
from contracts.examples import CONVERSATION
from gateway.http import strict_json
from gateway.http.problem_responses import Refusal, printable

MAX_MESSAGE_BYTES = 256 * 1024
MAX_PROMPT_BYTES = 64 * 1024

ChatData = Annotated[
    http.ChatBody,
    BodyKwarg(
        description="At most 1 MiB and 32 levels deep, every name once. "
        "A field that is not known is refused.",
        examples=[
            Example(id="new", summary="A new conversation", value={"message": "Where is my order ORD-1001?"}),
            Example(
                id="more",
                summary="The next message of one",
                value={"message": "And the other one?", "conversation_id": CONVERSATION},
            ),
            Example(
                id="prompt",
                summary="With a system prompt of its own",
                value={"message": "Hello!", "conversation_id": None, "prompt": "Answer in French."},
            ),
        ],
    ),
]
_FIELDS = ("message", "conversation_id", "prompt")
_MOST_NAMED = 20


def decode(_: Any, data: bytes) -> http.ChatBody:
    """The body. Raises Refusal: 400 with the names of the wrong fields, 20 at most."""
    fields = strict_json.members_of(data)
    unknown = (name for name in fields if name not in _FIELDS)
    wrong = [
        http.FieldError(field=printable(name), message="This field is not known.")
        for name in islice(unknown, _MOST_NAMED)
    ]
    texts = {name: _text(fields.get(name), name, wrong) for name in _FIELDS}
    message = texts["message"]
    if message is None and not any(error.field == "message" for error in wrong):
        wrong.append(http.FieldError(field="message", message="This field is required, and is a string."))
    elif message is not None and not message.strip():
        wrong.append(http.FieldError(field="message", message="The message is blank."))
    if wrong:
        wrong.sort(key=lambda error: error.field)
        named = "; ".join(f"{error.field}: {error.message}" for error in wrong[:5])
        raise Refusal("invalid_request", named, fields=wrong[:_MOST_NAMED])
    assert message is not None
    return http.ChatBody(message=message, conversation_id=texts["conversation_id"], prompt=texts["prompt"])


def check_sizes(body: http.ChatBody, max_message_bytes: int | None) -> None:
    """Raises Refusal: 413; `max_message_bytes` is the plan's own bound."""
    check_size("message", body.message, min(MAX_MESSAGE_BYTES, max_message_bytes or MAX_MESSAGE_BYTES))
    check_size("prompt", body.prompt or "", MAX_PROMPT_BYTES)


def _text(value: Any, name: str, wrong: list[http.FieldError]) -> str | None:
    """A field's string with NUL replaced (Postgres cannot hold it); null counts as left out."""
    if value is None:
        return None
    if not isinstance(value, str):
        wrong.append(http.FieldError(field=name, message="This field must be a string."))
        return None
    return value.replace("\x00", "\ufffd")


def check_size(name: str, text: str, limit: int) -> None:
    """Raises Refusal: 413 where `text` has more than `limit` bytes of UTF-8."""
    if len(text) * 4 > limit and len(text.encode()) > limit:
        message = f"It is longer than {limit} bytes of UTF-8."
        raise Refusal(
            "message_too_large", f"{name}: {message}", fields=[http.FieldError(field=name, message=message)]
        )
