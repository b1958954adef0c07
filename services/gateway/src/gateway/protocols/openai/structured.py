"""Structured output: what `response_format`, or `text.format`, asks of the reply, and what the agent allows.

A schema is checked by the rules for agents' own. The reply is checked by the worker, `strict` or not.
"""

import asyncio
from functools import lru_cache
from typing import Any

import msgspec

from contracts import wire
from contracts.admin_errors import Invalid
from directory.agents import load_agent
from directory.output_schema import check_output_schema
from gateway.http.problem_responses import Refusal, invalid
from runtime.postgres import Pool

MAX_BYTES = 16 * 1024
"""Of a request's schema: it is stored with the run, and may have to stand in the prompt."""

_NAMED: dict[str, Any] = {
    "name": {"type": "string"},
    "schema": {"type": "object", "description": "Draft 2020-12, an object at its root, up to 16 KiB."},
    "strict": {"type": ["boolean", "null"]},
}
_OTHERS: list[dict[str, Any]] = [
    {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object"]}}},
    {"type": "null"},
]
NESTED: dict[str, Any] = {
    "description": "What the reply is to be.",
    "anyOf": [
        {
            "type": "object",
            "required": ["type", "json_schema"],
            "properties": {
                "type": {"const": "json_schema"},
                "json_schema": {"type": "object", "required": ["name", "schema"], "properties": _NAMED},
            },
        },
        *_OTHERS,
    ],
}
"""`response_format` in OpenAPI."""
FLAT: dict[str, Any] = {
    "description": "What the text is to be.",
    "anyOf": [
        {
            "type": "object",
            "required": ["type", "name", "schema"],
            "properties": {"type": {"const": "json_schema"}, **_NAMED},
        },
        *_OTHERS,
    ],
}
"""`text.format` in OpenAPI."""
_ANY_OBJECT = {"type": "object"}
_NOT_ALLOWED = "The agent has allow_request_schema off: it gives JSON of its own output_schema only."


class Wanted(msgspec.Struct, frozen=True):
    """A reply in JSON, by `schema`, at `field` of the request; None: any object."""

    field: str
    schema: dict[str, Any] | None = None


def wanted_by(given: dict[str, Any] | None, field: str, nested: str | None = None) -> Wanted | None:
    """None for text. `nested` is the member of `given` that has name and schema. Raises Refusal: 400."""
    match (given or {}).get("type", "text"):
        case "text":
            return None
        case "json_object":
            return Wanted(field)
        case "json_schema":
            assert given is not None
            if nested is None:
                return _by_schema(given, field)
            return _by_schema(given.get(nested), f"{field}.{nested}")
        case _:
            raise invalid(field, "Its type must be text, json_object or json_schema.")


def _by_schema(named: Any, field: str) -> Wanted:
    if not isinstance(named, dict):
        raise invalid(field, "This must be an object with a name and a schema.")
    if not isinstance(named.get("name"), str):
        raise invalid(f"{field}.name", "A schema has a name.")
    if not isinstance(named.get("strict"), bool | None):
        raise invalid(f"{field}.strict", "This must be true or false.")
    schema = named.get("schema")
    if not isinstance(schema, dict):
        raise invalid(f"{field}.schema", "This must be a JSON Schema.")
    # Clients name older drafts, such as zod draft-07; what they use of them means the same in 2020-12.
    return Wanted(f"{field}.schema", {name: value for name, value in schema.items() if name != "$schema"})


async def schema_of(
    pool: Pool, account_id: str, agent_id: str, wanted: Wanted | None
) -> dict[str, Any] | None:
    """The schema that the reply must fit; None where that is as the agent is set.

    Raises Refusal: 400 for a schema that is none, or that the agent does not allow; DatabaseUnavailable.
    """
    if wanted is None:
        return None
    agent = await load_agent(pool, account_id, agent_id)
    if agent is None:
        raise Refusal("agent_not_found")
    if agent.output_type == "json" and wanted.schema in (None, _undated(agent.output_schema)):
        return None
    if not agent.allow_request_schema:
        raise invalid(wanted.field, _NOT_ALLOWED)
    if wanted.schema is None:
        return _ANY_OBJECT
    encoded = wire.encode(wanted.schema)
    if len(encoded) > MAX_BYTES:
        raise invalid(wanted.field, f"This is larger than {MAX_BYTES // 1024} KiB.")
    problem = await asyncio.to_thread(_problem_of, encoded)  # up to 0.1 s for one of the largest
    if problem is not None:
        path, reason = problem
        raise invalid(wanted.field + path, f"This {reason}.")
    return wanted.schema


def _undated(schema: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (schema or {}).items() if name != "$schema"}


@lru_cache(maxsize=256)
def _problem_of(schema: bytes) -> tuple[str, str] | None:
    """Where in the schema something is wrong, and what. Cached: a client sends one schema again and again."""
    if b"\\u0000" in schema:
        return "", "holds NUL"
    try:
        check_output_schema(msgspec.json.decode(schema))
    except Invalid as error:
        return error.field.removeprefix("output_schema"), error.reason
    return None
