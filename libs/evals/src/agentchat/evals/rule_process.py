"""Apply patterns and schemas of a suite: `python -m agentchat.evals.rule_process`.

This is a process with limits, because the work of a regular expression or a schema may grow with the square
of a text, or faster. Parent: `bounded_rules.RuleProcess`.
"""

import re
from typing import Any

import msgspec

from agentchat.evals.cases import Case
from agentchat.evals.errors import SuiteError
from agentchat.evals.redaction_rules import RedactionRule
from agentchat.runtime.limited_process import limit_resources, serve_requests

_MEMORY_BYTES = 4 * 1024**3


class RuleRequest(msgspec.Struct, frozen=True, tag=True):
    """Base of the requests."""


class Redact(RuleRequest, frozen=True):
    """Redact a case by the rules of its suite."""

    rules: tuple[RedactionRule, ...]
    case: Case


class Search(RuleRequest, frozen=True):
    """Search a text for a regular expression."""

    pattern: str
    text: str


class Validate(RuleRequest, frozen=True):
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
    limit_resources(_MEMORY_BYTES)
    decoder = msgspec.json.Decoder(Redact | Search | Validate)
    serve_requests(lambda request: msgspec.json.encode(_answer(decoder.decode(request))))


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
