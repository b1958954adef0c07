"""A stack whose every statement, message, command and task is counted, and the agents that are asked."""

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from bench.bench_processes import lean_upstream
from bench.counting.statements import log_all
from ops.folder import RunFolder
from ops.ports import Ports
from ops.servers import valkey
from ops.supervisor import Supervisor
from tests.harness import Quiet, RunningStack, running_stack

_INSIDE = Path(__file__).parent / "inside"


class Counted(msgspec.Struct, frozen=True):
    """A stack and where its counters are."""

    stack: RunningStack
    valkey_url: str
    loops: Path


@contextlib.asynccontextmanager
async def counted_stack() -> AsyncIterator[Counted]:
    """Up while the block runs, after some 8 s. Valkey is one without users, so that it may be asked."""
    async with lean_upstream() as upstream, _valkey() as valkey_url:
        with tempfile.TemporaryDirectory(prefix="agentchat-") as loops:
            environ = {"AGENTCHAT_REDIS_URL": valkey_url, "PYTHONPATH": str(_INSIDE)}
            environ |= {"AGENTCHAT_BENCH_COUNTS": loops}
            environ |= {"ANTHROPIC_API_KEY": "lean", "ANTHROPIC_BASE_URL": upstream.url}
            async with running_stack(environ=environ) as stack:
                log_all(stack.folder)
                yield Counted(stack, valkey_url, Path(loops))


@contextlib.asynccontextmanager
async def _valkey() -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="agentchat-") as name, contextlib.closing(Ports()) as ports:
        folder, port = RunFolder(Path(name)), ports.free()
        folder.create()
        async with Supervisor(folder, [valkey.process(folder, port)], Quiet()) as supervisor:
            await supervisor.wait_up(30.0)
            yield valkey.url(port)
