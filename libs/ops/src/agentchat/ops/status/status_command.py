"""`agentchat status`: show processes, figures and the last errors, once or repeatedly."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from agentchat.contracts.text_checks import format_count
from agentchat.conversations.queries.current_activity import FailedRuns
from agentchat.ops import demo_env, printing, process_record
from agentchat.ops.errors import NotRunningError
from agentchat.ops.probes import find_unready_reason, list_failing_checks
from agentchat.ops.process_record import Entry
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.status import system_figures as figures_
from agentchat.ops.status.system_figures import (
    FAILED_HOURS,
    Lag,
    LoggedError,
    SystemFigures,
    read_last_errors,
)
from agentchat.webhooks.delivery_queue import EndpointFigures

State = Literal["ready", "not ready", "down"]
_OF_ENTRY = ("name", "pid", "health_url", "metrics_url", "version", "restarts", "log")


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a process; `reason` says why it is not ready.

    `health_url` is None for servers without HTTP, `metrics_url` for those without metrics. `started_at` (ISO
    8601, UTC) and `up_seconds` are None while it is down.
    """

    name: str
    pid: int | None
    health_url: str | None
    metrics_url: str | None
    version: str
    state: State
    reason: str | None
    started_at: str | None
    up_seconds: float | None
    restarts: int
    last_end_at: str | None
    last_end_reason: str | None
    log: str


async def _probe_service(entry: Entry) -> ServiceStatus:
    state: State = "down"
    reason: str | None = f"{entry.end_reason}; being restarted" if entry.end_reason else "being restarted"
    if entry.pid is not None and entry.probe is not None:
        reason = await find_unready_reason(entry.probe)
        state = "ready" if reason is None else "not ready"
    runs = entry.pid is not None
    return ServiceStatus(
        **{name: getattr(entry, name) for name in _OF_ENTRY},
        state=state,
        reason=None if reason is None else list_failing_checks(reason),
        started_at=_format_time(entry.started_at) if runs else None,
        up_seconds=round(time.time() - entry.started_at, 1) if runs else None,
        last_end_at=None if entry.ended_at is None else _format_time(entry.ended_at),
        last_end_reason=entry.end_reason,
    )


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


_EVERY_SECONDS = 2.0
_ERRORS = 5
_CLEAR = "\x1b[H\x1b[2J"
_STARTING = "the stack is starting, or stopping"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a stack, as `--json` prints it. `ready` is true if every process is ready."""

    ready: bool
    rehearsal: bool
    run_dir: str
    base_url: str | None
    services: list[ServiceStatus]
    figures: SystemFigures
    errors: list[LoggedError]


def show_status(*, as_json: bool, watch: bool) -> bool:
    """Print the state; return True if all processes are ready. With `watch`, repeat until Ctrl-C.

    Raises NotRunningError.
    """
    folder = demo_env.find_run_folder()
    ready = True
    if watch:  # a shell may have started it with SIGINT ignored
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
    try:
        while True:
            found = asyncio.run(_load_status(folder))
            ready = found.ready
            print_status(found, as_json=as_json, clear=watch and sys.stdout.isatty(), lines=watch)
            if not watch:
                return ready
            time.sleep(_EVERY_SECONDS)
    except KeyboardInterrupt:  # also while it asks: that takes most of the time on a busy machine
        if not watch:
            raise
        return ready


async def _load_status(folder: RunFolder) -> Status:
    kept = process_record.load_running(folder)
    entries = [entry for entry in kept.processes if entry.probe is not None]
    services = await asyncio.gather(*map(_probe_service, entries))  # within the time of one probe
    away = [server for server in ("postgres", "nats") if _is_away(server, services)]
    base_url, rehearsal = None, False
    figures = SystemFigures(unknown=[_STARTING])
    with contextlib.suppress(NotRunningError):
        known = demo_env.load(folder)
        base_url, rehearsal = known.base_url, known.rehearsal is not None
        figures = await figures_.gather_figures(known, away)
    return Status(
        ready=all(each.state == "ready" for each in services),
        rehearsal=rehearsal,
        run_dir=str(folder.path),
        base_url=base_url,
        services=services,
        figures=figures,
        errors=read_last_errors(folder, _ERRORS),
    )


def _is_away(server: str, services: Sequence[ServiceStatus]) -> bool:
    """Return True if no process of the server is ready."""
    states = [each.state for each in services if each.name.partition("-")[0] == server]
    return bool(states) and "ready" not in states


def print_status(found: Status, *, as_json: bool = False, clear: bool = False, lines: bool = False) -> None:
    """Print the state; `lines` prints JSON on one line, `clear` clears the terminal first."""
    if as_json and lines:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    elif as_json:
        printing.print_json(found)
    else:
        sys.stdout.write(_CLEAR if clear else "")
        sys.stdout.write(f"{demo_env.REHEARSAL}\n\n" if found.rehearsal else "")
        _print_services(found.services)
        sys.stdout.write("\n")
        printing.print_texts(_format_figures(found))
    sys.stdout.flush()


def _print_services(services: list[ServiceStatus]) -> None:
    rows = [
        [
            each.name,
            "" if each.pid is None else str(each.pid),
            "" if each.up_seconds is None else f"{each.up_seconds:.0f} s",
            _format_restarts(each),
            each.version,
            each.state if each.reason is None else f"{each.state}: {each.reason}",
        ]
        for each in services
    ]
    printing.print_table(["PROCESS", "PID", "UP", "RESTARTS", "VERSION", "STATE"], rows)


def _format_restarts(service: ServiceStatus) -> str:
    if not service.restarts or service.last_end_at is None:
        return f"{service.restarts:,}"
    return f"{service.restarts:,}, last {service.last_end_at[:19]}Z: {service.last_end_reason}"


def _format_failed_runs(failed: Sequence[FailedRuns]) -> str:
    """Format the failed runs of the last hours by code, or their absence."""
    if not failed:
        return f"none in the last {FAILED_HOURS} h"
    codes = ", ".join(f"{each.code} {each.runs:,}" for each in failed)
    last = max(each.last_at for each in failed)[:19]
    return f"{sum(each.runs for each in failed):,} in the last {FAILED_HOURS} h, last {last}Z: {codes}"


def _format_figures(found: Status) -> Iterator[tuple[str, str]]:
    figures = found.figures
    if (runs := figures.runs) is not None:
        oldest = f", the oldest for {runs.oldest_run_seconds:.0f} s" if runs.open_runs else ""
        yield "runs", f"{runs.open_runs:,} active{oldest}"
        yield "approvals", f"{runs.approvals:,} pending"
        yield "waiting", f"{format_count(runs.waiting_messages, 'message')} queued for a busy conversation"
    if figures.failed_runs is not None:
        yield "failed runs", _format_failed_runs(figures.failed_runs)
    for queue in figures.queues or ():
        oldest = f", the oldest for {queue.oldest_seconds:.0f} s" if queue.waiting else ""
        yield "queue", f"{queue.name}: {queue.waiting:,} waiting{oldest}"
    yield from _format_lags(figures.lags)
    if figures.runs is not None:
        yield "projector", f"{figures.projector} is the leader" if figures.projector else "no leader"
    if figures.webhooks is not None:
        yield "webhooks", _format_webhooks(figures.webhooks)
    for reason in figures.unknown:
        yield "unknown", reason
    if not found.errors:
        yield "log errors", "none since the start"
    for error in found.errors:
        yield "error", f"{error.at[:19]}Z {error.service}: {error.text}"


def _format_lags(lags: list[Lag]) -> Iterator[tuple[str, str]]:
    """Format the lags in one line if all are up to date, else in one line each."""
    late = [each for each in lags if each.behind or each.parked]
    if lags and not late:
        yield "read models", "up to date, EVENTS too" if lags[-1].name == "EVENTS" else "up to date"
    for each in late:
        parked = f", {format_count(each.parked, 'event')} could not be applied" if each.parked else ""
        yield "lag", f"{each.name}: {format_count(each.behind, 'position')} behind the log{parked}"


def _format_webhooks(webhooks: EndpointFigures) -> str:
    if not webhooks.endpoints:
        return "no endpoints"
    return (
        f"{format_count(webhooks.endpoints, 'endpoint')}, {webhooks.failing:,} failing, "
        f"{webhooks.waiting:,} with deliveries to send, "
        f"at most {format_count(webhooks.behind, 'event')} behind"
    )
