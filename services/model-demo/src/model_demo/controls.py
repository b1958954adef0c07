"""What a model name may ask for: `demo-load?deltas=200&delay_ms=20` is the model demo-load with two controls.

The README's table is the documentation of every control.
"""

from typing import Annotated
from urllib.parse import parse_qsl

import msgspec

from model_demo.wire.errors import TYPES, UnknownModelError, invalid
from model_demo.wire.replies import StopReason

Count = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
Millis = Annotated[float, msgspec.Meta(ge=0, le=600_000)]

MODELS = {
    "demo-shop-1": "Demo Shop 1",
    "demo-echo": "Demo Echo",
    "demo-load": "Demo Load",
}
"""Model id to display name."""


class Controls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The controls of one request; times in milliseconds, counts of deltas or rounds. None: not asked for."""

    head_ms: Millis = 0
    first_ms: Millis = 0
    delay_ms: Millis = 0
    ping_ms: Annotated[float, msgspec.Meta(ge=1, le=600_000)] = 15_000
    deltas: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    say: str | None = None
    repeat: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    fail: int | None = None
    retry_after: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 1
    fail_after: Count | None = None
    cut_after: Count | None = None
    reset_after: Count | None = None
    hang_after: Count | None = None
    garbage_after: Count | None = None
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tool: str | None = None
    input: str | None = None
    rounds: Count = 1
    parallel: Annotated[int, msgspec.Meta(ge=1, le=200)] = 1
    bad_json: bool = False
    stop: StopReason | None = None
    thinking: bool = False


class Model(msgspec.Struct, frozen=True):
    """A model name taken apart. `id` is one of MODELS."""

    id: str
    controls: Controls


def parse(name: str) -> Model:
    """Take a model name apart. Raises UnknownModelError; ApiError 400 for an unfit control."""
    model_id, _, query = name.partition("?")
    if model_id not in MODELS:
        raise UnknownModelError(name)
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise invalid(f"model: the controls of {name!r} are not of the form key=value&key=value") from None
    try:
        controls = msgspec.convert(dict(given), Controls, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(f"model: {_say(str(error))}") from None
    _check(controls)
    return Model(model_id, controls)


def _check(controls: Controls) -> None:
    if controls.fail is not None and controls.fail not in TYPES:
        known = ", ".join(map(str, TYPES))
        raise invalid(f"model: control fail must be one of {known}, not {controls.fail}")
    if controls.fail is None and controls.fail_after is not None:
        raise invalid("model: control fail_after needs fail=<status>")
    if controls.input is not None and not isinstance(_json(controls.input), dict):
        raise invalid("model: control input must be a JSON object")


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _say(problem: str) -> str:
    reason, _, path = problem.partition(" - at `$.")
    if reason.startswith("Object contains unknown field"):
        return f"unknown control {reason.split('`')[1]!r}; known are {', '.join(Controls.__struct_fields__)}"
    return f"control {path.rstrip('`')}: {reason}"
