"""Read the functions that a request of OpenAI's APIs brings as tools of the client."""

from collections.abc import Sequence
from typing import Any

from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.client_tools import convert_tool, read_client_tools
from agentchat.gateway.protocols.openai.structured_output import OutputFunction, read_function_name

_CHOICES = 'This must be "auto", "none", "required", or a function of `tools`.'


def read_client_functions(
    request: JsonRequest, tools: Sequence[Any] | None, choice: Any, output: OutputFunction | None
) -> dict[str, Any]:
    """Return the fields of a RunRequest that the tools fill: none if there is an output function.

    Both APIs' forms are read: a function in `function`, or flat. Tools of other types are named in
    X-Ignored-Parameters. Raises Refusal: 400.
    """
    if output is not None:
        return {}
    found, ignored = [], request.context.ignored
    for index, tool in enumerate(tools or ()):
        if not isinstance(tool, dict) or tool.get("type") != "function":
            ignored += ["tools"] if "tools" not in ignored else []
            continue
        function = tool["function"] if isinstance(tool.get("function"), dict) else tool
        named = {"name": "name", "description": "description", "parameters": "input_schema"}
        given = {ours: function[name] for name, ours in named.items() if function.get(name) is not None}
        found.append(convert_tool(given, f"tools[{index}]"))
    chosen, allowed = _read_choice(choice)
    if allowed is not None:
        found = [tool for tool in found if tool.name in allowed]
    return read_client_tools(found, chosen, "tools")


def _read_choice(choice: Any) -> tuple[str | None, set[str] | None]:
    """Return auto, none, required or a name, and the names of the tools that may be called if not all."""
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        rules = choice.get("allowed_tools", choice)
        if isinstance(rules, dict) and isinstance(rules.get("tools"), list):
            names = {read_function_name(each) for each in rules["tools"]} - {None}
            return ("required" if rules.get("mode") == "required" else None), names  # type: ignore[return-value]
    elif isinstance(choice, dict) and (name := read_function_name(choice)) is not None:
        return name, None
    elif choice in (None, "auto", "none", "required"):
        return choice, None
    raise build_field_refusal("tool_choice", _CHOICES)
