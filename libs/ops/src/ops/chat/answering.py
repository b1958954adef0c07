"""What a tool asks of a person, answered on a terminal: a value after the other, or a link."""

import json
from typing import Any

from prompt_toolkit import PromptSession

from agentchat_client import Elicitation
from ops.chat.safe import clean, one_line
from ops.chat.screen import Screen

_NAME, _LABEL, _LINK = 64, 200, 2048
_TRUE, _FALSE = ("y", "yes", "true"), ("n", "no", "false")

Schema = dict[str, Any]


class Unread(Exception):  # noqa: N818 - an outcome
    """What was typed is no value of the kind that is asked for; the text says so."""


def show_link(asked: Elicitation, screen: Screen) -> None:
    """The whole address, before anybody opens it."""
    screen.say(f"It asks you to open {one_line(asked.url or '', _LINK)}")


async def read_form(asked: Elicitation, ask: "PromptSession[str]", screen: Screen) -> dict[str, Any]:
    """The values. What is left empty is left out, and has its default where there is one.

    Raises EOFError, KeyboardInterrupt.
    """
    properties: dict[str, Any] = (asked.requested_schema or {}).get("properties", {})
    found: dict[str, Any] = {}
    for name, described in properties.items():
        schema: Schema = described if isinstance(described, dict) else {}
        while True:
            typed = await ask.prompt_async(f"{label_of(name, schema)}: ", default=_default(schema))
            if not typed.strip():
                break
            try:
                found[name] = value_of(typed.strip(), schema)
            except Unread as unread:
                screen.fail(str(unread))
            else:
                break
    return found


def label_of(name: str, schema: Schema) -> str:
    """What is asked for, with what it may be."""
    said = str(schema.get("title") or schema.get("description") or name)
    choices = [f"{value} ({title})" if title != value else value for value, title in _choices(schema)]
    if schema.get("type") == "boolean":
        choices = ["y", "n"]
    return one_line(said, _NAME) + (f" [{one_line(', '.join(choices), _LABEL)}]" if choices else "")


def value_of(typed: str, schema: Schema) -> Any:
    """What was typed, as a value of the schema. Raises Unread."""
    match schema.get("type"):
        case "boolean":
            if typed.lower() in (*_TRUE, *_FALSE):
                return typed.lower() in _TRUE
            raise Unread("That is neither y nor n.")
        case "integer" | "number":
            try:
                number = json.loads(typed)
            except ValueError:
                number = None
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise Unread("That is no number.")
            return number
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
