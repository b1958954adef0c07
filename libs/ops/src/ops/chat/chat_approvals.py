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
_YES, _NO = ("y", "yes"), ("n", "no")
_TRUE, _FALSE = (*_YES, "true"), (*_NO, "false")
_WIDTH = 2000
_QUESTION = "Run it? y, n, or e to edit its input: "
_ANSWER = "Answer it? y or n: "
_OPENED = "Do you open it? y or n: "

Schema = dict[str, Any]


async def decide(client: AsyncAgentChat, approvals: Sequence[Approval], screen: Screen) -> bool:
    """Ask for each decision; False where the user postpones it by Ctrl-D. Raises AgentChatError."""
    prompt = _Prompt(client, screen)
    for approval in approvals:
        name, given = one_line(approval.tool or approval.id, 64), compact(approval.input or {}, _WIDTH)
        asked = approval.elicitation
        does = "needs your approval." if asked is None else f"asks: {one_line(asked.message, _WIDTH)}"
        screen.say(f"{name} {given} {does}")
        try:
            while not await (prompt.decide(approval) if asked is None else prompt.answer(approval, asked)):
                pass
        except (EOFError, KeyboardInterrupt):
            return False
    return True


class _Prompt:
    """Asks about an approval once. False: the answer is of no use, or the service has not accepted it.

    Its methods raise AgentChatError, EOFError, KeyboardInterrupt.
    """

    def __init__(self, client: AsyncAgentChat, screen: Screen) -> None:
        self._client = client
        self._screen = screen
        self._session: PromptSession[str] = PromptSession()

    async def decide(self, approval: Approval) -> bool:
        answer = await self._ask(_QUESTION)
        changed = None
        if answer in ("e", "edit"):
            text = await self._session.prompt_async("input: ", default=json.dumps(approval.input))
            changed = _read(text)
            if changed is None:
                self._screen.fail("That is no JSON object.")
                return False
        elif answer not in (*_YES, *_NO):
            return False
        return await self._sent(approval, "denied" if answer in _NO else "approved", changed)

    async def answer(self, approval: Approval, asked: Elicitation) -> bool:
        if asked.mode == "url":  # the complete address, before anybody opens it
            self._screen.say(f"It asks you to open {one_line(asked.url or '', _LINK)}")
        answer = await self._ask(_OPENED if asked.mode == "url" else _ANSWER)
        if answer in _NO:
            return await self._sent(approval, "denied", None)
        if answer not in _YES:
            return False
        given = None if asked.mode == "url" else await self._read_form(asked)
        return await self._sent(approval, "approved", given)

    async def _ask(self, question: str) -> str:
        return (await self._session.prompt_async(question)).strip().lower()

    async def _sent(
        self, approval: Approval, decision: Literal["approved", "denied"], given: dict[str, Any] | None
    ) -> bool:
        """An answer that does not fit is reported, and asked for again."""
        try:
            await self._client.decide(approval.id, decision, input=given)
        except InvalidRequest as error:
            if error.status != 400:
                raise
            self._screen.fail(str(error))
            return False
        return True

    async def _read_form(self, asked: Elicitation) -> dict[str, Any]:
        """The values. An empty one is left out, and has its default where there is one."""
        properties: dict[str, Any] = (asked.requested_schema or {}).get("properties", {})
        found: dict[str, Any] = {}
        for name, described in properties.items():
            schema: Schema = described if isinstance(described, dict) else {}
            label = f"{_label_of(name, schema)}: "
            while typed := (await self._session.prompt_async(label, default=_default(schema))).strip():
                try:
                    found[name] = _value_of(typed, schema)
                    break
                except ValueError as error:
                    self._screen.fail(str(error))
        return found


def _read(text: str) -> dict[str, Any] | None:
    try:
        given = json.loads(text)
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


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
