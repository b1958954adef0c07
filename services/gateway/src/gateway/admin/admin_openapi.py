"""The admin API for the OpenAPI document, made from the table that serves it."""

from typing import Any

import msgspec

from administration.admin_values import PutDocument
from administration.route import Parameter, Route
from administration.routes import ROUTES
from gateway.openapi.documented_refusals import TRACE_ID, refusals
from gateway.openapi.openapi_schemas import page_of, ref
from gateway.protocols import wording_at

TAG = {
    "name": "admin",
    "description": "For operators: served where AGENTCHAT_ADMIN_TOKEN is set, to who sends that token.",
}
SECURITY_SCHEMES = {
    "admin": {"type": "http", "scheme": "bearer", "description": "The token in AGENTCHAT_ADMIN_TOKEN."}
}
TYPES: tuple[type, ...] = tuple(
    dict.fromkeys(kind for route in ROUTES for kind in (route.body, route.gives) if kind is not None)
)
"""What `#/components/schemas` is to hold for `paths`, next to Problem."""

_ACTOR = {
    "name": "X-Admin-Actor",
    "in": "header",
    "required": False,
    "description": "Who asks, as the audit log is to say it; else admin-api.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,100}$"},
}
_, _SCHEMAS = msgspec.json.schema_components(TYPES, ref_template="#/components/schemas/{name}")


def paths() -> dict[str, Any]:
    """A path item for each address."""
    found: dict[str, Any] = {}
    for route in ROUTES:
        found.setdefault(route.address, {})[route.method.lower()] = _operation(route)
    return found


def _operation(route: Route) -> dict[str, Any]:
    words = [part.strip("{}") for part in route.path.split("/") if part]
    operation = {
        "tags": [TAG["name"]],
        "operationId": "_".join(["admin", route.method.lower(), *words]),
        "summary": route.summary,
        "security": [{"admin": []}],
        "parameters": [
            *(_parameter(each, "path") for each in route.path_parameters),
            *(_parameter(each, "query") for each in route.query),
            _ACTOR,
        ],
        "responses": _answers(route) | refusals(*_codes(route), wording=wording_at(route.address)),
    }
    if route.body is not None:
        content = {"application/json": _content(ref(route.body))}
        operation["requestBody"] = {"required": not route.optional, "content": content}
    return operation


def _parameter(parameter: Parameter, where: str) -> dict[str, Any]:
    described = {"description": parameter.description} if parameter.description else {}
    return {
        "name": parameter.name,
        "in": where,
        "required": parameter.required,
        "schema": parameter.schema,
        **described,
    }


def _answers(route: Route) -> dict[str, Any]:
    item = ref(route.gives)
    if route.method == "DELETE":
        gone = {"description": "Gone.", "headers": TRACE_ID}
        return {"200": _answer("A dry run: what would go.", item), "204": gone}
    if route.many == "page":
        item = page_of(item)
    elif route.many == "all":
        item = {
            "type": "object",
            "required": ["data"],
            "properties": {"data": {"type": "array", "items": item}},
        }
    if route.status == 201:
        replaces = route.gives is PutDocument
        also = {"200": _answer("Replaced, or as it was.", item)} if replaces else {}
        return also | {"201": _answer("Made.", item)}
    return {"200": _answer("OK", item)}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": description,
        "headers": TRACE_ID,
        "content": {"application/json": _content(schema)},
    }


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"schema": schema, "example": example_of(schema, _SCHEMAS)}


def _codes(route: Route) -> list[str]:
    codes = ["invalid_admin_token", "rate_limited", "invalid_request", "overloaded", "internal_error"]
    if route.method != "GET":
        codes += ["unsupported_media_type", "message_too_large", "conflict"]
    if route.path_parameters or any(each.name == "account_id" for each in route.query):
        codes.append("not_found")
    return codes


_ID = "0192f0c1-7d10-7abc-8def-000000000001"
_AT = "2026-11-21T09:30:00.123456Z"

# By the names of fields; others have their default, or the least that their type allows.
_WORDS: dict[str, Any] = {
    "action": "change",
    "actor": "admin-api",
    "agent_id": _ID,
    "after": {"name": "Pro", "concurrent_runs": 20},
    "before": {"name": "Pro", "concurrent_runs": 10},
    "allowed_tools": ["find_orders"],
    "day": "2026-11-21",
    "header_names": ["Authorization"],
    "headers": {"Authorization": "Bearer <token>"},
    "id": _ID,
    "key": "sk-ac-<43 characters>",
    "kind": "markdown",
    "language": "english",
    "last4": "x9Qz",
    "model": "claude-sonnet-5-5",
    "month": "2026-11",
    "name": "Acme",
    "outcome": "added",
    "plan": "Pro",
    "provider": "anthropic",
    "provider_key": "<provider key>",
    "source_type": "markdown",
    "subject": "Pro",
    "system_prompt": "Answer briefly.",
    "text": "# Returns\n\nGoods may be returned within thirty days.",
    "snippet": "Goods may be returned within thirty days.",
    "title": "Returns",
    "url": "https://shop.example/mcp",
}


def example_of(schema: dict[str, Any], schemas: dict[str, Any], name: str = "") -> Any:
    """A value that fits: of an object what it must have, or its first two members where that is nothing."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        names = schema.get("required") or [*schema["properties"]][:2]
        return {each: example_of(schema["properties"][each], schemas, each) for each in names}
    if name in _WORDS and (kind is None or isinstance(_WORDS[name], _TYPES.get(kind, object))):
        return _WORDS[name]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], schemas, name)
    if "default" in schema or "enum" in schema:
        return schema.get("default", schema.get("enum", [None])[0])
    if kind == "array":
        return [example_of(schema["items"], schemas)] if schema.get("items") else []
    return _plain(schema, name)


def _plain(schema: dict[str, Any], name: str) -> Any:
    match schema.get("type"):
        case "string":
            return _AT if schema.get("format") == "date-time" else _ID if name.endswith("_id") else "text"
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "object":
            return {}
        case _:
            return None


_TYPES: dict[str, type] = {
    "string": str,
    "array": list,
    "object": dict,
    "integer": int,
    "number": int,
    "boolean": bool,
}
