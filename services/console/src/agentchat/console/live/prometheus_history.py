"""Read the last hour of the charts from Prometheus: its HTTP API, `query_range`.

https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from http.client import HTTPException
from urllib.parse import urlencode

import msgspec

from agentchat.console.live.metrics_history import ENDS, KEPT_SECONDS, TOKEN_KINDS, Point
from agentchat.console.live.metrics_scraper import fetch
from agentchat.contracts.values import Usage

_STEP_SECONDS = 60
_RANGE = "2m"  # has two samples also where Prometheus scrapes once a minute
_QUERIES = {
    "ended": f"sum by (state) (increase(agentchat_runs_ended_total[{_RANGE}])) / 2",
    "tokens": f"sum by (kind) (increase(agentchat_model_tokens_total[{_RANGE}])) / 2",
    "errors": "sum by (provider, outcome) "
    f'(increase(agentchat_model_calls_seconds_count{{outcome!="ok"}}[{_RANGE}])) / 2',
    **{
        part: f"histogram_quantile({part}, "
        f"sum by (le) (rate(agentchat_streams_first_delta_seconds_bucket[{_RANGE}])))"
        for part in ("0.5", "0.99")
    },
}


class HistoryUnavailable(Exception):  # noqa: N818 - reads as the condition it is
    """Prometheus does not answer, or not as its API says."""


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct, frozen=True):
    result: list[_Series]


class _Answer(msgspec.Struct, frozen=True):
    data: _Data


async def load_history(url: str) -> list[Point]:
    """Return the points of the last hour, a minute each, the oldest first.

    `url` is that of Prometheus, such as "http://prometheus:9090". Raises HistoryUnavailable.
    """
    now = time.time()  # noqa: TID251 - as Prometheus does
    answers = await asyncio.gather(*(_query(url, query, now) for query in _QUERIES.values()))
    found = dict(zip(_QUERIES, answers, strict=True))
    times = sorted({at for series in answers for each in series for at, _ in each.values})
    started = time.monotonic() - now
    return [_build_point(at, started + at, found) for at in times]


async def _query(url: str, query: str, now: float) -> list[_Series]:
    asked = {"query": query, "start": now - KEPT_SECONDS, "end": now, "step": _STEP_SECONDS}
    try:
        text = await asyncio.to_thread(fetch, f"{url.rstrip('/')}/api/v1/query_range?{urlencode(asked)}")
        return msgspec.json.decode(text, type=_Answer).data.result
    except (OSError, HTTPException, ValueError) as error:
        raise HistoryUnavailable(str(error)) from error


def _build_point(time_of: float, at: float, found: Mapping[str, list[_Series]]) -> Point:
    def read(name: str, *labels: str) -> dict[str, float]:
        values: dict[str, float] = defaultdict(float)
        for series in found[name]:
            key = ": ".join(series.metric.get(label, "") for label in labels)
            values[key] += sum(float(value) for each, value in series.values if each == time_of)
        return {key: value for key, value in values.items() if value > 0}  # nan too is nothing

    ended, tokens = read("ended", "state"), read("tokens", "kind")
    return Point(
        at=at,
        seconds=_STEP_SECONDS,
        ended={state: ended.get(state, 0.0) for state in ENDS},
        first_delta_p50=read("0.5").get(""),
        first_delta_p99=read("0.99").get(""),
        tokens=Usage(**{field: round(tokens.get(kind, 0.0)) for field, kind in TOKEN_KINDS.items()}),
        model_errors=read("errors", "provider", "outcome"),
    )
