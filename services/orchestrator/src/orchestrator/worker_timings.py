"""How long a worker waits, and how often it repeats what it does."""

from dataclasses import dataclass, field

from contracts.timings import (
    ALIVE_SECONDS,
    RENEW_AGAIN_SECONDS,
    RENEW_SECONDS,
    TOOL_SECONDS,
    TOOL_SLACK_SECONDS,
)
from conversations.leases.leases import LeaseTimings


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Seconds. Those that other processes rely on are in `contracts.timings`; tests take shorter ones."""

    leases: LeaseTimings = field(default_factory=LeaseTimings)
    renew_seconds: float = RENEW_SECONDS
    renew_again_seconds: float = RENEW_AGAIN_SECONDS
    """How soon a renewal is tried again after Postgres did not answer."""
    alive_seconds: float = ALIVE_SECONDS
    alive_look_seconds: float = 1.0
    """How often runs are looked at that may have been quiet for `alive_seconds`."""
    load_seconds: float = 5.0
    """How often the worker reports how full it is."""
    tool_seconds: float = TOOL_SECONDS
    tool_slack_seconds: float = TOOL_SLACK_SECONDS
    tools_listed_seconds: float = 20.0
    """For so long somebody is asked for an agent's tools: as long as a tool-runner takes to start again."""
    erase_cancel_seconds: float = 3.0
    """For so long the worker of a run may end it before its conversation is erased all the same."""
    put_back_seconds: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)
    """After each delivery in vain, how long a request stays put back while something is away."""
    limits_seconds: float = 0.2
    """A call to Redis; then the worker counts by itself."""
    drain_seconds: float = 4.0
    """At shutdown, runs have so long to come to the end of their step; then others go on with them."""


DEFAULT = Timings()
