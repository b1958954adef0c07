"""Fixtures for every test: the embedded servers once a run, databases of their own, the whole stack twice."""

import asyncio
import atexit
import contextlib
import gc
import itertools
import logging
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import certifi
import hypothesis
import psycopg
import pytest
import structlog
from execnet import XSpec
from psycopg.conninfo import make_conninfo

from conversations.event_store.log import Log, open_log
from conversations.event_store.store import ConversationStore, open_store
from ops.prepare import migrate
from ops.settings import Counts
from ops.stack import Servers
from runtime.cancellation import repair_wait_for
from runtime.postgres import Connection, Pool, connection, open_pool
from tests.bus.nats_server import NatsServer
from tests.harness import RunningStack, embedded_nats, embedded_servers, running_stack
from tests.scheduling import ByFile, long_ones_first, unit_of
from tests.support import xdist_process
from tests.support.forked import own_fork_servers, start_collected
from tests.system.collector import Collector, collector
from tests.system.indiscreet import Indiscreet, indiscreet_server

_numbers = itertools.count(1)
_TEMPLATE = "migrated_template"
_FOLLOWING = pytest.StashKey[pytest.Item | None]()
"""Of a session: the test after the one that is torn down."""

# How long an example takes says only what else the machine does.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")


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


def pytest_configure(config: pytest.Config) -> None:
    """The processes of xdist share the fork servers of the one that started them."""
    gc.disable()  # until all is imported
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        own_fork_servers()


def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """The processes of xdist are forked from one that has imported all tests, which takes 5 CPU-s."""
    start_collected(config.invocation_params.args)
    for spec in specs:
        spec.python = shlex.join((sys.executable, "-I", "-S", xdist_process.__file__))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long begin first, so that none is left alone at the end."""
    long_ones_first(items)


def pytest_collection_finish() -> None:
    """What is imported stays: looking through it again and again takes a fifth of the time of all tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Fixtures may look what comes next."""
    item.session.stash[_FOLLOWING] = nextitem


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """How tests are shared out among processes."""
    return ByFile(config, log)


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


@pytest.fixture(scope="module")
async def fresh_nats_url() -> AsyncIterator[str]:
    """A NATS server of the module's own: stream names are global."""
    async with embedded_nats() as url:
        yield url


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
    yield from _database(servers, "template0")


@pytest.fixture(scope="module")
def migrated_database_url(servers: Servers, migrated_template: str) -> Iterator[str]:
    """A database of the module's own with every table, and no rows but the plans."""
    yield from _database(servers, migrated_template)


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
    async with connection(pool, seconds=50) as taken:
        yield taken


@pytest.fixture
async def store(migrated_database_url: str) -> AsyncIterator[ConversationStore]:
    async with open_store(migrated_database_url) as opened:
        yield opened


@pytest.fixture
async def log(migrated_database_url: str) -> AsyncIterator[Log]:
    async with open_log(migrated_database_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def spans() -> Iterator[Collector]:
    """The spans that every service of the stack exports."""
    with collector() as collected:
        yield collected


@pytest.fixture(scope="session")
def indiscreet() -> Iterator[Indiscreet]:
    """A tool server that the stack may call, and that repeats the headers it gets."""
    with indiscreet_server() as server:
        yield server


class _SharedStack:
    """The stack of a unit of work: it starts when a test first needs it, and stops when the unit is done."""

    def __init__(self, spans: Collector) -> None:
        self._counts = Counts(gateways=2, orchestrators=2, tool_runners=2)
        self._more = {"OTEL_EXPORTER_OTLP_ENDPOINT": spans.endpoint}
        self._exit = contextlib.AsyncExitStack()
        self._running: RunningStack | None = None

    async def running(self) -> RunningStack:
        if self._running is None:
            starting = running_stack(self._counts, self._more, forked=True)
            self._running = await self._exit.enter_async_context(starting)
        return self._running

    async def aclose(self) -> None:
        self._running = None
        await self._exit.aclose()


@pytest.fixture(scope="session")
async def shared_stack(spans: Collector) -> AsyncIterator[_SharedStack]:
    async with contextlib.aclosing(_SharedStack(spans)) as shared:
        yield shared


@pytest.fixture(scope="module")
async def stack(request: pytest.FixtureRequest, shared_stack: _SharedStack) -> AsyncIterator[RunningStack]:
    """The whole system, two of each service that may run twice. Who breaks it waits until it has healed.

    It is not left running for other units: idle, it takes 4 % of a core.
    """
    yield await shared_stack.running()
    following = request.session.stash[_FOLLOWING]
    if following is None or unit_of(following.nodeid) != unit_of(request.node.nodeid):
        await shared_stack.aclose()


def _database(servers: Servers, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    with psycopg.connect(servers.database_url, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield servers.database_url.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(servers.database_url, autocommit=True) as owner:
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
