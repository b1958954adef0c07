"""Apply a suite's patterns and schemas in a process next to this one, bounded in time."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec

from agentchat.evals.cases import Case
from agentchat.evals.errors import NotACase
from agentchat.evals.redaction_rules import RedactionRule
from agentchat.evals.rule_process import SIZE, Redact, RuleRequest, RuleResult, Search, Validate

_PATIENCE_SECONDS = 60.0
"""Longer than a request's CPU time takes on a busy machine."""
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class RuleTooSlow(Exception):  # noqa: N818 - reads as the condition it is
    """A request took too much time or memory, so its process was ended."""


class RuleProcess:
    """A process of `rule_process`, started when it is first needed, and again after it was ended.

    One request at a time, which may take so many seconds of CPU time. Close it when done; `async with` does.
    """

    def __init__(self, *, redaction_seconds: float = 10.0, check_seconds: float = 2.0) -> None:
        self._redaction_seconds, self._check_seconds = redaction_seconds, check_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> "RuleProcess":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def redact(self, rules: Sequence[RedactionRule], case: Case) -> Case:
        """Return the case redacted. Raises NotACase if that is not possible, or takes too long."""
        try:
            answer = await self._ask(Redact(rules=tuple(rules), case=case, seconds=self._redaction_seconds))
        except RuleTooSlow:
            reason = "its redaction takes too long; simplify the patterns in suite.yaml"
            raise NotACase(case.id, reason) from None
        if answer.case is None:
            raise NotACase(case.id, answer.reason)
        return answer.case

    async def search(self, pattern: str, text: str) -> str | None:
        """Return the text that the pattern finds, or None. Raises RuleTooSlow."""
        return (await self._ask(Search(pattern=pattern, text=text, seconds=self._check_seconds))).found

    async def validate(self, schema: dict[str, Any], text: str) -> str:
        """Return why the text is not JSON of the schema; "" if it is. Raises RuleTooSlow."""
        return (await self._ask(Validate(schema=schema, text=text, seconds=self._check_seconds))).problem

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _ask(self, request: RuleRequest) -> RuleResult:
        async with self._turn:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    answer = await self._exchange(msgspec.json.encode(request))
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                await self.aclose()
                raise RuleTooSlow from None
            except BaseException:
                await self.aclose()
                raise
        return msgspec.json.decode(answer, type=RuleResult)

    async def _exchange(self, message: bytes) -> bytes:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "agentchat.evals.rule_process"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(SIZE.pack(len(message)) + message)
        await process.stdin.drain()
        (size,) = SIZE.unpack(await process.stdout.readexactly(SIZE.size))
        return await process.stdout.readexactly(size)
