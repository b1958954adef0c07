"""One process next to this one that checks replies against schemas, and can be ended at any time."""

import asyncio
import contextlib
import os
import sys

import msgspec

from orchestrator.output.schema_protocol import CheckRequest, CheckResult

_END_SECONDS = 1.0
_FIRST = CheckRequest({}, "0")
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class SchemaProcess:
    """Runs `orchestrator.output.schema_checker`. It answers one question at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "SchemaProcess":
        """One that is ready, unless it cannot live."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orchestrator.output.schema_checker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
        started = cls(process)
        await started.ask(_FIRST)
        return started

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    async def ask(self, question: CheckRequest) -> CheckResult | None:
        """None where the process has ended.

        Ends the process when it is cancelled: its answer would be taken for the next one's.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(question) + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        except OSError:
            return None
        except asyncio.CancelledError:
            await self.end()
            raise
        return msgspec.json.decode(line, type=CheckResult) if line.endswith(b"\n") else None

    async def ended(self) -> int:
        """What it ended with, by itself; it is killed where it has only stopped to answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                return await self._process.wait()
        return await self.end()

    async def end(self) -> int:
        """What it ended with; it is killed where it has not."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return await self._process.wait()
