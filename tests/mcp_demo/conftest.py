"""One server for all tests that only read, and one for those that write."""

from collections.abc import Iterator

import pytest

from agentchat.mcp_demo.shop import Shop, open_shop
from tests.mcp_demo.demo_server import DemoServer, running


@pytest.fixture(scope="session")
def server() -> Iterator[DemoServer]:
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def own_server() -> Iterator[DemoServer]:
    """For tests that change the shop."""
    with running() as started:
        yield started


@pytest.fixture
def shop() -> Shop:
    return open_shop()
