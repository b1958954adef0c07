"""Replies checked against agents' schemas, in a process beside this one that can be ended at any time."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import OrderedDict

import msgspec

from directory.agents import AgentConfig
from runtime import logs

_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")
_PATIENCE_SECONDS = 30.0
_REST_SECONDS = 30.0
_RESTING = 1000
_TOO_SLOW = "it could not be checked in time, as the schema takes too long"
_UNCHECKED = "it could not be checked"


class SchemaChecks:
    """One checking process, started when it is first needed; checks wait for each other.

    An agent version whose schema took too long is not checked again for a while, so that nobody else waits.
    """

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._resting: OrderedDict[tuple[str, int], float] = OrderedDict()

    async def problem(self, agent: AgentConfig, text: str) -> str:
        """What is wrong with `text` as JSON of the agent's schema, in words for callers; "" for nothing."""
        place = (agent.agent_id, agent.version)
        question = msgspec.json.encode({"schema": agent.output_schema or {}, "text": text})
        async with self._turn:
            if self._rests(place):
                return _TOO_SLOW
            answer = await self._answer(question + b"\n")
        if answer is None:
            logs.get_logger("schema").warning("schema_too_slow", agent_id=agent.agent_id)
            self._rest(place)
            return _TOO_SLOW
        return answer

    async def warm(self) -> None:
        """Have the process started by the time when a reply is there."""
        async with self._turn:
            await self._running()

    async def aclose(self) -> None:
        """End the process."""
        await self._end()

    def _rests(self, place: tuple[str, int]) -> bool:
        return self._resting.get(place, 0.0) > asyncio.get_running_loop().time()

    def _rest(self, place: tuple[str, int]) -> None:
        self._resting[place] = asyncio.get_running_loop().time() + _REST_SECONDS
        if len(self._resting) > _RESTING:
            self._resting.popitem(last=False)

    async def _answer(self, question: bytes) -> str | None:
        """None where the check takes more time than it may."""
        for _ in range(2):  # that the process has died otherwise is no fault of this schema's
            line = await self._asked(question)
            if line.endswith(b"\n"):
                return msgspec.json.decode(line, type=str)
            if await self._end() == -signal.SIGVTALRM:
                return None
        logs.get_logger("schema").warning("schema_checker_died")
        return _UNCHECKED

    async def _asked(self, question: bytes) -> bytes:
        """The line that answers; b"" where there is none."""
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                process.stdin.write(question)
                await process.stdin.drain()
                return await process.stdout.readline()
        except (TimeoutError, OSError):
            return b""
        except asyncio.CancelledError:
            await self._end()  # its answer would be taken for the next one's
            raise

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "orchestrator.schema_checker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            )
        return self._process

    async def _end(self) -> int | None:
        """What the process ended with; None where there was none."""
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()
