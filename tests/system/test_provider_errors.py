"""Every way in which a model provider can fail, as callers meet it: in JSON and in both stream forms."""

import asyncio
import json
from typing import Any

import msgspec

from agentchat.contracts.errors import ERRORS
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, text_of

_THEIRS = (
    *("x-api-key", "credit balance", "invalid_request", "authentication_error", "overloaded_error"),
    *("request_id", "Traceback", "demo-echo", "127.0.0.1"),
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class Case(msgspec.Struct, frozen=True):
    """What the model's name asks for, and what callers get: of the text `said`, as much as came in time."""

    controls: str
    code: str
    draft: dict[str, Any] = {}
    said: str = ""

    @property
    def name(self) -> str:
        return f"{self.controls} {self.draft}"


# `retry_after` is longer than tries may take together, so that these fail at once.
CASES = [
    Case("fail=401", "provider_error"),
    Case("fail=408", "provider_timeout"),
    Case("fail=413", "context_too_long"),
    Case("fail=429&retry_after=60", "provider_overloaded"),
    Case("fail=500", "provider_error"),
    Case("fail=529&retry_after=60", "provider_overloaded"),
    Case("garbage_after=0", "provider_error"),
    # The reply is gone on with once, and then given up with what was said.
    Case("fail=500&fail_after=1&deltas=3&say=abcdef", "provider_error", said="abcd"),
    Case("cut_after=1&deltas=3&say=abcdef", "provider_error", said="abcd"),
    Case("fail=401&fail_after=1&deltas=3&say=abcdef", "provider_error", said="ab"),
    Case("stop=refusal&say=no", "provider_refused", said="no"),
    Case('say={"a":"b"}', "output_invalid", {"output_type": "json", "output_schema": SCHEMA}),
]


async def test_each_failure_has_its_code_in_json_and_in_both_streams(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    callers = [await make_agent(f"demo-echo?{case.controls}", **case.draft) for case in CASES]
    outcomes = await asyncio.gather(
        *(_outcome(case, caller) for case, caller in zip(CASES, callers, strict=True)), return_exceptions=True
    )
    wrong = {case.name: outcome for case, outcome in zip(CASES, outcomes, strict=True) if outcome}
    assert wrong == {}
    logs = "".join(file.read_text(errors="replace") for file in stack.folder.logs.glob("[got]*.log"))
    assert "run_failing" in logs
    assert "invalid x-api-key" not in logs


async def _outcome(case: Case, caller: Caller) -> str:
    """What is not as it should be."""
    return "; ".join([*await _in_json(case, caller), *await _in_a_stream(case, caller)])


async def _in_json(case: Case, caller: Caller) -> list[str]:
    response = await caller.chat("Hello")
    row, body = ERRORS[case.code], response.json()
    found = {
        "status": (response.status_code, row.status),
        "type": (response.headers["content-type"], "application/problem+json"),
        "code": (body.get("code"), case.code),
        "title": (body.get("title"), row.title),
        "trace": (body.get("trace_id"), response.headers["x-trace-id"]),
        "retry": ("retry-after" in response.headers, row.retry_after is not None),
    }
    wrong = [f"{name}: {got!r}, not {wanted!r}" for name, (got, wanted) in found.items() if got != wanted]
    return wrong + _leaks(response.text)


async def _in_a_stream(case: Case, caller: Caller) -> list[str]:
    wrong: list[str] = []
    for form in (1, 2):
        events = await caller.stream("Hello", form=form)
        kinds = [event["type"] for event in events if event["type"] != "delta"]
        if kinds != [("meta", "start")[form - 1], "error"]:
            wrong.append(f"form {form}: {kinds}")
        error = events[-1]
        if sorted(error) != ["code", "message", "type"] or error["code"] != case.code:
            wrong.append(f"form {form}: {error}")
        if not case.said.startswith(text_of(events)):
            wrong.append(f"form {form}: said {text_of(events)!r}")
        wrong += _leaks(json.dumps(events))
    return wrong


def _leaks(text: str) -> list[str]:
    """What only the provider can have said, or a stack trace."""
    return [f"leaked {word!r}" for word in _THEIRS if word in text]
