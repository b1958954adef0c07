"""Parse the controls in a model name: `demo-load?deltas=200&delay_ms=20` has two.

The README's table documents every control.
"""

from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from agentchat.model_demo.errors import STATUSES, DemoApiError, build_invalid_error
from agentchat.model_demo.planned_reply import StopReason
from agentchat.runtime.bounded_map import BoundedMap

MODELS = ("demo-shop-1", "demo-echo", "demo-load")

Count = Annotated[int, Meta(ge=0, le=100_000)]
Positive = Annotated[int, Meta(ge=1, le=100_000)]
Millis = Annotated[float, Meta(ge=0, le=600_000)]

_MOST_TURNS = 10_000


class Fault(NamedTuple):
    """A fault: `status` before anything is sent, the others after `after` deltas of a stream."""

    kind: str
    after: int = 0


class Controls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The controls of a request: times in milliseconds, counts of deltas or rounds.

    None: not requested.
    """

    first_ms: Millis = 0
    delay_ms: Millis = 0
    ping_ms: Annotated[float, Meta(ge=1, le=600_000)] = 15_000
    deltas: Positive | None = None
    say: str | None = None
    repeat: Positive = 1
    fail: int | None = None
    retry_after: Annotated[int, Meta(ge=0, le=86_400)] = 1
    fail_after: Count | None = None
    cut_after: Count | None = None
    reset_after: Count | None = None
    hang_after: Count | None = None
    garbage_after: Count | None = None
    times: Positive | None = None
    tool: str | None = None
    input: str | None = None
    rounds: Count = 1
    parallel: Annotated[int, Meta(ge=1, le=200)] = 1
    vary: Annotated[int, Meta(ge=0, le=100)] = 0
    stop: StopReason | None = None
    think: bool = False
    context: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None

    @property
    def fault(self) -> Fault | None:
        """Return the requested fault; of several the first in this order."""
        if self.fail is not None and self.fail_after is None:
            return Fault("status")
        for kind in ("fail", "cut", "reset", "hang", "garbage"):
            after: int | None = getattr(self, f"{kind}_after")
            if after is not None:
                return Fault(kind, after)
        return None


def parse(name: str) -> tuple[str, Controls]:
    """Split a model name into its id, one of MODELS, and its controls.

    Raises:
        DemoApiError: 404 for an unknown model, 400 for an invalid control.
    """
    model_id, _, query = name.partition("?")
    if model_id not in MODELS:
        raise DemoApiError(404, f"model: {name} does not exist", code="model_not_found")
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
        controls = msgspec.convert(dict(given), Controls, strict=False)
        is_object = isinstance(msgspec.json.decode(controls.input or "{}"), dict)
    except msgspec.ValidationError as error:
        raise build_invalid_error(
            f"model: {error}; known controls are {', '.join(Controls.__struct_fields__)}"
        ) from None
    except (msgspec.DecodeError, RecursionError):
        is_object = False
    except ValueError:
        raise build_invalid_error(
            f"model: the controls of {name!r} are not of the form key=value&key=value"
        ) from None
    if not is_object:
        raise build_invalid_error("model: control input must be a JSON object")
    if controls.fail not in (None, *STATUSES):
        raise build_invalid_error(f"model: control fail must be one of {', '.join(map(str, STATUSES))}")
    if controls.fail is None and controls.fail_after is not None:
        raise build_invalid_error("model: control fail_after needs fail=<status>")
    return model_id, controls


class Attempts:
    """A count of the faults of each turn, limited to the most recent turns.

    The count restarts after an attempt that passed, so a later run of the same turn sees the same faults.
    """

    def __init__(self) -> None:
        self._struck: BoundedMap[bytes, int] = BoundedMap(_MOST_TURNS)

    def choose_fault(self, controls: Controls, key: bytes) -> Fault | None:
        """Return the fault of this attempt at the turn `key`; None if it passes."""
        fault = controls.fault
        if fault is None or controls.times is None:
            return fault
        struck = self._struck.pop(key) or 0
        if struck >= controls.times:
            return None
        self._struck.put(key, struck + 1)
        return fault
