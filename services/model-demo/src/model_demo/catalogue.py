"""The models as `GET /v1/models` lists them."""

from collections.abc import Mapping
from typing import Any

from model_demo import controls
from model_demo.wire.chat.completions import CREATED
from model_demo.wire.errors import UnknownModelError, invalid

_CREATED_AT = "2026-11-01T00:00:00Z"
_MOST_INPUT = 1_000_000
_MOST_OUTPUT = 1_000_000


def require(name: str) -> None:
    """Raises ApiError for a model name that `POST /v1/messages` would refuse."""
    controls.parse(name)


def entry(model_id: str) -> dict[str, Any]:
    """One model. Raises UnknownModelError."""
    if model_id not in controls.MODELS:
        raise UnknownModelError(model_id)
    return {
        "type": "model",
        "id": model_id,
        "display_name": controls.MODELS[model_id],
        "created_at": _CREATED_AT,
        "lifecycle": "active",
        "max_input_tokens": _MOST_INPUT,
        "max_tokens": _MOST_OUTPUT,
    }


def page(query: Mapping[str, str]) -> dict[str, Any]:
    """A page of the list: `limit` (1 to 1000), `after_id`, `before_id`. Raises ApiError 400."""
    limit = query.get("limit", "20")
    if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
        raise invalid("limit: range: 1..1000")
    ids = list(controls.MODELS)
    if (after := query.get("after_id")) in ids:
        ids = ids[ids.index(after) + 1 :]
    if (before := query.get("before_id")) in ids:
        ids = ids[: ids.index(before)]
    shown = ids[: int(limit)]
    return {
        "data": [entry(model_id) for model_id in shown],
        "has_more": len(shown) < len(ids),
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
    }


def chat_page() -> dict[str, Any]:
    """The list in OpenAI's form, which has no pages."""
    return {"object": "list", "data": [chat_entry(model_id) for model_id in controls.MODELS]}


def chat_entry(model_id: str) -> dict[str, Any]:
    """One model in OpenAI's form. Raises UnknownModelError."""
    if model_id not in controls.MODELS:
        raise UnknownModelError(model_id)
    return {"id": model_id, "object": "model", "created": CREATED, "owned_by": "model-demo"}
