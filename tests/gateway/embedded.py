"""A gateway in the test's own process and event loop, on a real port and real servers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from agentchat.gateway import service
from agentchat.gateway.settings import GatewaySettings
from agentchat.runtime.settings import load
from tests.ports import find_free_port


class EmbeddedGateway:
    """What callers need to know of it. `stop` is set as by SIGTERM; `serving` ends once it has drained."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.port = find_free_port()
        self.stop = asyncio.Event()
        settings = load(GatewaySettings, {**environ, "AGENTCHAT_PORT": str(self.port)})
        self.serving = asyncio.create_task(service.run(settings, "gateway-1", self.stop))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def run_embedded_gateway(environ: Mapping[str, str]) -> AsyncIterator[EmbeddedGateway]:
    """It runs and is ready while the block runs: the same as a process, but for the start of one."""
    gateway = EmbeddedGateway(environ)
    await wait_until_listening(gateway.port, gateway.serving)
    try:
        yield gateway
    finally:
        gateway.stop.set()
        await gateway.serving


async def wait_until_listening(port: int, serving: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(30):
        while True:
            if serving.done():
                serving.result()
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.01)
