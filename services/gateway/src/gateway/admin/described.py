"""The admin API for the OpenAPI document, made from the same table that serves it."""

from typing import Any, get_args, get_origin

from administration.reading import MOST_PAGE
from contracts import errors
from gateway.admin.examples import EXAMPLES
from gateway.admin.route import DEFAULT_LIMIT, Nothing, Route
from gateway.admin.routes import ROUTES
from gateway.problems import MEDIA_TYPE

TAG = {
    "name": "admin",
    "description": "For operators: served where AGENTCHAT_ADMIN_TOKEN is set, to who sends that token.",
}
SECURITY_SCHEMES = {
    "admin": {"type": "http", "scheme": "bearer", "description": "The token in AGENTCHAT_ADMIN_TOKEN."}
}


def _plain(kind: Any) -> type:
    """The type of one item, where an answer is a list of them."""
    plain: type = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return plain


TYPES: tuple[type, ...] = tuple(
    dict.fromkeys(
        kind
        for route in ROUTES
        for kind in (route.body, _plain(route.gives))
        if kind is not None and kind is not Nothing
    )
)
"""What `#/components/schemas` is to hold for `paths`, beside Problem."""

_FLAG = {"type": "boolean", "default": False}
_QUERY: dict[str, tuple[dict[str, Any], str]] = {
    "limit": (
        {"type": "integer", "minimum": 1, "maximum": MOST_PAGE, "default": DEFAULT_LIMIT},
        "How many at most.",
    ),
    "cursor": ({"type": "string"}, "The next_cursor of the page before."),
    "force": (_FLAG, "Delete it with what hangs on it, and although it is in use."),
    "dry_run": (_FLAG, "Change nothing, and tell what would go."),
    "account_id": ({"type": "string", "format": "uuid"}, "Those of this account alone."),
    "kind": ({"type": "string", "minLength": 1}, "Changes of such things: account, key, plan, agent, ..."),
    "subject": ({"type": "string", "minLength": 1}, "Changes of the thing with this id or name."),
    "actor": ({"type": "string", "minLength": 1}, "Changes by this one, such as admin-api."),
    "month": (
        {"type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$"},
        "UTC; without it the current one.",
    ),
    "query": ({"type": "string", "minLength": 1}, "What is asked."),
    "top_k": ({"type": "integer", "minimum": 1, "maximum": 50, "default": 5}, "How many passages at most."),
}
_NEEDED = {"query"}
_TRACE = {"X-Trace-Id": {"schema": {"type": "string"}, "description": "The trace of this request."}}


def paths() -> dict[str, Any]:
    """A path item for each address."""
    found: dict[str, Any] = {}
    for route in ROUTES:
        found.setdefault(route.address, {})[route.method.lower()] = _operation(route)
    return found


def _operation(route: Route) -> dict[str, Any]:
    operation = {
        "tags": [TAG["name"]],
        "operationId": _operation_id(route),
        "summary": route.summary,
        "security": [{"admin": []}],
        "parameters": [*_path_parameters(route), *(_query_parameter(name) for name in route.query)],
        "responses": {**_answers(route), **_refusals(route)},
    }
    if route.body is not None and route.body is not Nothing:
        operation["requestBody"] = {
            "required": not route.optional,
            "content": {"application/json": _content(_reference(route.body), EXAMPLES[route.body])},
        }
    return operation


def _operation_id(route: Route) -> str:
    words = [part.strip("{}") for part in route.path.split("/") if part]
    return "_".join(["admin", route.method.lower(), *words])


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": _path_schema(name)} for name in names]


def _path_schema(name: str) -> dict[str, Any]:
    if name.endswith("_id"):
        return {"type": "string", "format": "uuid"}
    return {"type": "integer", "minimum": 1} if name == "version" else {"type": "string", "minLength": 1}


def _query_parameter(name: str) -> dict[str, Any]:
    schema, description = _QUERY[name]
    return {
        "name": name,
        "in": "query",
        "required": name in _NEEDED,
        "schema": schema,
        "description": description,
    }


def _answers(route: Route) -> dict[str, Any]:
    item, example = _reference(_plain(route.gives)), EXAMPLES[_plain(route.gives)]
    if route.method == "DELETE":
        gone = {"description": "Gone.", "headers": _TRACE}
        return {"204": gone, "200": _answer("A dry run: what would go.", item, example)}
    if route.paged:
        cursor = {"type": ["string", "null"], "description": "Null on the last page."}
        item, example = _list_of(item, {"next_cursor": cursor}), {"data": [example], "next_cursor": None}
    elif route.gives is not _plain(route.gives):
        item, example = _list_of(item, {}), {"data": [example]}
    if route.status == 201:
        made = {"201": _answer("Made.", item, example)}
        replaces = "PutDocument" in str(item)
        return made | ({"200": _answer("Replaced, or as it was.", item, example)} if replaces else {})
    return {"200": _answer("OK", item, example)}


def _answer(description: str, schema: dict[str, Any], example: Any) -> dict[str, Any]:
    content = {"application/json": _content(schema, example)}
    return {"description": description, "headers": _TRACE, "content": content}


def _list_of(item: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    properties = {"data": {"type": "array", "items": item}, **more}
    return {"type": "object", "required": list(properties), "properties": properties}


def _refusals(route: Route) -> dict[str, Any]:
    by_status: dict[int, list[errors.Code]] = {}
    for code in _codes(route):
        row = errors.error(code)
        by_status.setdefault(row.status, []).append(row)
    return {str(status): _refusal(rows) for status, rows in sorted(by_status.items())}


def _codes(route: Route) -> list[str]:
    codes = ["invalid_admin_token", "invalid_request", "overloaded", "internal_error"]
    if route.body is not None:
        codes += ["unsupported_media_type", "message_too_large"]
    return [
        *codes,
        *(["not_found"] if "{" in route.path or "account_id" in route.query else []),
        *(["conflict"] if route.conflicts else []),
    ]


def _refusal(rows: list[errors.Code]) -> dict[str, Any]:
    headers: dict[str, Any] = dict(_TRACE)
    if rows[0].status == 401:
        headers["WWW-Authenticate"] = {"schema": {"type": "string"}, "description": "The scheme Bearer."}
    if any(row.retry_after is not None for row in rows):
        headers["Retry-After"] = {"schema": {"type": "integer", "minimum": 1}, "description": "In seconds."}
    examples = {row.code: {"value": _problem(row)} for row in rows}
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": "; ".join(f"`{row.code}`: {row.title}" for row in rows),
        "headers": headers,
        "content": {MEDIA_TYPE.decode(): {"schema": schema, "examples": examples}},
    }


def _problem(row: errors.Code) -> dict[str, Any]:
    return {
        "type": f"urn:agent-chat:problem:{row.code}",
        "title": row.title,
        "status": row.status,
        "detail": row.advice,
        "code": row.code,
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    }


def _content(schema: dict[str, Any], example: Any) -> dict[str, Any]:
    return {"schema": schema, "example": example}


def _reference(kind: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
