"""The metrics of all services, by the OpenTelemetry SDK: what there is, and how a process shows it.

A service sends them every 10 s to an OTLP endpoint where one is set, and serves them as Prometheus text at
`/metrics` of its health address. No attribute is an account, a conversation or a trace: their number is
bounded (docs/operate/metrics.md).

Names are dotted, as OpenTelemetry has them; Prometheus shows `agentchat.runs.ended` as
`agentchat_runs_ended_total`, and adds the unit (`_seconds`, `_bytes`).
"""

import asyncio
import resource
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # a command that holds no metrics does not load the SDK
    from opentelemetry import metrics as api
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from prometheus_client import CollectorRegistry

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_EXPORT_MILLISECONDS = 10_000
_LAG_SECONDS = 1.0
_SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_LONG = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

Value = str | bool
Attributes = tuple[tuple[str, Value], ...]
Reading = Callable[[], float | None]


class Metric:
    """What all kinds have. Each is shown by the processes in which `start` was called."""

    ALL: ClassVar[list["Metric"]] = []

    def __init__(self, name: str, description: str, unit: str = "") -> None:
        self.name = name
        self.description = description
        self.unit = unit
        self.ALL.append(self)

    def start(self, meter: "api.Meter") -> None:
        """Make the instrument."""
        raise NotImplementedError

    def stop(self) -> None:
        """Hold nothing any more."""
        raise NotImplementedError


class Counter(Metric):
    """Counts what has happened since the process started.

    It is read when it is shown: to add to a counter of the SDK takes 8 us, and a run adds some ten times.
    """

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, description)
        self._counts: dict[Attributes, int] = {}

    def start(self, meter: "api.Meter") -> None:
        meter.create_observable_counter(self.name, [self._observed], self.unit, self.description)

    def stop(self) -> None:
        self._counts.clear()

    def add(self, amount: int = 1, **attributes: Value) -> None:
        """Count `amount` more under these attributes."""
        key = tuple(attributes.items())
        self._counts[key] = self._counts.get(key, 0) + amount

    def _observed(self, _: "api.CallbackOptions") -> Iterator["api.Observation"]:
        from opentelemetry.metrics import Observation

        for attributes, count in tuple(self._counts.items()):
            yield Observation(count, dict(attributes))


class Histogram(Metric):
    """How long something took, in seconds."""

    _instrument: "api.Histogram | None" = None

    def __init__(self, name: str, description: str, buckets: Sequence[float]) -> None:
        super().__init__(name, description, "s")
        self._buckets = buckets

    def start(self, meter: "api.Meter") -> None:
        self._instrument = meter.create_histogram(
            self.name, self.unit, self.description, explicit_bucket_boundaries_advisory=self._buckets
        )

    def stop(self) -> None:
        self._instrument = None

    def record(self, seconds: float, **attributes: Value) -> None:
        """It took so long once more."""
        if self._instrument is not None:
            self._instrument.record(seconds, attributes)


class Gauge(Metric):
    """A number that goes up and down: the last that was set, or what a function returns when it is shown."""

    def __init__(self, name: str, description: str, unit: str = "") -> None:
        super().__init__(name, description, unit)
        self._readings: dict[Attributes, Reading] = {}

    def start(self, meter: "api.Meter") -> None:
        meter.create_observable_gauge(self.name, [self._observed], self.unit, self.description)

    def stop(self) -> None:
        self._readings.clear()

    def set(self, value: float | None, **attributes: Value) -> None:
        """From now on it is `value` under these attributes; None where nobody knows."""
        self.read_by(lambda: value, **attributes)

    def read_by(self, reading: Reading, **attributes: Value) -> None:
        """From now on it is what `reading` returns, which is called at any time, in any thread."""
        self._readings[tuple(attributes.items())] = reading

    def _observed(self, _: "api.CallbackOptions") -> Iterator["api.Observation"]:
        from opentelemetry.metrics import Observation

        for attributes, reading in tuple(self._readings.items()):
            if (value := reading()) is not None:
                yield Observation(value, dict(attributes))


class _State:
    provider: "MeterProvider | None" = None
    registry: "CollectorRegistry | None" = None


def start(service: str, instance: str, endpoint: str | None) -> None:
    """Hold all metrics from now on; send them to the OTLP `endpoint` too, such as http://127.0.0.1:4318."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
    from opentelemetry.sdk.resources import Resource
    from prometheus_client import CollectorRegistry

    stop()
    _State.registry = CollectorRegistry()
    readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False, registry=_State.registry)]
    if endpoint:
        readers.append(_exporting(endpoint))
    resource = Resource.create({"service.name": service, "service.instance.id": instance})
    _State.provider = MeterProvider(
        readers, resource, exemplar_filter=AlwaysOffExemplarFilter(), shutdown_on_exit=False
    )
    meter = _State.provider.get_meter("agentchat")
    for metric in Metric.ALL:
        metric.start(meter)
    MEMORY.read_by(resident_bytes)


def stop() -> None:
    """Send what waits (5 s at most) and hold nothing any more."""
    provider, _State.provider, _State.registry = _State.provider, None, None
    if provider is not None:
        provider.shutdown(5000)
    for metric in Metric.ALL:
        metric.stop()


def exposition() -> bytes:
    """All metrics of this process as Prometheus text (`CONTENT_TYPE`)."""
    from prometheus_client import generate_latest

    return b"" if _State.registry is None else generate_latest(_State.registry)


async def watch_loop() -> None:
    """Until cancelled, record how late the event loop comes to a timer of 1 s."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SECONDS
        await asyncio.sleep(_LAG_SECONDS)
        LOOP_LAG.record(max(0.0, loop.time() - due))


def resident_bytes() -> float:
    """The memory that this process has in RAM; 0 where the system has no /proc."""
    try:
        return float(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0.0


def _exporting(endpoint: str) -> "MetricReader":
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    exporter = OTLPMetricExporter(endpoint=endpoint.rstrip("/") + "/v1/metrics", timeout=5)
    return PeriodicExportingMetricReader(exporter, export_interval_millis=_EXPORT_MILLISECONDS)


# Each process.
MEMORY = Gauge("agentchat.process.memory", "Memory of the process that is in RAM.", "By")
LOOP_LAG = Histogram("agentchat.process.loop_lag", "How late the event loop comes to a timer.", _SHORT)

# Gateway.
OPEN_STREAMS = Gauge("agentchat.streams.open", "Runs that requests of this gateway follow.")
REQUESTS = Histogram(
    "agentchat.http.requests", "Requests by method and status class, to the end of the response.", _LONG
)
FIRST_DELTA = Histogram(
    "agentchat.streams.first_delta", "From a chat's request to the first piece of its reply.", _LONG
)
REFUSED_REQUESTS = Counter("agentchat.limits.refused", "Requests that a plan's limit refused, by code.")
DECIDED_LOCALLY = Counter(
    "agentchat.limits.decided_locally",
    "Admissions without Redis, by reason: timeout, error, or open (known to be away, not asked).",
)
UNCOUNTED_MONTHS = Counter(
    "agentchat.limits.month_uncounted",
    "Admissions whose month is not known, or (known) was counted too long ago and is counted again.",
)
REFUSED_KEYS = Counter(
    "agentchat.keys.refused",
    "Refused API keys, by reason: wrong, again (wrong a moment ago), address (it has tried too many).",
)
REFUSED_ADMIN_TOKENS = Counter(
    "agentchat.admin.tokens.refused",
    "Requests without the administrator's token, by reason: missing, wrong, address (too many tries).",
)
FRAMES_DROPPED = Counter(
    "agentchat.bus.frames_dropped", "Frames that were not sent: the bus was away or full."
)

# Orchestrator.
RUNS_ENDED = Counter("agentchat.runs.ended", "Runs that ended, by state and error code.")
RUN_SECONDS = Histogram("agentchat.runs.duration", "From a run's request to its end, by state.", _LONG)
DELTAS = Counter("agentchat.runs.deltas", "Pieces of replies that were sent.")
TAKEOVERS = Counter("agentchat.runs.taken_over", "Attempts at runs that another worker had begun.")
SLOTS = Gauge("agentchat.runs.slots", "Runs that a worker may have at once.")
SLOTS_USED = Gauge("agentchat.runs.slots_used", "Runs that a worker has.")
WAITING = Gauge("agentchat.requests.waiting", "Requests that wait in the queue, of all workers.")
OLDEST_WAITING = Gauge("agentchat.requests.oldest_seconds", "How long the oldest of them waits.")
MODEL_CALLS = Histogram(
    "agentchat.model.calls",
    "Calls of model providers, by provider and outcome (ok or an error's kind).",
    _LONG,
)
TOKENS = Counter(
    "agentchat.model.tokens", "Tokens, by provider, model, kind: input, output, cache_read, cache_write."
)
TEXT_ONLY_SEARCHES = Counter(
    "agentchat.knowledge.text_only", "Searches of knowledge without vectors: the embedder was away."
)

# Tool-runner.
TOOL_CALLS = Histogram("agentchat.tools.calls", "Calls of tools, by tool server and outcome.", _LONG)
TOOLS_WAITED = Counter("agentchat.tools.waited", "Tool calls that waited for a slot; begun or refused.")
TOOLS_PUT_BACK = Counter("agentchat.tools.put_back", "Tool calls that were put back for another process.")

# Projector.
LEADING = Gauge(
    "agentchat.projector.leading",
    "1 while this process does what one does for all, such as the feed, else 0.",
)
SHARDS = Gauge("agentchat.projector.shards", "How many of the 16 shards of accounts this process works on.")
LAG = Gauge(
    "agentchat.projector.lag",
    "How long ago a follower was at the end of the log, by follower, that of read models by shard too.",
    "s",
)
WAITING_LINE = Gauge("agentchat.runs.in_line", "Runs that wait for an earlier one of their conversation.")
APPROVALS = Gauge("agentchat.approvals.waiting", "Runs that wait for a person's decision.")

# Notifier.
ATTEMPTS = Counter("agentchat.webhooks.attempts", "Attempts at deliveries, by outcome.")
EVENTS_BEHIND = Gauge(
    "agentchat.webhooks.events_behind",
    "Events of the log from the oldest that an endpoint has not been sent, of the endpoint furthest behind.",
)
ENDPOINTS_FAILING = Gauge(
    "agentchat.webhooks.endpoints_failing", "Enabled endpoints whose last attempt failed."
)
