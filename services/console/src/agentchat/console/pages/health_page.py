"""Show the health of the system: processes, readers of the log, migrations, last errors."""

import asyncio
from datetime import UTC, datetime
from importlib import metadata
from urllib.parse import urlsplit

import msgspec
from litestar import get
from litestar.response import Template

from agentchat.console.live.metrics_history import resolve_targets
from agentchat.console.services import ConsoleServices, get_services
from agentchat.console.shared.access_check import AnyRequest
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page
from agentchat.ops import process_record
from agentchat.ops.probes import HttpProbe, Probe, find_unready_reason, list_failing_checks
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.status.system_figures import LoggedError, SystemFigures, gather_from, read_last_errors
from agentchat.runtime import metrics
from agentchat.runtime.migrations import AppliedVersion, list_applied_versions
from agentchat.runtime.postgres import DatabaseUnavailable

_ERRORS = 8


class ProcessHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a process. `reason` says why it is not ready; None if it is.

    Version, restarts and memory are None if the local stack did not start the process. `ended_at` and
    `end_reason` tell of its last end.
    """

    name: str
    address: str
    reason: str | None
    started_at: datetime | None = None
    version: str | None = None
    restarts: int | None = None
    ended_at: datetime | None = None
    end_reason: str | None = None
    memory: float | None = None


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the page. `errors` is None if the logs are not on this machine.

    `retention_lag` is that of `WorkerSlots`, None without metrics of a projector.
    """

    processes: list[ProcessHealth]
    figures: SystemFigures
    migrations: list[AppliedVersion]
    errors: list[LoggedError] | None
    retention_lag: float | None
    version: str

    @property
    def unready(self) -> list[str]:
        """The names of processes that are not ready."""
        return [each.name for each in self.processes if each.reason is not None]


async def _load_view(services: ConsoleServices) -> HealthView:
    processes, figures, migrations, errors = await asyncio.gather(
        _check_processes(services),
        gather_from(services.pool, services.bus),
        _list_migrations(services),
        _list_errors(services.run_folder),
    )
    slots = services.monitor.slots
    return HealthView(
        processes=processes,
        figures=figures,
        migrations=migrations,
        errors=errors,
        retention_lag=None if slots is None else slots.retention_lag,
        version=metadata.version("agentchat-console"),
    )


async def _check_processes(services: ConsoleServices) -> list[ProcessHealth]:
    """Check the processes and servers of the local stack, or those listed in the settings."""
    slots = services.monitor.slots
    memory = {services.name: metrics.read_resident_bytes(), **(slots.memory if slots else {})}
    known = None if services.run_folder is None else process_record.read(services.run_folder.processes)
    if known is not None:
        entries = [(entry, entry.probe) for entry in known.processes if entry.probe is not None]
        looks = (_check_process(probe, down=entry.pid is None) for entry, probe in entries)
        return [
            ProcessHealth(
                name=entry.name,
                address=urlsplit(entry.health_url or "").netloc,
                reason=reason,
                started_at=None if entry.pid is None else datetime.fromtimestamp(entry.started_at, UTC),
                version=entry.version,
                restarts=entry.restarts,
                ended_at=None if entry.ended_at is None else datetime.fromtimestamp(entry.ended_at, UTC),
                end_reason=entry.end_reason,
                memory=memory.get(entry.name),
            )
            for (entry, _), reason in zip(entries, await asyncio.gather(*looks), strict=True)
        ]
    targets = await resolve_targets(services.settings.list_targets())
    reasons = await asyncio.gather(*(_check_process(_probe(url)) for url in targets.values()))
    return [
        ProcessHealth(
            name=name,
            address=urlsplit(url).netloc,
            reason=reason,
            started_at=slots.started.get(name) if slots else None,
            memory=memory.get(name),
        )
        for (name, url), reason in zip(targets.items(), reasons, strict=True)
    ]


def _probe(url: str) -> HttpProbe:
    address = urlsplit(url)
    return HttpProbe(address.port or 80, host=address.hostname or "")


async def _check_process(probe: Probe, *, down: bool = False) -> str | None:
    if down:
        return "restarting"
    reason = await find_unready_reason(probe)
    return None if reason is None else list_failing_checks(reason)


async def _list_migrations(services: ConsoleServices) -> list[AppliedVersion]:
    """List the migrations; none if Postgres does not answer, which the figures show."""
    try:
        return await list_applied_versions(services.pool)
    except DatabaseUnavailable:
        return []


async def _list_errors(folder: RunFolder | None) -> list[LoggedError] | None:
    """Return the last errors in the logs, the newest first."""
    return None if folder is None else [*reversed(await asyncio.to_thread(read_last_errors, folder, _ERRORS))]


@get("/health", role=Role.VIEWER)
async def get_health(request: AnyRequest) -> Template:
    """Show the page; for htmx, its part."""
    view = await _load_view(get_services(request))
    template = "parts/health_now.html" if request.headers.get("hx-request") else "health.html"
    return render_page(request, template, title="Health", view=view, figures=view.figures)


HANDLERS = (get_health,)
