"""Build and read the form of an agent: labelled fields in sections for the nested parts of its configuration.

Parameters of the model, the knowledge base and the fall-backs have fields of their own. What they cannot hold
is JSON in the section Advanced. A form that is saved unchanged changes nothing.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from litestar.datastructures import FormMultiDict

from agentchat.administration import admin_knowledge
from agentchat.administration.admin_values import Agent, NewAgent
from agentchat.administration.checked_input import convert
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.directory_lists import list_all
from agentchat.console.shared.schema_forms import FormField, RefusedForm, SchemaForm, build_body_schema
from agentchat.contracts.admin_errors import AdminError, Invalid
from agentchat.directory.agent_config import MAX_FALLBACKS
from agentchat.directory.agent_validation import AgentChanges
from agentchat.directory.model_parameters import DEFAULT_PROVIDER, PROVIDERS

_NUMBERS = ("temperature", "max_tokens", "top_p")
"""Parameters with a field of their own."""

_ROWS = range(1, MAX_FALLBACKS + 1)
_ROW = ("provider", "model", "base_url", "on", "provider_key", "parameters")

_SECTIONS: dict[str, tuple[str, ...]] = {
    "Model": (
        *("name", "provider", "model", "base_url", "provider_key", *_NUMBERS),
        *("reasoning", "vision", "max_tool_rounds"),
    ),
    "Instructions": ("system_prompt", "variables", "time_zone"),
    "Knowledge": ("knowledge_base_id", "top_k"),
    **{
        f"Fall-back {row}": tuple(f"fallback_{row}_{name}" for name in _ROW if name != "parameters")
        for row in _ROWS
    },
    "Behaviour": (
        *("on_busy", "on_interruption", "on_tool_server_error", "output_type", "client_tools"),
        *("allow_request_schema", "request_parameters"),
    ),
    "Approvals": ("approvers", "approval_seconds", "on_expiry", "on_new_message"),
    "State": ("disabled", "retention_days"),
    "Advanced": (
        *("output_schema", "compaction", "other_parameters"),
        *(f"fallback_{row}_parameters" for row in _ROWS),
    ),
    "Version": ("note",),
}

_HELP = {
    "name": "Shown in lists, and in the API as the name of the agent.",
    "model": "The name that the provider gives the model.",
    "base_url": "Only for a server of your own or a proxy; blank is the provider's.",
    "provider_key": "Leave blank to keep the current key. Without a key, the service's own is used.",
    "temperature": "Higher is more varied. Blank is the provider's default; some models refuse it.",
    "max_tokens": "The longest reply, in tokens. Blank is the default.",
    "top_p": "Another way to limit variety; set this or the temperature.",
    "reasoning": "With summary, the model thinks first and readers see a summary of what it thinks.",
    "vision": "Whether the model sees images. Blank: known from its name.",
    "max_tool_rounds": "How often a run may call tools before it must answer.",
    "system_prompt": "What the agent is and how it answers. {{name}} stands for a variable.",
    "variables": "Names that the system prompt uses, such as customer_name. Requests give their values.",
    "time_zone": "The time zone of {{current_date}} in the system prompt.",
    "knowledge_base_id": "The agent searches it before each answer.",
    "top_k": "How many passages the agent gets.",
    "on_busy": "What a message does while a run of its conversation is under way.",
    "on_interruption": "What a run does after its worker was lost in the middle of a reply.",
    "on_tool_server_error": "What a run does when a tool server does not answer.",
    "output_type": "The form of replies. For json, give a schema in Advanced.",
    "client_tools": "Whether requests may bring tools that their client runs.",
    "allow_request_schema": "Requests may ask for JSON with a schema of their own.",
    "request_parameters": "Parameters of the model that a request may set.",
    "approvers": "Who decides about tool calls that need approval.",
    "approval_seconds": "How long a call waits for a decision: 3600 is an hour, 604800 a week.",
    "on_expiry": "What the run does when nobody has decided in time.",
    "on_new_message": "What a message does to a run that waits for a decision.",
    "disabled": "A disabled agent answers no requests. This does not create a version.",
    "retention_days": "Days without activity after which conversations are deleted. Blank: the account's.",
    "output_schema": "The JSON Schema of replies, if the output type is json.",
    "compaction": "How a long conversation is summarised. Blank: it fails when it is too long.",
    "other_parameters": "Sent to the provider unchanged, such as stop_sequences or thinking.",
    "note": "Why you change the agent, for the list of versions.",
}
_LABELS = {
    "knowledge_base_id": "Knowledge base",
    "top_k": "Passages",
    "base_url": "Base URL",
    "provider_key": "Provider key",
    "max_tokens": "Longest reply",
    "top_p": "Top p",
    "retention_days": "Retention, days",
    "approval_seconds": "Time to decide, seconds",
}
_EXAMPLES = {"temperature": "0.7", "max_tokens": "1024", "top_p": "0.9", "time_zone": "Europe/Berlin"}
_ROW_HELP = {
    "model": "Tried if the model before it fails. Blank: no fall-back.",
    "on": "The failures after which it is tried.",
    "provider_key": "Leave blank to keep the current key.",
    "parameters": "Blank: those of the agent, if the provider is the same.",
}


class AgentForm(SchemaForm):
    """The form of an agent. `body` is NewAgent or AgentChanges."""

    def __init__(self, body: type[msgspec.Struct], leave_out: Collection[str]) -> None:
        keys = ("provider_key", *(f"fallback_{row}_provider_key" for row in _ROWS))
        super().__init__(
            _build_schema(body), leave_out=leave_out, secrets=keys, blank_is_empty=body is AgentChanges
        )

    def fill_agent(self, agent: Agent | None, refused: RefusedForm | None = None) -> tuple[FormField, ...]:
        """Return the fields filled with the agent, or with the refused form."""
        values = {} if agent is None else flatten_agent(msgspec.to_builtins(agent))
        if refused is not None and isinstance(refused.error, Invalid):
            refused = RefusedForm(refused.given, _place_problem(refused.error, refused.given))
        return self.fill(values, refused)

    def read_changes_of(self, given: FormMultiDict, agent: Agent) -> AgentChanges:
        """Read what differs from the agent. Raises Invalid, Conflict (see `read_changes`)."""
        values = flatten_agent(msgspec.to_builtins(agent))
        changes = self.read_changes(given, values)
        if not changes.get("note"):
            changes.pop("note", None)
        elif len(changes) == 1:
            raise Invalid("note", "is about a change, and nothing else was changed")
        return convert(AgentChanges, nest_changes(changes, values))

    def read_new(self, given: FormMultiDict, account_id: str) -> NewAgent:
        """Read a new agent. Raises Invalid."""
        return convert(NewAgent, nest_changes(self.read(given), {}) | {"account_id": account_id})


def flatten_agent(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's configuration with one value for each field of the form."""
    flat = {name: value for name, value in agent.items() if name not in ("parameters", "fallbacks")}
    others = dict(agent["parameters"])
    for name in _NUMBERS:
        is_number = isinstance(others.get(name), int | float) and not isinstance(others.get(name), bool)
        flat[name] = others.pop(name) if is_number else None
    flat["other_parameters"] = others
    retrieval = agent.get("retrieval") or {}
    flat["knowledge_base_id"], flat["top_k"] = retrieval.get("knowledge_base_id"), retrieval.get("top_k")
    for row in _ROWS:
        found = agent["fallbacks"][row - 1] if row <= len(agent["fallbacks"]) else {}
        for name in _ROW:
            flat[f"fallback_{row}_{name}"] = found.get(name, [] if name == "on" else None)
    return flat


def nest_changes(changes: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed fields of the form as the API has them. Raises Invalid.

    `values` are the present ones of all fields.
    """
    merged, own = {**values, **changes}, {*_NUMBERS, "other_parameters", "knowledge_base_id", "top_k"}
    rows = {f"fallback_{row}_{name}" for row in _ROWS for name in _ROW}
    nested = {name: value for name, value in changes.items() if name not in own | rows}
    if changes.keys() & {*_NUMBERS, "other_parameters"}:
        numbers = {name: merged[name] for name in _NUMBERS if merged.get(name) is not None}
        nested["parameters"] = {**(merged.get("other_parameters") or {}), **numbers}
    if changes.keys() & {"knowledge_base_id", "top_k"}:
        base, passages = merged.get("knowledge_base_id"), merged.get("top_k")
        top_k = {} if passages is None else {"top_k": passages}
        nested["retrieval"] = {"knowledge_base_id": base, **top_k} if base else None
    if changes.keys() & rows:
        nested["fallbacks"] = [each for row in _ROWS if (each := _build_fallback(row, merged, changes))]
    return nested


def _build_fallback(row: int, merged: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Build a fall-back; {} for a blank row. A key that is not given stays. Raises Invalid."""
    fields = {name: merged.get(f"fallback_{row}_{name}") for name in _ROW if name != "provider_key"}
    fields = {name: value for name, value in fields.items() if value not in (None, "", [])}
    if not fields.keys() - {"provider", "on"}:
        return {}
    for name in ("provider", "model"):
        if name not in fields:
            raise Invalid(f"fallback_{row}_{name}", "is required")
    if key := changes.get(f"fallback_{row}_provider_key"):
        fields["provider_key"] = key
    return fields


def _place_problem(problem: Invalid, given: FormMultiDict) -> Invalid:
    """Return the problem with the name of the form's field that it is about."""
    part, _, rest = problem.field.partition(".")
    if part == "parameters":
        return Invalid(rest if rest in _NUMBERS else "other_parameters", problem.reason)
    if part == "retrieval":
        return Invalid(rest or "knowledge_base_id", problem.reason)
    if part.startswith("fallbacks["):
        filled = [row for row in _ROWS if str(given.get(f"fallback_{row}_model", "")).strip()]
        place = int(part[len("fallbacks[") : -1])
        row = filled[place] if place < len(filled) else 1
        name = rest.partition(".")[0].partition("[")[0]
        return Invalid(f"fallback_{row}_{name or 'model'}", problem.reason)
    return problem


async def build_sections(
    request: AnyRequest, account_id: str | None, fields: Collection[FormField]
) -> dict[str, list[FormField]]:
    """Return the fields by section, with models and the account's knowledge bases to choose from."""
    by_name = {field.name: field for field in fields}
    models = tuple(sorted(get_services(request).prices.models))
    for name in ("model", *(f"fallback_{row}_model" for row in _ROWS)):
        by_name[name] = msgspec.structs.replace(by_name[name], suggestions=models)
    if account_id and "knowledge_base_id" in by_name:
        bases = await _list_bases(request, account_id)
        field = by_name["knowledge_base_id"]
        choices = tuple(dict.fromkeys(("", *bases, field.value)))
        by_name["knowledge_base_id"] = msgspec.structs.replace(
            field, kind="choice", choices=choices, labels=bases | {"": "none"}
        )
    return {
        title: [by_name[name] for name in names if name in by_name] for title, names in _SECTIONS.items()
    } | {"": [field for field in fields if field.kind == "hidden"]}


async def _list_bases(request: AnyRequest, account_id: str) -> dict[str, str]:
    try:
        found = await list_all(admin_knowledge.page, get_admin(request), account_id)
    except AdminError:  # of an account that is not chosen yet
        return {}
    return {each.id: each.name for each in found}


def _build_schema(body: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of the body with one property for each field of the form."""
    schema = build_body_schema(body)
    defs = schema["$defs"]
    top = defs[body.__name__]
    found = dict(top["properties"])
    for name in ("parameters", "retrieval", "fallbacks", "mcp_servers"):
        found.pop(name, None)
    found |= {name: {"type": ["number", "null"]} for name in _NUMBERS}
    found |= {"knowledge_base_id": {"type": ["string", "null"]}, "top_k": {"type": ["integer", "null"]}}
    found["other_parameters"] = {"type": "object"}
    found["provider"] = {"enum": list(PROVIDERS), "default": DEFAULT_PROVIDER}
    fallback = defs["Fallback"]["properties"]
    for row in _ROWS:
        for name in _ROW:
            words = name.replace("_", " ")
            found[f"fallback_{row}_{name}"] = {
                **(fallback["on"] if name == "on" else {"type": ["string", "null"]}),
                **({"type": ["object", "null"]} if name == "parameters" else {}),
                **({"enum": list(PROVIDERS)} if name == "provider" else {}),
                "default": None,
                "title": {"on": "After", "base_url": "Base URL"}.get(name, words[:1].upper() + words[1:]),
                "description": _ROW_HELP.get(name, ""),
            }
        found[f"fallback_{row}_parameters"]["title"] = f"Parameters of fall-back {row}"
    for name, text in _HELP.items():
        if name in found:
            found[name] = {**found[name], "description": text}
    for name, label in _LABELS.items():
        found[name] = {**found[name], "title": label}
    for name, example in _EXAMPLES.items():
        found[name] = {**found[name], "examples": [example]}
    defs[body.__name__] = {**top, "properties": found}
    return schema


NEW = AgentForm(NewAgent, ("account_id", "id"))
EDIT = AgentForm(AgentChanges, ())
