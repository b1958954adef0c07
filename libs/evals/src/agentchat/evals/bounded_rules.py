"""Apply a suite's patterns and schemas in a process next to this one, bounded in time."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec

from agentchat.evals.cases import Case
from agentchat.evals.errors import NotACase
from agentchat.evals.redaction_rules import RedactionRule
from agentchat.evals.rule_process import Redact, RuleRequest, RuleResult, Search, Validate
from agentchat.runtime.limited_process import LimitedProcess, ProcessEnded

_PATIENCE_SECONDS = 60.0


class RuleTooSlow(Exception):  # noqa: N818 - reads as the condition it is
    """A request took too much time or memory, so its process was ended."""


class RuleProcess:
    """A process of `rule_process`, started when it is first needed, and again after it was ended.

    One request at a time, which may take so many seconds of CPU time. Close it when done; `async with` does.
    """

    def __init__(self, *, redaction_seconds: float = 10.0, check_seconds: float = 2.0) -> None:
        self._redaction_seconds, self._check_seconds = redaction_seconds, check_seconds
        self._process = LimitedProcess("agentchat.evals.rule_process", patience_seconds=_PATIENCE_SECONDS)

    async def __aenter__(self) -> "RuleProcess":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def redact(self, rules: Sequence[RedactionRule], case: Case) -> Case:
        """Return the case redacted. Raises NotACase if that is not possible, or takes too long."""
        try:
            answer = await self._ask(Redact(tuple(rules), case))
        except RuleTooSlow:
            reason = "its redaction takes too long; simplify the patterns in suite.yaml"
            raise NotACase(case.id, reason) from None
        if answer.case is None:
            raise NotACase(case.id, answer.reason)
        return answer.case

    async def search(self, pattern: str, text: str) -> str | None:
        """Return the text that the pattern finds, or None. Raises RuleTooSlow."""
        return (await self._ask(Search(pattern, text))).found

    async def validate(self, schema: dict[str, Any], text: str) -> str:
        """Return why the text is not JSON of the schema; "" if it is. Raises RuleTooSlow."""
        return (await self._ask(Validate(schema, text))).problem

    async def aclose(self) -> None:
        """End the process."""
        await self._process.aclose()

    async def _ask(self, request: RuleRequest) -> RuleResult:
        cpu_seconds = self._redaction_seconds if isinstance(request, Redact) else self._check_seconds
        try:
            answer = await self._process.ask(msgspec.json.encode(request), cpu_seconds)
        except ProcessEnded:
            raise RuleTooSlow from None
        return msgspec.json.decode(answer, type=RuleResult)
