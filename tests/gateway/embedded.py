"""A gateway in the test's own process, or in one of its own."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from agentchat.gateway import service
from agentchat.gateway.settings import GatewaySettings
from agentchat.runtime.settings import load
from tests.ports import find_free_port
from tests.support.embedded_service import EmbeddedService, run_embedded
from tests.support.http_service import HttpService


def run_embedded_gateway(environ: Mapping[str, str]) -> AbstractAsyncContextManager[EmbeddedService]:
    port = find_free_port()
    settings = load(GatewaySettings, {**environ, "AGENTCHAT_PORT": str(port)})

    async def run(stop: asyncio.Event) -> None:
        await service.run(settings, "gateway-1", stop)

    return run_embedded(port, run)


class GatewayProcess(HttpService):
    """`python -m gateway` on a free port."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__("gateway", "AGENTCHAT_PORT", folder, environ)
