"""Write the dashboards next to this file, which Grafana provisions: `make dashboards` (decision 120).

A panel is a line here: its title, its unit, its queries with their legends. The tests find each metric of
`runtime.metrics` in a panel, and no other.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders.common import VizLegendOptions, VizTooltipOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DashboardLinkType, DataSourceRef

FOLDER = Path(__file__).parent
_SOURCE = DataSourceRef(type_val="prometheus", uid="prometheus")
_TAG = "agentchat"
_WIDTH, _HEIGHT = 8, 8  # of 24 columns


class Query(NamedTuple):
    """PromQL, and what a line of its result is called."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """A graph. `unit` is Grafana's id of it."""

    title: str
    unit: str
    queries: Sequence[Query]


Rows = dict[str, Sequence[Panel]]


def rate(title: str, counter: str, by: str, matching: str = "") -> Panel:
    """How often a second, by a label."""
    expr = f"sum by ({by}) (rate({counter}{matching}[$__rate_interval]))"
    return Panel(title, "ops", [Query(expr, f"{{{{{by}}}}}")])


def times(title: str, histogram: str, by: str = "", parts: Sequence[float] = (0.5, 0.9, 0.99)) -> Panel:
    """Quantiles in seconds, by a label."""
    labels = f"{by}, le" if by else "le"
    buckets = f"sum by ({labels}) (rate({histogram}_bucket[$__rate_interval]))"
    prefix = f"{{{{{by}}}}} " if by else ""
    queries = [Query(f"histogram_quantile({part}, {buckets})", f"{prefix}p{part * 100:g}") for part in parts]
    return Panel(title, "s", queries)


def gauge(title: str, name: str, by: str, unit: str = "short", how: str = "sum") -> Panel:
    """A number as it is, added up or the largest by a label."""
    return Panel(title, unit, [Query(f"{how} by ({by}) ({name})", f"{{{{{by}}}}}")])


FIRING = Panel(
    "Alerts that fire",
    "short",
    [Query('sum by (alertname) (ALERTS{alertstate="firing",alertname=~"Agentchat.*"})', "{{alertname}}")],
)
ANSWERING = Panel(
    "Processes that answer",
    "short",
    [Query('sum by (job) (up{job=~"gateway|orchestrator|tool-runner|projector|notifier"})', "{{job}}")],
)
RUNS = rate("Runs that ended, by state", "agentchat_runs_ended_total", "state")
FAILED = rate("Failed runs, by code", "agentchat_runs_ended_total", "code", '{state="failed"}')
RUN_SECONDS = times("From a run's request to its end", "agentchat_runs_duration_seconds")
FIRST_DELTA = times("Until the first piece of a reply", "agentchat_streams_first_delta_seconds")
STREAMS = Panel("Open streams", "short", [Query("sum(agentchat_streams_open)", "open")])
DELTAS = Panel(
    "Pieces of replies", "ops", [Query("sum(rate(agentchat_runs_deltas_total[$__rate_interval]))", "deltas")]
)
REQUESTS = rate("HTTP requests, by status", "agentchat_http_requests_seconds_count", "status")
SLOTS = Panel(
    "Run slots",
    "short",
    [Query("sum(agentchat_runs_slots)", "all"), Query("sum(agentchat_runs_slots_used)", "used")],
)
WAITING = Panel(
    "What waits",
    "short",
    [
        Query("max(agentchat_requests_waiting)", "requests, for a slot"),
        Query("sum(agentchat_runs_in_line)", "runs, for their conversation"),
        Query("sum(agentchat_approvals_waiting)", "runs, for a person"),
    ],
)
OLDEST = Panel(
    "The oldest request without a slot", "s", [Query("max(agentchat_requests_oldest_seconds)", "it waits")]
)
TAKEOVERS = Panel(
    "Runs taken over in ten minutes",
    "short",
    [Query("sum(increase(agentchat_runs_taken_over_total[10m]))", "runs")],
)
MODEL_CALLS = rate("Model calls, by outcome", "agentchat_model_calls_seconds_count", "outcome")
MODEL_SECONDS = times("Model calls, by provider", "agentchat_model_calls_seconds", "provider", (0.5, 0.9))
TOKENS = rate("Tokens a second, by kind", "agentchat_model_tokens_total", "kind")
TOOL_CALLS = rate("Tool calls, by outcome", "agentchat_tools_calls_seconds_count", "outcome")
TOOL_SECONDS = times("Tool calls, by server", "agentchat_tools_calls_seconds", "server", (0.9,))
LAGS = gauge("Behind the log", "agentchat_projector_lag_seconds", "follower", "s", "max")
ATTEMPTS = rate("Attempts at webhooks, by outcome", "agentchat_webhooks_attempts_total", "outcome")
EVENTS_BEHIND = Panel(
    "Events that the slowest endpoint has to go",
    "short",
    [Query("max(agentchat_webhooks_events_behind)", "events")],
)
ENDPOINTS_FAILING = Panel(
    "Endpoints whose last attempt failed",
    "short",
    [Query("max(agentchat_webhooks_endpoints_failing)", "endpoints")],
)
REFUSED = rate("Requests over a limit, by code", "agentchat_limits_refused_total", "code")
WITHOUT_REDIS = rate("Decisions without Redis", "agentchat_limits_decided_locally_total", "reason")
DROPPED = rate("Frames that were not sent", "agentchat_bus_frames_dropped_total", "job")


def processes(job: str) -> Sequence[Panel]:
    """Memory and event loop of each process of a service, or of all."""
    matching, of = (f'{{job="{job}"}}', f", {job}") if job else ("", "")
    lag = f"rate(agentchat_process_loop_lag_seconds_bucket{matching}[$__rate_interval])"
    return (
        gauge(f"Memory{of}", f"agentchat_process_memory_bytes{matching}", "instance", "bytes"),
        Panel(
            f"How late the event loop is, p90{of}",
            "s",
            [Query(f"histogram_quantile(0.9, sum by (instance, le) ({lag}))", "{{instance}}")],
        ),
    )


OVERVIEW: Rows = {
    "Now": (FIRING, ANSWERING),
    "Runs and streams": (RUNS, FAILED, RUN_SECONDS, FIRST_DELTA, STREAMS, DELTAS, REQUESTS),
    "Queue": (SLOTS, WAITING, OLDEST, TAKEOVERS),
    "Models and tools": (MODEL_CALLS, MODEL_SECONDS, TOKENS, TOOL_CALLS, TOOL_SECONDS),
    "Readers of the log": (LAGS, ATTEMPTS, EVENTS_BEHIND, ENDPOINTS_FAILING),
    "Limits": (REFUSED, WITHOUT_REDIS),
    "Processes": (*processes(""), DROPPED),
}
GATEWAY: Rows = {
    "Requests": (
        REQUESTS,
        times(
            "To the end of the response, by method", "agentchat_http_requests_seconds", "method", (0.5, 0.99)
        ),
        FIRST_DELTA,
        gauge("Open streams, by process", "agentchat_streams_open", "instance"),
    ),
    "Limits": (
        REFUSED,
        WITHOUT_REDIS,
        rate("Months counted again, by whether known", "agentchat_limits_month_uncounted_total", "known"),
    ),
    "Keys": (
        rate("Refused API keys, by reason", "agentchat_keys_refused_total", "reason"),
        rate("Refused admin tokens, by reason", "agentchat_admin_tokens_refused_total", "reason"),
    ),
    "Processes": processes("gateway"),
}
ORCHESTRATOR: Rows = {
    "Runs": (
        RUNS,
        FAILED,
        times(
            "Runs, by state",
            "agentchat_runs_duration_seconds",
            "state",
            (0.5, 0.9),
        ),
        TAKEOVERS,
        DELTAS,
    ),
    "Slots": (
        gauge("Slots used, by worker", "agentchat_runs_slots_used", "worker"),
        SLOTS,
        WAITING,
        OLDEST,
    ),
    "Models": (
        rate("Model calls, by provider", "agentchat_model_calls_seconds_count", "provider"),
        MODEL_CALLS,
        MODEL_SECONDS,
        TOKENS,
        rate("Searches without vectors", "agentchat_knowledge_text_only_total", "job"),
    ),
    "Processes": (*processes("orchestrator"), DROPPED),
}
TOOL_RUNNER: Rows = {
    "Calls": (
        rate("Tool calls, by server", "agentchat_tools_calls_seconds_count", "server"),
        TOOL_CALLS,
        TOOL_SECONDS,
    ),
    "Slots": (
        rate("Calls that waited for a slot, by whether begun", "agentchat_tools_waited_total", "begun"),
        rate("Calls left to another process", "agentchat_tools_put_back_total", "instance"),
    ),
    "Processes": (*processes("tool-runner"), DROPPED),
}
READERS: Rows = {
    "Projectors": (
        gauge("Which projector leads", "agentchat_projector_leading", "instance"),
        gauge("Shards of accounts, by projector", "agentchat_projector_shards", "instance"),
        gauge(
            "Read models behind the log, by shard",
            'agentchat_projector_lag_seconds{follower="read models"}',
            "shard",
            "s",
            "max",
        ),
        LAGS,
        WAITING,
    ),
    "Webhooks": (ATTEMPTS, EVENTS_BEHIND, ENDPOINTS_FAILING),
    "Processes": (*processes("projector"), *processes("notifier")),
}
DASHBOARDS: dict[str, tuple[str, Rows]] = {
    "overview": ("Agent Chat: overview", OVERVIEW),
    "gateway": ("Agent Chat: gateways", GATEWAY),
    "orchestrator": ("Agent Chat: orchestrators", ORCHESTRATOR),
    "tool-runner": ("Agent Chat: tool-runners", TOOL_RUNNER),
    "readers": ("Agent Chat: projectors and notifiers", READERS),
}


def files() -> Iterator[tuple[str, str]]:
    """Each dashboard's file name and text: one panel a line, so that a change is a line of a diff."""
    for name, (title, rows) in DASHBOARDS.items():
        made = json.loads(JSONEncoder(sort_keys=True).encode(_dashboard(name, title, rows).build()))
        panels = ",\n".join(json.dumps(panel) for panel in made.pop("panels"))
        yield f"{name}.json", f'{json.dumps(made)[:-1]}, "panels": [\n{panels}\n]}}\n'


def _dashboard(name: str, title: str, rows: Rows) -> Dashboard:
    made = Dashboard(title).uid(f"{_TAG}-{name}").tags([_TAG]).refresh("30s").time("now-3h", "now").readonly()
    others = DashboardLink("Dashboards of Agent Chat").type(DashboardLinkType.DASHBOARDS).tags([_TAG])
    made.link(others.as_dropdown(True).keep_time(True))
    number = itertools.count(1)
    for row, panels in rows.items():
        made.with_row(Row(row).id(next(number)))
        for panel in panels:
            made.with_panel(_graph(panel).id(next(number)))
    return made


def _graph(panel: Panel) -> TimeSeries:
    graph = TimeSeries().title(panel.title).unit(panel.unit).datasource(_SOURCE).min(0)
    graph.span(_WIDTH).height(_HEIGHT).fill_opacity(10)
    graph.legend(
        VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    graph.tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    for index, query in enumerate(panel.queries):
        graph.with_target(
            Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + index)).range()
        )
    return graph


def main() -> None:
    for name, text in files():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
