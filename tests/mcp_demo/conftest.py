"""One server for all tests that only read, and one for those that write."""

from collections.abc import Iterator

import pytest

from agentchat.mcp_demo.shop import Shop, open_shop
from tests.mcp_demo.demo_server import DemoServer, run_demo_server


@pytest.fixture(scope="session")
def server() -> Iterator[DemoServer]:
    with run_demo_server() as started:
        yield started


@pytest.fixture(scope="session")
def own_server() -> Iterator[DemoServer]:
    """A server for one test that changes the shop."""
    with run_demo_server() as started:
        yield started


@pytest.fixture
def shop() -> Shop:
    return open_shop()
