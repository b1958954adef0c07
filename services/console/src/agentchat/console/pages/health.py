"""Health: every process, readers of the log, migrations, the last errors."""

import asyncio
from collections.abc import Sequence
from importlib import metadata
from urllib.parse import urlsplit

import msgspec
from litestar import get
from litestar.response import Template

from agentchat.console.console_services import ConsoleServices, services_of
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role
from agentchat.console.live.monitor import resolved
from agentchat.ops import record
from agentchat.ops.folder import RunFolder
from agentchat.ops.probes import HttpProbe, Probe, find_unready_reason, list_failing_checks
from agentchat.ops.status.figures import LoggedError, SystemFigures, gather_from, read_last_errors
from agentchat.runtime import metrics
from agentchat.runtime.migrations import AppliedVersion, list_applied_versions
from agentchat.runtime.postgres import DatabaseUnavailable

_ERRORS = 8


class ProcessHealth(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` says why a process is not ready; None where it is. What only the stack of this machine knows
    is None elsewhere.
    """

    name: str
    address: str
    reason: str | None
    version: str | None = None
    restarts: int | None = None
    memory: float | None = None


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """`errors` are None where the logs are not on this machine."""

    processes: list[ProcessHealth]
    figures: SystemFigures
    migrations: list[AppliedVersion]
    errors: list[LoggedError] | None
    version: str

    @property
    def unready(self) -> list[str]:
        return [each.name for each in self.processes if each.reason is not None]


async def _view(services: ConsoleServices) -> HealthView:
    processes, figures, migrations, errors = await asyncio.gather(
        _processes(services),
        gather_from(services.pool, services.bus),
        _migrations(services),
        _errors(services.run_folder),
    )
    return HealthView(
        processes=processes,
        figures=figures,
        migrations=migrations,
        errors=errors,
        version=metadata.version("agentchat-console"),
    )


async def _processes(services: ConsoleServices) -> list[ProcessHealth]:
    """Those of the stack that has started this console, servers among them; else those that are listed."""
    slots = services.monitor.slots
    memory = {services.name: metrics.read_resident_bytes(), **(slots.memory if slots else {})}
    known = None if services.run_folder is None else record.read(services.run_folder.processes)
    if known is not None:
        entries = [(entry, entry.probe) for entry in known.processes if entry.probe is not None]
        looks = (_reason(probe, down=entry.pid is None) for entry, probe in entries)
        return [
            ProcessHealth(
                name=entry.name,
                address=urlsplit(entry.health_url or "").netloc,
                reason=reason,
                version=entry.version,
                restarts=entry.restarts,
                memory=memory.get(entry.name),
            )
            for (entry, _), reason in zip(entries, await asyncio.gather(*looks), strict=True)
        ]
    targets = await resolved(services.settings.watched())
    reasons = await asyncio.gather(*(_reason(_probe(url)) for url in targets.values()))
    return [
        ProcessHealth(name=name, address=urlsplit(url).netloc, reason=reason, memory=memory.get(name))
        for (name, url), reason in zip(targets.items(), reasons, strict=True)
    ]


def _probe(url: str) -> HttpProbe:
    address = urlsplit(url)
    return HttpProbe(address.port or 80, host=address.hostname or "")


async def _reason(probe: Probe, *, down: bool = False) -> str | None:
    if down:
        return "it is restarted"
    reason = await find_unready_reason(probe)
    return None if reason is None else list_failing_checks(reason)


async def _migrations(services: ConsoleServices) -> list[AppliedVersion]:
    """None where the database does not answer: the figures say that."""
    try:
        return await list_applied_versions(services.pool)
    except DatabaseUnavailable:
        return []


async def _errors(folder: RunFolder | None) -> list[LoggedError] | None:
    return None if folder is None else await asyncio.to_thread(_newest_first, folder)


def _newest_first(folder: RunFolder) -> list[LoggedError]:
    found: Sequence[LoggedError] = read_last_errors(folder, _ERRORS)
    return [*reversed(found)]


@get("/health", role=Role.VIEWER)
async def get_health(request: AnyRequest) -> Template:
    """The page; its part alone where htmx asks for it."""
    view = await _view(services_of(request))
    template = "parts/health_now.html" if request.headers.get("hx-request") else "health.html"
    return page(request, template, title="Health", view=view, figures=view.figures)


HANDLERS = (get_health,)
