"""The stack for tests: embedded servers alone, or the whole system as `agentchat up` runs it."""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psycopg

from agentchat.bus.nats_users import PROVISIONER
from agentchat.ops import demo_env, folder_secrets, process_record
from agentchat.ops.demo_env import Environment
from agentchat.ops.errors import NotRunningError, StartError
from agentchat.ops.folder_secrets import Secrets
from agentchat.ops.free_ports import find_free_port
from agentchat.ops.probes import NOT_READY
from agentchat.ops.process import wrap_command
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers import nats
from agentchat.ops.service_processes import Servers
from agentchat.ops.settings import ProcessCounts
from agentchat.ops.stack import describe_servers
from agentchat.ops.stack_report import QuietReport, read_last_lines
from agentchat.ops.supervisor import Supervisor
from tests.support import contained

_START_SECONDS = contained.STACK_SECONDS if os.environ.get(contained.IMAGE) else 120.0
_STOP_SECONDS = 90.0
_numbers = itertools.count(1)


@contextlib.asynccontextmanager
async def embedded_servers() -> AsyncIterator[Servers]:
    """NATS, Postgres (without durability) and Valkey in a temporary folder, while the block runs."""
    with _temporary_run_folder() as folder:
        servers = describe_servers(folder, Secrets().servers_key, fast=True)
        async with Supervisor(folder, servers.processes, QuietReport()) as supervisor:
            await supervisor.wait_up(_START_SECONDS)
            yield servers


@contextlib.asynccontextmanager
async def embedded_nats() -> AsyncIterator[str]:
    """The URL of an empty NATS server; it takes some 50 ms, so that each test module can have its own."""
    with _temporary_run_folder() as folder:
        port = find_free_port()
        async with Supervisor(folder, [nats.describe_process(folder, port)], QuietReport()) as supervisor:
            await supervisor.wait_up(_START_SECONDS)
            yield nats.build_url(port)


def new_database(servers: Servers, template: str) -> Iterator[str]:
    """The URL of a new database, which is dropped at the end.

    Its files are copied: by way of the write-ahead log, the default, it takes ten times the CPU time (0.4 s).
    """
    name = f"test_{next(_numbers)}"
    with psycopg.connect(servers.database_url, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield servers.database_url.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(servers.database_url, autocommit=True) as owner:
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def temporary_folder(prefix: str = "agentchat-") -> Iterator[Path]:
    """Other users may pass through it: in a stack that root started Postgres runs as one of them."""
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@contextlib.contextmanager
def _temporary_run_folder() -> Iterator[RunFolder]:
    with temporary_folder() as path:
        folder = RunFolder(path)
        folder.create()
        yield folder


class RunningStack:
    """A stack in a process of its own. Ends with this process, whatever becomes of it."""

    def __init__(self, folder: RunFolder, up: "subprocess.Popen[bytes]", log: Path) -> None:
        self.folder = folder
        self.log = log
        self._up = up
        self._killed: dict[str, int] = {}

    @property
    def environment(self) -> Environment:
        """Addresses, keys and ids. Raises NotRunningError before it is up."""
        return demo_env.load(self.folder)

    @property
    def provisioner_url(self) -> str:
        """NATS for the one who may change streams and consumers."""
        kept = folder_secrets.load_or_create_secrets(self.folder.secrets)
        port = urlsplit(self.environment.nats_url).port or 0
        return nats.build_url(port, kept.servers_key, PROVISIONER)

    def names(self) -> tuple[str, ...]:
        """Every process, servers too: gateway-1, ..., postgres."""
        kept = process_record.read(self.folder.processes)
        return tuple(entry.name for entry in kept.processes if entry.probe) if kept else ()

    def pid(self, name: str) -> int:
        """Raises NotRunningError while it is down."""
        pid = self._entry(name).pid
        if pid is None:
            raise NotRunningError(f"{name} is down")
        return pid

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send it a signal; returns its process id."""
        pid = self.pid(name)
        os.kill(pid, number)
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            self._killed[name] = pid
        return pid

    async def wait_ready(self, name: str, seconds: float = 60.0) -> int:
        """Until it is ready, in a new process if it was killed; returns the id. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                entry = self._entry(name)
                if entry.pid not in (None, self._killed.get(name)) and entry.probe:
                    with contextlib.suppress(*NOT_READY):
                        await entry.probe.check()
                        assert entry.pid is not None
                        return entry.pid
                await asyncio.sleep(0.05)

    async def wait_all_ready(self, seconds: float = 90.0) -> None:
        await asyncio.gather(*(self.wait_ready(name, seconds) for name in self.names()))

    async def wait_up(self, seconds: float = _START_SECONDS) -> None:
        """Until it is up. Raises StartError with the last lines where it ends, or is slow."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._up.poll() is None:
                    with contextlib.suppress(NotRunningError):
                        demo_env.load(self.folder)
                        return
                    await asyncio.sleep(0.05)
        lines = "\n".join(read_last_lines(self.log))
        raise StartError(f"the stack is not up (exit code {self._up.poll()}): {lines}")

    async def wait_end(self, seconds: float = _STOP_SECONDS) -> int:
        """Until `agentchat up` has ended; returns its exit code. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while (code := self._up.poll()) is None:  # noqa: ASYNC110 - polled, so that any event loop will do
                await asyncio.sleep(0.02)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to `agentchat up` alone."""
        self._up.send_signal(number)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it as a user would; returns the exit code. It is killed if it does not end."""
        if self._up.poll() is None:
            self._up.send_signal(number)
        try:
            return await self.wait_end()
        except TimeoutError:
            self._up.kill()
            return await self.wait_end()

    def _entry(self, name: str) -> process_record.Entry:
        kept = process_record.read(self.folder.processes)
        entry = kept.find(name) if kept else None
        if entry is None:
            raise NotRunningError(f"no process {name} in {self.folder.path}")
        return entry


def start_stack(
    run_dir: Path,
    counts: ProcessCounts | None = None,
    environ: Mapping[str, str] | None = None,
) -> RunningStack:
    """Start `agentchat up` on free ports without waiting for it (`wait_up` does).

    `environ` is added to the environment. If TESTS_IMAGE is set, each service runs in a container of
    that image (`support.contained`).
    """
    counts = counts or ProcessCounts()
    folder = RunFolder(run_dir)
    if not folder.is_in_use():
        folder.demo_env.unlink(missing_ok=True)  # left by a stack that was killed
    log = folder.path.with_name(folder.path.name + ".up.log")
    numbers = [str(number) for number in msgspec.structs.astuple(counts)]
    if os.environ.get(contained.IMAGE):
        command = (sys.executable, "-m", "tests.support.contained_up", *numbers)
    else:
        names = [f"--{name.replace('_', '-')}" for name in ProcessCounts.__struct_fields__]
        options = zip(names, numbers, strict=True)
        command = (sys.executable, "-m", "agentchat.ops.main", "up", *itertools.chain.from_iterable(options))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        inherited.pop(key, None)
    ours = {"AGENTCHAT_RUN_DIR": str(folder.path), "AGENTCHAT_PORT": "0"}
    with log.open("ab") as output:
        up = subprocess.Popen(
            wrap_command(command, signal.SIGTERM),
            env=inherited | ours | dict(environ or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return RunningStack(folder, up, log)


@contextlib.asynccontextmanager
async def running_stack(
    counts: ProcessCounts | None = None, environ: Mapping[str, str] | None = None
) -> AsyncIterator[RunningStack]:
    """A whole stack in a temporary folder, up while the block runs."""
    with temporary_folder() as name:
        stack = start_stack(name / "run", counts, environ)
        try:
            await stack.wait_up()
            yield stack
        finally:
            await stack.stop()
