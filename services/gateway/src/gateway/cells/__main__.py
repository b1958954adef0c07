"""`python -m gateway.cells --name router-1`: route AGENTCHAT_HOST:AGENTCHAT_PORT to AGENTCHAT_CELLS."""

import asyncio
from collections.abc import Mapping
from functools import partial

from gateway.cells.cell_settings import CellSettings
from runtime import worker
from runtime.settings import SettingsError, load_or_exit, refuse


def main() -> None:
    arguments = worker.parse_process_args()
    settings = load_or_exit(CellSettings)
    try:
        cells = settings.addresses()
    except SettingsError as error:
        refuse(error)

    from runtime import logs, metrics, telemetry

    name = arguments.name or "router"
    logs.configure(name, settings.log_level)
    telemetry.configure("router", settings.otlp_endpoint)
    metrics.start("router", name, settings.otlp_endpoint)
    worker.run(partial(serve, settings, cells))


async def serve(settings: CellSettings, cells: Mapping[str, str], stop: asyncio.Event) -> None:
    """Route until `stop` is set; open answers then have 9 s to end, and are broken off."""
    import contextlib

    from gateway.cells.cell_proxy import CellProxy, open_session
    from gateway.http.middleware import RequestMiddleware
    from gateway.http.strict_protocol import StrictProtocol
    from runtime import web
    from runtime.health import HealthChecks, serve_health

    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        if settings.health_port is not None:
            await stack.enter_async_context(
                serve_health(HealthChecks({}), settings.host, settings.health_port)
            )
        await web.serve(
            RequestMiddleware(CellProxy(cells, session)),
            settings.host,
            settings.port,
            stop,
            grace_s=9.0,
            protocol=partial(StrictProtocol, max_connections=web.within_open_files(settings.max_connections)),
        )


if __name__ == "__main__":
    main()
