"""Fixtures for every test: the embedded servers once a run, databases of their own, the whole stack twice."""

import asyncio
import atexit
import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import certifi
import hypothesis
import psycopg
import pytest
import structlog
from psycopg.conninfo import make_conninfo
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import Log, open_log
from agentchat.ops.prepare import migrate
from agentchat.ops.service_processes import Servers
from agentchat.ops.settings import ProcessCounts
from agentchat.runtime import logs
from agentchat.runtime.postgres import Connection, Pool, acquire_connection, open_pool
from agentchat.runtime.task_cancellation import repair_wait_for
from tests.bus.nats_server import NatsServer, render_accounts
from tests.harness import RunningStack, embedded_servers, new_database, running_stack, temporary_folder
from tests.system.collector import Collector, collector
from tests.system.indiscreet import Indiscreet, indiscreet_server

_TEMPLATE = "migrated_template"
_SHARING = {
    "tests/system/": "stack",
    "tests/admin_cli/test_cli_of_a_stack.py": "stack",
    "tests/client/test_system.py": "stack",
    "tests/consumers/": "stack",
    "tests/stack/test_database_users.py": "stack",
    "tests/stack/test_metrics.py": "stack",
    "tests/stack/test_running_stack.py": "stack",
    "tests/stack/test_status.py": "stack",
    "tests/terminal/test_plain.py": "stack",
    "tests/admin_cli/": "admin-cli",
    "tests/console/": "console",
    "tests/mcp_demo/": "mcp-demo",
}
"""By the beginning of a test's id, servers that it shares with others for the whole session."""

# How long an example takes says only what else the machine does.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")

gc.disable()  # until all is imported and collected

# Test modules and services are compiled once, also where the environment keeps Python from writing bytecode.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _trust_one_authority() -> None:
    """Each HTTP client reads all authorities of the machine, in 30 ms: nothing here speaks to one of them."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    with tempfile.NamedTemporaryFile("w", prefix="agentchat-", suffix=".pem", delete=False) as file:
        file.write(first + end)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    os.environ["SSL_CERT_FILE"] = file.name


_trust_one_authority()
repair_wait_for()  # as a process does
# A shell that starts us in the background ignores it, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


class SchedulingByServers(LoadFileScheduling):  # type: ignore[misc]  # of an untyped module
    """Gives each process of `pytest -n` whole files, and all files that share servers to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return _servers_of(nodeid) or str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SchedulingByServers:
    return SchedulingByServers(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of the stack, which take longest."""
    items.sort(key=lambda item: _servers_of(item.nodeid) != "stack")


def _servers_of(nodeid: str) -> str | None:
    return next((servers for start, servers in _SHARING.items() if nodeid.startswith(start)), None)


def pytest_collection_finish() -> None:
    """Exempt what is imported from garbage collection, which else takes a fifth of all CPU time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
async def no_task_outlives_the_session() -> AsyncIterator[None]:
    """A client that is reconnecting to a server which a test has ended may pass over one cancellation."""
    yield
    for _ in range(10):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.5)


@pytest.fixture(scope="module", autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that a test runs in this process says what is logged, and what others capture later."""
    configured, level = structlog.get_config(), logging.getLogger().level
    yield
    structlog.configure(**configured)
    logs.get_logger.cache_clear()
    logging.getLogger().setLevel(level)


@pytest.fixture(scope="session")
async def servers() -> AsyncIterator[Servers]:
    """NATS, Postgres and Valkey. Streams and keys on them are shared: see `fresh_nats_url`."""
    async with embedded_servers() as running:
        yield running


@pytest.fixture(scope="session")
def nats_url(servers: Servers) -> str:
    return servers.nats_url


@pytest.fixture(scope="session")
def redis_url(servers: Servers) -> str:
    return servers.redis_url


@pytest.fixture(scope="session")
async def nats_accounts() -> AsyncIterator[Iterator[str]]:
    """The URLs of accounts of one NATS server, which see nothing of each other."""
    names = [f"account{number}" for number in range(400)]
    with temporary_folder() as folder:
        server = NatsServer(folder, render_accounts(names))
        await server.start()
        yield (f"nats://{name}:x@127.0.0.1:{server.port}" for name in names)
        await server.kill()


@pytest.fixture(scope="module")
def fresh_nats_url(nats_accounts: Iterator[str]) -> str:
    """NATS with streams and subjects of the module's own."""
    return next(nats_accounts)


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A NATS server of the test's own, to be stopped, killed or wiped."""
    server = NatsServer(tmp_path / "nats")
    await server.start()
    yield server
    await server.kill()


@pytest.fixture(scope="module")
def database_url(servers: Servers) -> Iterator[str]:
    """An empty database of the module's own."""
    yield from new_database(servers, "template0")


@pytest.fixture(scope="module")
def migrated_database_url(servers: Servers, migrated_template: str) -> Iterator[str]:
    """A database of the module's own with every table, and no rows but the plans."""
    yield from new_database(servers, migrated_template)


@pytest.fixture(scope="session")
async def migrated_template(servers: Servers) -> str:
    """The name of a database to copy: migrations run once for all."""
    with psycopg.connect(servers.database_url, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {_TEMPLATE} TEMPLATE template0")
    await migrate(make_conninfo(servers.database_url, dbname=_TEMPLATE))
    return _TEMPLATE


@pytest.fixture(scope="module")
async def pool(migrated_database_url: str) -> AsyncIterator[Pool]:
    """Connections to the module's database, as the services have them."""
    async with open_pool(migrated_database_url, max_size=9) as opened:
        yield opened


@pytest.fixture
async def conn(pool: Pool) -> AsyncIterator[Connection]:
    async with acquire_connection(pool, seconds=50) as taken:
        yield taken


@pytest.fixture(scope="module")
async def store(migrated_database_url: str) -> AsyncIterator[ConversationStore]:
    async with open_store(migrated_database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
async def log(migrated_database_url: str) -> AsyncIterator[Log]:
    async with open_log(migrated_database_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def spans() -> Iterator[Collector]:
    """The spans that every service of the stack exports."""
    with collector() as collected:
        yield collected


@pytest.fixture(scope="session")
def leaky_server() -> Iterator[Indiscreet]:
    """A tool server that the stack may call, and that repeats the headers it gets."""
    with indiscreet_server() as server:
        yield server


@pytest.fixture(scope="session")
async def stack(spans: Collector, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningStack]:
    """The whole system, with two of each service that may run twice, started once per test process.

    Of its models `demo-echo` has a price. A test that kills a part waits until that is ready again.
    """
    prices = tmp_path_factory.mktemp("prices") / "prices.json"
    prices.write_text('{"currency": "USD", "models": {"demo-echo": {"input": 1, "output": 2}}}')
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": spans.endpoint, "AGENTCHAT_PRICES": str(prices)}
    async with running_stack(ProcessCounts(gateways=2, orchestrators=2, tool_runners=2), environ) as running:
        yield running
