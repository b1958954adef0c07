"""A server with a script, and a client of either kind that talks to it."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.client.driving import AGENT, DRIVERS, KEY, Clock, Driver
from tests.client.server import Answer, ScriptedServer

Serve = Callable[..., ScriptedServer]
Connect = Callable[..., Driver]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """httpx honours proxy variables, and the client its own: neither may come from outside."""
    for name in [name for name in os.environ if name.startswith("AGENTCHAT_")]:
        monkeypatch.delenv(name)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server with a script; it ends with the test."""
    with contextlib.ExitStack() as running:

        def start(*script: Answer) -> ScriptedServer:
            return running.enter_context(ScriptedServer(*script))

        yield start


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Connect]:
    """Makes a client of a server; the test runs once with each kind."""
    with contextlib.ExitStack() as running:

        def make(server: ScriptedServer | None = None, **options: Any) -> Driver:
            given: dict[str, Any] = {"api_key": KEY, "agent_id": AGENT, "clock": clock}
            if server is not None:
                given["base_url"] = server.url
            driver = DRIVERS[request.param](**(given | options))
            running.callback(driver.close)
            return driver

        yield make
