"""Approvals and elicitations on a terminal: whether a tool may run, and the values that it requests."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any, Literal

from prompt_toolkit import PromptSession

from agentchat_client import Approval, AsyncAgentChat, Elicitation, InvalidRequest
from ops.chat.screen import Screen
from ops.output import clean, compact, one_line

_NAME, _LABEL, _LINK = 64, 200, 2048
_TRUE, _FALSE = ("y", "yes", "true"), ("n", "no", "false")
_WIDTH = 2000
_QUESTION = "Run it? y, n, or e to edit its input: "
_ANSWER = "Answer it? y or n: "
_OPENED = "Do you open it? y or n: "

Schema = dict[str, Any]


async def decide(client: AsyncAgentChat, approvals: Sequence[Approval], screen: Screen) -> bool:
    """Ask for each decision; False where the user postpones it by Ctrl-D. Raises AgentChatError."""
    ask: PromptSession[str] = PromptSession()
    for approval in approvals:
        name, given = one_line(approval.tool or approval.id, 64), compact(approval.input or {}, _WIDTH)
        asked = approval.elicitation
        if asked is None:
            screen.say(f"{name} {given} needs your approval.")
        else:
            screen.say(f"{name} {given} asks: {one_line(asked.message, _WIDTH)}")
        decided = _decided if asked is None else _answered
        try:
            while not await decided(client, approval, ask, screen):
                pass
        except (EOFError, KeyboardInterrupt):
            return False
    return True


async def _decided(
    client: AsyncAgentChat, approval: Approval, ask: "PromptSession[str]", screen: Screen
) -> bool:
    answer = (await ask.prompt_async(_QUESTION)).strip().lower()
    decision: Literal["approved", "denied"] = "denied" if answer in ("n", "no") else "approved"
    changed = None
    if answer in ("e", "edit"):
        changed = _read(await ask.prompt_async("input: ", default=json.dumps(approval.input)))
        if changed is None:
            screen.fail("That is no JSON object.")
            return False
    elif answer not in ("y", "yes", "n", "no"):
        return False
    return await _sent(client, approval, decision, changed, screen)


async def _answered(
    client: AsyncAgentChat, approval: Approval, ask: "PromptSession[str]", screen: Screen
) -> bool:
    asked = approval.elicitation
    assert asked is not None
    if asked.mode == "url":  # the complete address, before anybody opens it
        screen.say(f"It asks you to open {one_line(asked.url or '', _LINK)}")
    question = _OPENED if asked.mode == "url" else _ANSWER
    answer = (await ask.prompt_async(question)).strip().lower()
    if answer in ("n", "no"):
        return await _sent(client, approval, "denied", None, screen)
    if answer not in ("y", "yes"):
        return False
    given = None if asked.mode == "url" else await _read_form(asked, ask, screen)
    return await _sent(client, approval, "approved", given, screen)


async def _sent(
    client: AsyncAgentChat,
    approval: Approval,
    decision: Literal["approved", "denied"],
    given: dict[str, Any] | None,
    screen: Screen,
) -> bool:
    """Whether the service has accepted it: an answer that does not fit is reported, and asked for again."""
    try:
        await client.decide(approval.id, decision, input=given)
    except InvalidRequest as error:
        if error.status != 400:
            raise
        screen.fail(str(error))
        return False
    return True


def _read(text: str) -> dict[str, Any] | None:
    try:
        given = json.loads(text)
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


async def _read_form(asked: Elicitation, ask: "PromptSession[str]", screen: Screen) -> dict[str, Any]:
    """The values. An empty one is left out, and has its default where there is one.

    Raises EOFError, KeyboardInterrupt.
    """
    properties: dict[str, Any] = (asked.requested_schema or {}).get("properties", {})
    found: dict[str, Any] = {}
    for name, described in properties.items():
        schema: Schema = described if isinstance(described, dict) else {}
        while True:
            typed = await ask.prompt_async(f"{_label_of(name, schema)}: ", default=_default(schema))
            if not typed.strip():
                break
            try:
                found[name] = _value_of(typed.strip(), schema)
            except ValueError as error:
                screen.fail(str(error))
            else:
                break
    return found


def _label_of(name: str, schema: Schema) -> str:
    """The name of a value, with its choices."""
    label = str(schema.get("title") or schema.get("description") or name)
    choices = [f"{value} ({title})" if title != value else value for value, title in _choices(schema)]
    if schema.get("type") == "boolean":
        choices = ["y", "n"]
    return one_line(label, _NAME) + (f" [{one_line(', '.join(choices), _LABEL)}]" if choices else "")


def _value_of(typed: str, schema: Schema) -> Any:
    """The typed text as a value of the schema. Raises ValueError."""
    match schema.get("type"):
        case "boolean":
            if typed.lower() in (*_TRUE, *_FALSE):
                return typed.lower() in _TRUE
            raise ValueError("That is neither y nor n.")
        case "integer" | "number":
            with contextlib.suppress(ValueError):
                number = json.loads(typed)
                if type(number) in (int, float):
                    return number
            raise ValueError("That is no number.")
        case "array":
            return [part.strip() for part in clean(typed).split(",") if part.strip()]
        case _:
            return typed


def _choices(schema: Schema) -> list[tuple[str, str]]:
    items: Schema = schema["items"] if isinstance(schema.get("items"), dict) else schema
    titled = items.get("oneOf") or items.get("anyOf") or ()
    named = [each for each in titled if isinstance(each, dict) and "const" in each]
    if named:
        return [(str(each["const"]), str(each.get("title", each["const"]))) for each in named]
    return [(str(each), str(each)) for each in items.get("enum", ())]


def _default(schema: Schema) -> str:
    default = schema.get("default")
    match default:
        case None:
            return ""
        case bool():
            return "y" if default else "n"
        case list():
            return ", ".join(map(str, default))
        case _:
            return one_line(str(default), _LABEL)
