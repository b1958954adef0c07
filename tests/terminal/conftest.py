"""A scripted service, and terminals that talk to it."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.client.driving import AGENT, KEY
from tests.client.server import Answer, ScriptedServer
from tests.terminal.terminal import Terminal

Open = Callable[..., tuple[Terminal, ScriptedServer]]


def at(server: ScriptedServer) -> dict[str, str]:
    """The environment that leads to it."""
    return {"AGENTCHAT_BASE_URL": server.url, "AGENTCHAT_API_KEY": KEY, "AGENTCHAT_AGENT_ID": AGENT}


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    """Opens `agentchat chat` on a server that gives these answers, one after the other."""
    with contextlib.ExitStack() as running:

        def opened(
            *script: Answer, arguments: tuple[str, ...] = (), rows: int = 24
        ) -> tuple[Terminal, ScriptedServer]:
            server = running.enter_context(ScriptedServer(*script))
            return running.enter_context(
                Terminal(tmp_path, at(server), ("chat", *arguments), rows=rows)
            ), server

        yield opened
