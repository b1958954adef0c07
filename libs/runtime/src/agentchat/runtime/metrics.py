"""Define the metrics of all services, by prometheus_client; the health address serves them at `/metrics`.

No label names an account, a conversation or a trace, so the number of values is bounded
(docs/operate/metrics.md).
"""

import asyncio
import resource
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
_LAG_SECONDS = 1.0
_MOST_NAMES = 200
_SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_LONG = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


def render_metrics() -> bytes:
    """Return all metrics of this process as Prometheus text (`CONTENT_TYPE`)."""
    return generate_latest()


def list_names() -> list[str]:
    """Return the names of the metrics as Prometheus shows them, a histogram's without its suffix."""
    return [
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in REGISTRY.collect()
        if family.name.startswith("agentchat_")
    ]


class BoundedNames:
    """Label values that users choose: after 200 different ones, others become `other`."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def admit(self, name: str) -> str:
        """Return `name`, or `other` if too many names were seen before it."""
        if name not in self._seen:
            if len(self._seen) >= _MOST_NAMES:
                return "other"
            self._seen.add(name)
        return name


async def watch_loop() -> None:
    """Record how late the event loop serves a timer of 1 s, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SECONDS
        await asyncio.sleep(_LAG_SECONDS)
        LOOP_LAG.observe(max(0.0, loop.time() - due))


def read_resident_bytes() -> float:
    """Return the memory of this process in RAM; 0 on a system without /proc."""
    try:
        return float(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0.0


# Each process.
MEMORY = Gauge("agentchat_process_memory_bytes", "Memory of the process that is in RAM.")
MEMORY.set_function(read_resident_bytes)
LOOP_LAG = Histogram(
    "agentchat_process_loop_lag_seconds",
    "How late the event loop comes to a timer.",
    buckets=_SHORT,
)

# Gateway.
OPEN_STREAMS = Gauge("agentchat_streams_open", "Runs that requests of this gateway follow.")
REQUESTS = Histogram(
    "agentchat_http_requests_seconds",
    "Requests by method and status class, to the end of the response.",
    ["method", "status"],
    buckets=_LONG,
)
FIRST_DELTA = Histogram(
    "agentchat_streams_first_delta_seconds",
    "From a chat's request to the first piece of its reply.",
    buckets=_LONG,
)
REFUSED_REQUESTS = Counter(
    "agentchat_limits_refused_total",
    "Requests that a plan's limit refused, by code.",
    ["code"],
)
DECIDED_LOCALLY = Counter(
    "agentchat_limits_decided_locally_total",
    "Admissions without Redis, by reason: timeout, error, or open (known to be away, not asked).",
    ["reason"],
)
REFUSED_KEYS = Counter(
    "agentchat_keys_refused_total",
    "Refused API keys, by reason: wrong, address (it has tried too many).",
    ["reason"],
)
REFUSED_ADMIN_TOKENS = Counter(
    "agentchat_admin_tokens_refused_total",
    "Requests without the administrator's token, by reason: missing, wrong, address (too many tries).",
    ["reason"],
)
FRAMES_DROPPED = Counter(
    "agentchat_bus_frames_dropped_total",
    "Frames that were not sent: the bus was away or full.",
)

# Orchestrator.
RUNS_ENDED = Counter(
    "agentchat_runs_ended_total",
    "Runs that ended, by state and error code.",
    ["state", "code"],
)
RUN_SECONDS = Histogram(
    "agentchat_runs_duration_seconds",
    "From a run's request to its end, by state.",
    ["state"],
    buckets=_LONG,
)
DELTAS = Counter("agentchat_runs_deltas_total", "Pieces of replies that were sent.")
TAKEOVERS = Counter("agentchat_runs_taken_over_total", "Attempts at runs that another worker had begun.")
SLOTS = Gauge("agentchat_runs_slots", "Runs that a worker may have at once.", ["worker"])
SLOTS_USED = Gauge("agentchat_runs_slots_used", "Runs that a worker has.", ["worker"])
WAITING = Gauge(
    "agentchat_requests_waiting",
    "Requests that wait in the queue, of all workers.",
    ["worker"],
)
OLDEST_WAITING = Gauge("agentchat_requests_oldest_seconds", "How long the oldest of them waits.", ["worker"])
MODEL_CALLS = Histogram(
    "agentchat_model_calls_seconds",
    "Calls of model providers, by provider and outcome (ok or an error's kind).",
    ["provider", "outcome"],
    buckets=_LONG,
)
MODEL_CHANGES = Counter(
    "agentchat_model_changes_total",
    "Runs that went on with a fall-back of their agent, by the failed model's provider and the reason.",
    ["provider", "reason"],
)
OUTPUT_REPAIRS = Counter(
    "agentchat_output_repairs_total",
    "JSON replies that were invalid and requested once more, by outcome (ok or failed).",
    ["outcome"],
)
TOKENS = Counter(
    "agentchat_model_tokens_total",
    "Tokens, by provider, model, kind: input, output, cache_read, cache_write.",
    ["provider", "model", "kind"],
)
TEXT_ONLY_SEARCHES = Counter(
    "agentchat_knowledge_text_only_total",
    "Searches of knowledge without vectors: the embedder was away.",
)

# Tool-runner.
TOOL_CALLS = Histogram(
    "agentchat_tools_calls_seconds",
    "Calls of tools, by tool server and outcome, without the wait for a slot.",
    ["server", "outcome"],
    buckets=_LONG,
)
TOOL_WAITS = Histogram(
    "agentchat_tools_wait_seconds",
    "Waits of tool calls for a slot; begun or refused.",
    ["begun"],
    buckets=_LONG,
)
TOOLS_WAITED = Counter(
    "agentchat_tools_waited_total",
    "Tool calls that waited for a slot; begun or refused.",
    ["begun"],
)

# Projector.
LEADING = Gauge(
    "agentchat_projector_leading",
    "1 while this process leads: it follows the log, and others stand by; else 0.",
)
LAG = Gauge(
    "agentchat_projector_lag_seconds",
    "How long ago a follower was at the end of the log, by follower.",
    ["follower"],
)
WAITING_LINE = Gauge("agentchat_runs_in_line", "Runs that wait for an earlier one of their conversation.")
APPROVALS = Gauge("agentchat_approvals_waiting", "Runs that wait for a person's decision.")
RETENTION_DELETED = Counter(
    "agentchat_retention_deleted_total", "Conversations deleted because they were kept long enough."
)
RETENTION_LAG = Gauge(
    "agentchat_retention_lag_seconds",
    "How long ago the oldest conversation that is still there was to be deleted; 0 if there is none.",
)

# Webhooks, of the projector that leads.
ATTEMPTS = Counter("agentchat_webhooks_attempts_total", "Attempts at deliveries, by outcome.", ["outcome"])
EVENTS_BEHIND = Gauge(
    "agentchat_webhooks_events_behind",
    "Deliveries that wait for their first attempt, of endpoints that do not fail.",
    ["worker"],
)
ENDPOINTS_FAILING = Gauge(
    "agentchat_webhooks_endpoints_failing",
    "Enabled endpoints whose last attempt failed.",
    ["worker"],
)
