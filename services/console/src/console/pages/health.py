"""Health: every process, readers of the log, migrations, the last errors, rebuilds and verifications."""

import asyncio
from collections.abc import Sequence
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect, Template

from administration.admin_read_models import NewReadModelJob
from console.console_services import ConsoleServices, services_of
from console.frame.access import AnyRequest
from console.frame.acting import administer
from console.frame.rendering import page
from console.frame.roles import Role
from console.live.monitor import resolved
from contracts.admin_errors import AdminError, Conflict, Invalid
from conversations.event_store.log import Log
from conversations.projections.read_model_jobs import JobKind, ReadModelJob
from conversations.queries.under_way import BeingBuilt, being_built
from ops import record
from ops.folder import RunFolder
from ops.probes import HttpProbe, Probe, failing_checks, reason_unready
from ops.status.figures import LoggedError, SystemFigures, gather_from, last_errors
from runtime import metrics
from runtime.migrations import AppliedVersion, applied_versions
from runtime.postgres import DatabaseUnavailable

_ERRORS = 8
_JOBS = 6


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


class ReadModelsView(msgspec.Struct, frozen=True, kw_only=True):
    """The last jobs, the newest first; None where the database does not answer.

    `built` are those that a command or an upgrade builds or compares, of a log that ends at `log_end`.
    """

    jobs: Sequence[ReadModelJob] | None
    built: Sequence[BeingBuilt] = ()
    log_end: int = 0

    @property
    def under_way(self) -> ReadModelJob | None:
        return self.jobs[0] if self.jobs and self.jobs[0].ended_at is None else None


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
    memory = {services.name: metrics.resident_bytes(), **(slots.memory if slots else {})}
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
    reason = await reason_unready(probe)
    return None if reason is None else failing_checks(reason)


async def _migrations(services: ConsoleServices) -> list[AppliedVersion]:
    """None where the database does not answer: the figures say that."""
    try:
        return await applied_versions(services.pool)
    except DatabaseUnavailable:
        return []


async def _errors(folder: RunFolder | None) -> list[LoggedError] | None:
    return None if folder is None else await asyncio.to_thread(_newest_first, folder)


def _newest_first(folder: RunFolder) -> list[LoggedError]:
    found: Sequence[LoggedError] = last_errors(folder, _ERRORS)
    return [*reversed(found)]


async def _read_models(request: AnyRequest) -> ReadModelsView:
    pool = services_of(request).pool
    try:
        found = await administer(request, "GET /read_model_jobs", limit=_JOBS)
        built, log_end = await being_built(pool), await Log(pool).head()
    except (AdminError, DatabaseUnavailable):
        return ReadModelsView(jobs=None)
    view = ReadModelsView(jobs=found.items, log_end=log_end)
    own = set() if view.under_way is None else set(view.under_way.read_models)
    return msgspec.structs.replace(view, built=[each for each in built if each.name not in own])


async def _page(request: AnyRequest, problem: str = "", *, status_code: int = 200) -> Template:
    view, read_models = await asyncio.gather(_view(services_of(request)), _read_models(request))
    return page(
        request,
        "health.html",
        title="Health",
        view=view,
        figures=view.figures,
        read_models=read_models,
        problem=problem,
        status_code=status_code,
    )


@get("/health", role=Role.VIEWER)
async def get_health(request: AnyRequest) -> Template:
    """The page; its part alone where htmx asks for it."""
    if not request.headers.get("hx-request"):
        return await _page(request)
    view = await _view(services_of(request))
    return page(request, "parts/health_now.html", view=view, figures=view.figures)


@get("/health/read-models", role=Role.VIEWER)
async def get_read_models(request: AnyRequest) -> Template:
    """The part that shows how far a job is."""
    return page(request, "parts/read_model_jobs.html", read_models=await _read_models(request))


@post("/health/verify", status_code=303, role=Role.OPERATOR)
async def post_verify(request: AnyRequest) -> Response[Any]:
    """Have a read model, or all, compared with the log."""
    return await _start(request, "verify")


@post("/health/rebuild", status_code=303, role=Role.OWNER)
async def post_rebuild(request: AnyRequest) -> Response[Any]:
    """Have a read model, or all, built again."""
    return await _start(request, "rebuild")


@post("/health/jobs/{job_id:str}/stop", status_code=303, role=Role.OPERATOR)
async def post_stop(request: AnyRequest, job_id: FromPath[str]) -> Response[Any]:
    try:
        await administer(request, "POST /read_model_jobs/{job_id}/stop", job_id=job_id)
    except Conflict as error:
        return await _page(request, str(error), status_code=409)
    return Redirect("/health#read-models", status_code=303)


async def _start(request: AnyRequest, kind: JobKind) -> Response[Any]:
    name = str((await request.form()).get("read_model", ""))
    new = NewReadModelJob(kind=kind, read_models=(name,) if name else ())
    try:
        await administer(request, "POST /read_model_jobs", new=new)
    except Conflict as error:
        return await _page(request, str(error), status_code=409)
    except Invalid as error:
        return await _page(
            request, f"There is no read model {name[:100]!r}: it {error.reason}", status_code=400
        )
    return Redirect("/health#read-models", status_code=303)


HANDLERS = (get_health, get_read_models, post_verify, post_rebuild, post_stop)
