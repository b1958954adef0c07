"""What needs no key: health, and the description itself."""

from typing import Any

from gateway.openapi.answers import EVERYWHERE, RETRY_AFTER, refusals, success
from gateway.openapi.operations import operation

_STATUS = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"enum": ["ok", "unavailable"]}},
}
_CHECKS = {
    "type": "object",
    "description": "`ok`, or what is wrong, of each part.",
    "additionalProperties": {"type": "string"},
}
_READY = {
    "type": "object",
    "required": ["status", "checks"],
    "properties": {**_STATUS["properties"], "checks": _CHECKS},  # type: ignore[dict-item]  # it is one
}


def paths() -> dict[str, Any]:
    """The addresses by their paths."""
    well = {"well": {"status": "ok", "checks": {"postgres": "ok", "nats": "ok", "redis": "ok"}}}
    away = {"unwell": {"status": "unavailable", "checks": {"postgres": "ok", "nats": "no answer in time"}}}
    unready = success("A part that it needs is away.", _READY, away, status=503)
    refused = refusals(*EVERYWHERE)
    unready["503"]["headers"]["Retry-After"] = RETRY_AFTER
    unready["503"]["content"] |= refused["503"]["content"]
    described = {
        "healthz": ("Whether the process lives.", success("It does.", _STATUS, {"well": {"status": "ok"}})),
        "readyz": ("Whether all that it needs answers.", success("It does.", _READY, well)),
        "openapi.json": ("This document.", success("OpenAPI 3.1.", {"type": "object"})),
        "docs": (
            "This document for people.",
            success("A page.", {"type": "string"}, media_type="text/html"),
        ),
    }
    answers = {name: {**answer, **refused} for name, (_, answer) in described.items()}
    answers["readyz"] |= unready
    return {
        f"/{name}": {"get": operation(f"get_{name}", "service", summary, answers[name], keyed=False)}
        for name, (summary, _) in described.items()
    }
