"""A JSON Schema as strict structured output takes it (platform.openai.com, structured outputs).

That is the shared form of `models.schema`, in which every field of an object must also be required. An
optional one is not made nullable: the reply has to satisfy the agent's own schema, which knows no null.
"""

from typing import Any

from orchestrator.models.schema import output_format

_UNSAID = ("default", "title")
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema for `strict`; None where it cannot be said so."""
    found = output_format(schema)
    if found is None or found.get("type") != "object":
        return None
    stripped: dict[str, Any] = _stripped(found)
    return stripped if _complete(stripped) else None


def _stripped(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the keywords that are not taken; names of properties may be the same words."""
    kept = {key: value for key, value in schema.items() if key not in _UNSAID}
    if kept.get("format", "uuid") not in _FORMATS:
        del kept["format"]
    for group in ("properties", "$defs"):
        if group in kept:
            kept[group] = {name: _stripped(one) for name, one in kept[group].items()}
    if "items" in kept:
        kept["items"] = _stripped(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [_stripped(one) for one in kept["anyOf"]]
    return kept


def _complete(schema: dict[str, Any]) -> bool:
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return set(schema.get("properties", {})) == set(schema.get("required", ())) and all(map(_complete, inner))
