"""A console in the test's own process, on real servers."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from agentchat.console import service
from agentchat.console.settings import ConsoleSettings
from agentchat.runtime.settings import load
from tests.ports import find_free_port
from tests.support.embedded_service import EmbeddedService, run_embedded

URL = "https://console.example"
TOKEN = "the-administrators-token"
GUARDED = {"AGENTCHAT_ADMIN_TOKEN": TOKEN, "AGENTCHAT_CONSOLE_URL": URL}


def run_console(environ: Mapping[str, str]) -> AbstractAsyncContextManager[EmbeddedService]:
    """It runs and is ready while the block runs."""
    port = find_free_port()
    settings = load(ConsoleSettings, {**environ, "AGENTCHAT_CONSOLE_PORT": str(port)})
    settings.check()

    async def run(stop: asyncio.Event) -> None:
        await service.run(settings, "console-1", stop)

    return run_embedded(port, run)
