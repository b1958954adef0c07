"""Fill the variables of a system prompt: `{{current_date}}`, and names from a request's context.

Everything from the first variable on may differ from run to run, so a provider's cache of the prompt that all
conversations share ends before it (`RenderedPrompt.shared`).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.json_values import check_json

MAX_CONTEXT_BYTES = 4096
CURRENT_DATE = "current_date"
VariableName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$(?!\n)")]
Variables = Annotated[tuple[VariableName, ...], msgspec.Meta(max_length=32)]
TimeZone = Annotated[str, msgspec.Meta(max_length=64)]

_VARIABLE = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")


class RenderedPrompt(msgspec.Struct, frozen=True):
    """A prompt with its values. Its first `shared` characters are the same in all runs; None: all of it."""

    text: str
    shared: int | None = None


def check_variables(prompt: str, variables: Sequence[str], time_zone: str) -> None:
    """Check an agent's variables before they are saved.

    Raises:
        Invalid: With the field, for a variable of the prompt that is not declared, or an unknown time zone.
    """
    if CURRENT_DATE in variables:
        raise Invalid("variables", f"must not name {CURRENT_DATE}, which is built in")
    unknown = set(_VARIABLE.findall(prompt)) - {*variables, CURRENT_DATE}
    if unknown:
        raise Invalid("system_prompt", f"has {{{{{min(unknown)}}}}}, which is not in variables")
    if time_zone not in available_timezones():
        raise Invalid("time_zone", "must be a name of the IANA time zone database, such as Europe/Berlin")


def check_context(context: Mapping[str, Any], field: str = "context") -> None:
    """Check the context of a request. Raises Invalid, with the path of what is wrong."""
    check_json(context, field)
    if len(msgspec.json.encode(context)) > MAX_CONTEXT_BYTES:
        raise Invalid(field, f"is larger than {MAX_CONTEXT_BYTES // 1024} KiB of JSON")


def list_missing_variables(variables: Sequence[str], context: Mapping[str, Any] | None) -> list[str]:
    """List the declared variables that a request's context has no value for."""
    given = context or {}
    return [name for name in variables if given.get(name) is None]


def render_prompt(
    prompt: str, variables: Sequence[str], time_zone: str, context: Mapping[str, Any] | None, at: str
) -> RenderedPrompt:
    """Replace the variables of a prompt by their values; the date is that of the time `at`.

    A variable without a value, and one that is not declared, stays as it is.
    """
    if "{{" not in prompt:
        return RenderedPrompt(prompt)
    values = {
        name: _format_value(value)
        for name, value in (context or {}).items()
        if name in variables and value is not None
    }
    values[CURRENT_DATE] = datetime.fromisoformat(at).astimezone(ZoneInfo(time_zone)).date().isoformat()
    first = next((found for found in _VARIABLE.finditer(prompt) if found[1] in values), None)
    if first is None:
        return RenderedPrompt(prompt)
    text = _VARIABLE.sub(lambda found: values.get(found[1], found[0]), prompt)
    return RenderedPrompt(text, first.start())


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
