"""Validates replies by schemas, a line in, a line out: `python -m orchestrator.output.schema_checker`.

A process of its own, because a schema is a stranger's program: its patterns can take for ever, and nothing
in Python interrupts a regular expression. Each check may take so much CPU time; then the system ends this
process, also if the worker that waits for it is long dead.
"""

import signal
import sys
import time
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry

from contracts.ecma_patterns import python_schema
from orchestrator.output.schema_protocol import CPU_SECONDS, CheckRequest, CheckResult

_SAID_CHARS = 120


def main() -> None:
    """Answer until the questions end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the worker, which ends the questions
    decoder = msgspec.json.Decoder(CheckRequest)
    for line in sys.stdin.buffer:
        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        found = problem(decoder.decode(line))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        answer = CheckResult(found, time.process_time() - began)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def problem(question: CheckRequest) -> str:
    """What is wrong with the text: where, and what the schema says there. "" for nothing.

    No value out of the text is in it.
    """
    try:
        value = msgspec.json.decode(question.text)
    except (msgspec.DecodeError, RecursionError):
        return "it is not JSON"
    try:
        originals: dict[str, str] = {}
        schema = python_schema(question.schema, originals)
        validator = Draft202012Validator(schema, registry=Registry())  # which fetches nothing
        error = next(validator.iter_errors(value), None)
        return "" if error is None else _said(error, originals)
    except RecursionError:
        return "it is nested too deeply to be checked"
    except Exception:  # noqa: BLE001 - a schema and a text of strangers, such as a number too large to divide
        return "it could not be checked"


def _said(error: ValidationError, originals: dict[str, str]) -> str:
    value: Any = error.validator_value
    if error.validator == "pattern":
        value = originals.get(value, value)
    wanted = msgspec.json.encode(value).decode()
    if len(wanted) > _SAID_CHARS:
        wanted = wanted[:_SAID_CHARS] + "…"
    return f'at {error.json_path[:_SAID_CHARS]} it does not satisfy "{error.validator}": {wanted}'


if __name__ == "__main__":
    main()
