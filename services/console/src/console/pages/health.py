"""Health: every process, the queues, how far readers of the log are, webhooks."""

import asyncio
from urllib.parse import urlsplit

import msgspec
from litestar import get
from litestar.response import Template

from console.console_services import ConsoleServices, services_of
from console.frame.access import AnyRequest
from console.frame.rendering import page
from ops.probes import HttpProbe, failing_checks, reason_unready
from ops.status.figures import SystemFigures, gather_from


class ProcessHealth(msgspec.Struct, frozen=True):
    """`reason` says why a process is not ready; None where it is."""

    name: str
    address: str
    reason: str | None


async def _process(name: str, url: str) -> ProcessHealth:
    address = urlsplit(url)
    reason = await reason_unready(HttpProbe(address.port or 80, host=address.hostname or ""))
    return ProcessHealth(name, address.netloc, None if reason is None else failing_checks(reason))


async def _look(services: ConsoleServices) -> tuple[list[ProcessHealth], SystemFigures]:
    watched = services.settings.watched()
    processes, figures = await asyncio.gather(
        asyncio.gather(*(_process(name, url) for name, url in watched.items())),
        gather_from(services.pool, services.bus),
    )
    return processes, figures


@get("/health")
async def get_health(request: AnyRequest) -> Template:
    """The page; its part alone where htmx asks for it."""
    processes, figures = await _look(services_of(request))
    template = "parts/health_now.html" if request.headers.get("hx-request") else "health.html"
    return page(request, template, title="Health", processes=processes, figures=figures)


HANDLERS = (get_health,)
