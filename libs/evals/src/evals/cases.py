"""A case: a recorded run with all that is needed to do it again. A line of a suite's `cases.jsonl`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from contracts.values import ToolSpec


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run is in the log it was read from.

    `version` is the conversation's after the run's last event, and `hash` (hex) that event's link of the
    chain.
    """

    account_id: str
    conversation_id: str
    trace_id: str
    version: int
    hash: str


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """What people said of the run's reply: `score` is from -1 to 1."""

    score: float
    label: str | None = None
    comment: str | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded run. `id` is its trace id.

    `events` are the conversation's as they are stored, in their order, up to the run's end, redacted.
    `passages` are the full texts of the sources that it found, by their ids: the log holds snippets
    alone. `offered` are the tools that the agent had when the case was collected. `slices` say what kind
    of run it is, by name (`agent`, `end`, `tools`, `language`, `length`, `rating`). `checks` are the owner's
    own expectations of this case, by the name of the evaluator that reads them. `sha256` is of the case's
    JSON without it.
    """

    id: str
    origin: Origin
    agent_id: str
    agent_version: int
    message: str
    events: tuple[msgspec.Raw, ...]
    passages: Mapping[str, str] = {}
    offered: tuple[ToolSpec, ...] = ()
    slices: Mapping[str, str] = {}
    feedback: tuple[Feedback, ...] = ()
    checks: Mapping[str, Any] = {}
    redacted: tuple[str, ...] = ()
    sha256: str = ""
