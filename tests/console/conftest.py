"""A console process a module, on servers that a test may fill, and a browser without scripts."""

import base64
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.console.pages import Browser
from tests.console.process import ConsoleProcess, console_process


@pytest.fixture(scope="module")
def environ(migrated_database_url: str, fresh_nats_url: str) -> dict[str, str]:
    return {
        "AGENTCHAT_DATABASE_URL": migrated_database_url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_SECRET_KEY": base64.b64encode(b"k" * 32).decode(),
        "AGENTCHAT_MODEL_ALLOW": "127.0.0.1:*",
        "AGENTCHAT_MCP_ALLOW": "127.0.0.1:*",
    }


@pytest.fixture(scope="module")
async def console(environ: dict[str, str]) -> AsyncIterator[ConsoleProcess]:
    with tempfile.TemporaryDirectory() as folder:
        async with console_process(Path(folder), environ) as process:
            yield process


@pytest.fixture
async def browser(console: ConsoleProcess) -> AsyncIterator[Browser]:
    async with Browser(console.url) as opened:
        yield opened
