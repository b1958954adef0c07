"""Service processes for tests, each in a container of the image in TESTS_IMAGE, as compose.yaml confines it.

Their secrets are files. Servers stay processes of this machine, and the network is its own. PODMAN is the
command, with options that the machine needs.
"""

import asyncio
import contextlib
import os
import resource
import shlex
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
import psutil

from agentchat.ops import process
from agentchat.ops.errors import StartError
from agentchat.ops.prepare import PrepareSettings
from agentchat.ops.process import Child, Process
from agentchat.runtime.settings import FILE_SUFFIX
from tests.deploy.container_settings import SETTINGS, all_settings

IMAGE = "TESTS_IMAGE"
_START_SECONDS = 120.0
STACK_SECONDS = 600.0
"""Until a stack is up: each service is imported in a container of its own, with nothing cached."""
_PROCESSES = 4096
_OURS = ("AGENTCHAT_", "ANTHROPIC_", "OPENAI_", "OTEL_")
_STRUCTS: tuple[type[msgspec.Struct], ...] = (*SETTINGS.values(), PrepareSettings)
_SECRET = {setting.name for settings in _STRUCTS for setting in all_settings(settings) if setting.secret}
_CONFINED = (
    *("--rm", "--init", "--network=host", "--log-driver=none"),
    *("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"),
)


class ContainedProcess:
    """The service within a container; `engine` is the command that runs this."""

    def __init__(self, engine: Child, pid: int) -> None:
        self.pid = pid
        self._engine = engine

    def send_signal(self, signal: int) -> None:
        os.kill(self.pid, signal)

    async def wait(self) -> int:
        """Its exit code, negative for the signal that ended it, as for any process."""
        code = await self._engine.wait()
        return 128 - code if code > 128 else code


async def spawn(process_: Process) -> Child:
    """As `ops.process.spawn`, with services in containers."""
    if process_.argv[:2] != (sys.executable, "-m") or process_.argv[2] not in {
        *SETTINGS,
        "agentchat.ops.prepare",
    }:
        return await process.spawn(process_)
    folder = Path(tempfile.mkdtemp(prefix=f"{process_.name}-", dir=process_.log.parent.parent))
    engine = await process.spawn(_in_container(process_, folder))
    return ContainedProcess(engine, await _pid_within(engine, folder / "pid"))


def _in_container(process_: Process, folder: Path) -> Process:
    environ = {name: value for name, value in process_.env.items() if name.startswith(_OURS) and value}
    secrets = folder / "secrets"
    secrets.mkdir()
    for path in (folder, secrets):
        path.chmod(0o711)
    for name in _SECRET & environ.keys():
        (secrets / name).write_text(environ.pop(name))
        (secrets / name).chmod(0o644)
        environ[name + FILE_SUFFIX] = f"/run/secrets/{name}"
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    argv = (
        *shlex.split(os.environ.get("PODMAN", "podman")),
        *("run", *_CONFINED, f"--pidfile={folder / 'pid'}"),
        *(f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={_PROCESSES}:{_PROCESSES}"),
        f"--volume={secrets}:/run/secrets:ro",
        *(f"--env={name}={value}" for name, value in environ.items()),
        *(os.environ[IMAGE], *process_.argv[2:]),
    )
    return Process(
        name=process_.name,
        argv=argv,
        env=dict(os.environ),
        log=process_.log,
        probe=None,
        stop_rank=process_.stop_rank,
        stop_signal=signal.SIGTERM,
    )


def _first_child(file: Path) -> int:
    """Of the process whose id is in the file. Raises ValueError where there is none yet."""
    children = psutil.Process(int(file.read_text())).children()
    if not children:
        raise ValueError
    return int(children[0].pid)


async def _pid_within(engine: Child, file: Path) -> int:
    """The service's own process id; the engine's where it has ended before. Raises StartError."""
    ended = asyncio.ensure_future(engine.wait())
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not ended.done():
                with contextlib.suppress(FileNotFoundError, ValueError, psutil.Error):
                    return _first_child(file)
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise StartError(f"no container has started in {_START_SECONDS:.0f} s") from None
    finally:
        ended.cancel()
    return engine.pid
