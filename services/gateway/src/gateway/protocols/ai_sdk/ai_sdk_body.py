"""The body of a chat: the messages as `useChat` has them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from contracts.http import DecisionBody
from gateway.chat.run_request import Verdict
from gateway.chat.shown import Shown, Texts, check_name
from gateway.http import strict_json
from gateway.http.problem_responses import invalid

Inputs = dict[str, dict[str, Any]]

_TRIGGERS = ("submit-message", "regenerate-message")


class GivenApproval(msgspec.Struct, frozen=True, kw_only=True):
    """What a person was asked about a tool call, and what they have said."""

    id: str = ""
    approved: bool | None = None
    reason: str | None = None


class AiSdkPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message. Of all types but `text` and `file`, what it says is not for the model."""

    type: str
    text: str = ""
    state: str | None = None
    approval: GivenApproval | None = None

    def verdict(self, inputs: Inputs) -> Verdict | None:
        """What a person has said of the tool call, which has not been sent on yet."""
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


class UIMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client keeps it."""

    role: str
    parts: tuple[AiSdkPart, ...]


class Chat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that count. All others are the application's own, and passed over.

    `approval_inputs` are of those that are approved, by their ids: what a tool asks for, or is to be run with
    in the place of the agent's own.
    """

    messages: tuple[UIMessage, ...]
    id: str | None = None
    trigger: str | None = None
    approval_inputs: Inputs | None = None


class AiSdkRequest(msgspec.Struct, frozen=True):
    """What a client shows, or what was decided in it; `key` is what it calls the chat, if anything."""

    key: str | None
    shown: Shown | None = None
    verdicts: tuple[Verdict, ...] = ()


_decoder = msgspec.json.Decoder(Chat)


def parse(data: bytes, max_message_bytes: int | None) -> AiSdkRequest:
    """The body, which `strict_json.check` has let pass; `max_message_bytes` is the plan's own bound.

    Raises Refusal.
    """
    body = strict_json.decoded(_decoder, data)
    if body.trigger not in (None, *_TRIGGERS):
        raise invalid("trigger", "This must be submit-message or regenerate-message.")
    key = None if body.id is None else check_name("id", body.id)
    if verdicts := _verdicts(body.messages, body.approval_inputs or {}):
        return AiSdkRequest(key, verdicts=verdicts)
    texts = Texts()
    for index, message in enumerate(body.messages):
        _read(message, f"messages[{index}]", texts)
    return AiSdkRequest(key, texts.shown("messages", max_message_bytes))


def _verdicts(messages: Sequence[UIMessage], inputs: Inputs) -> tuple[Verdict, ...]:
    """Those that the last message waits for."""
    if not messages or messages[-1].role != "assistant":
        return ()
    return tuple(verdict for part in messages[-1].parts if (verdict := part.verdict(inputs)) is not None)


def _read(message: UIMessage, place: str, texts: Texts) -> None:
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
