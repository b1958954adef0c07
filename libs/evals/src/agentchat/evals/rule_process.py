"""Apply patterns and schemas of a suite, a request at a time: `python -m agentchat.evals.rule_process`.

A process of its own, because nothing in Python interrupts a regular expression or a schema whose work grows
with the square of a text, or faster. The kernel ends this process when a request takes more CPU time than it
may, and refuses it memory beyond a bound. Parent: `bounded_rules.RuleProcess`.
"""

import contextlib
import re
import resource
import signal
import struct
import sys
from typing import Any, BinaryIO

import msgspec

from agentchat.evals.cases import Case
from agentchat.evals.errors import SuiteError
from agentchat.evals.redaction_rules import RedactionRule

_MEMORY_BYTES = 4 * 1024**3
SIZE = struct.Struct(">I")
"""The number of bytes of a message, which precedes it."""


class RuleRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of the requests. After `seconds` of CPU time the kernel ends the process, by SIGVTALRM."""

    seconds: float


class Redact(RuleRequest, frozen=True, kw_only=True):
    """Redact a case by the rules of its suite."""

    rules: tuple[RedactionRule, ...]
    case: Case


class Search(RuleRequest, frozen=True, kw_only=True):
    """Search a text for a regular expression."""

    pattern: str
    text: str


class Validate(RuleRequest, frozen=True, kw_only=True):
    """Check that a text is JSON that satisfies a schema (draft 2020-12)."""

    schema: dict[str, Any]
    text: str


class RuleResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The redacted case or the `reason` why there is none; the text that was found; a text's problem."""

    case: Case | None = None
    found: str | None = None
    problem: str = ""
    reason: str = ""


def main() -> None:
    """Answer requests until the parent closes stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    decoder = msgspec.json.Decoder(Redact | Search | Validate)
    while message := read_message(sys.stdin.buffer):
        request = decoder.decode(message)
        signal.setitimer(signal.ITIMER_VIRTUAL, request.seconds)
        answer = msgspec.json.encode(_answer(request))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.buffer.write(SIZE.pack(len(answer)) + answer)
        sys.stdout.buffer.flush()


def read_message(stream: BinaryIO) -> bytes:
    """Read one message; b"" at the end of the stream."""
    size = stream.read(SIZE.size)
    return stream.read(*SIZE.unpack(size)) if len(size) == SIZE.size else b""


def _answer(request: Redact | Search | Validate) -> RuleResult:
    match request:
        case Redact():
            return _redact(request)
        case Search():
            match = re.search(request.pattern, request.text)
            return RuleResult(found=match[0] if match else None)
        case Validate():
            return RuleResult(problem=_find_problem(request))


def _redact(request: Redact) -> RuleResult:
    from agentchat.evals.case_redaction import CaseRedactor

    try:
        return RuleResult(case=CaseRedactor(request.rules).redact_case(request.case))
    except SuiteError as error:
        return RuleResult(reason=getattr(error, "reason", str(error)))


def _find_problem(request: Validate) -> str:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry

    try:
        value = msgspec.json.decode(request.text)
    except (msgspec.DecodeError, RecursionError):
        return "the reply is not JSON"
    validator = Draft202012Validator(request.schema, registry=Registry())  # which fetches nothing
    try:
        error = best_match(validator.iter_errors(value))
    except Exception as failure:  # noqa: BLE001 - a schema may fail in any way
        return f"the schema could not be applied: {type(failure).__name__}"
    return f"{error.json_path}: {error.message}" if error else ""


if __name__ == "__main__":
    main()
