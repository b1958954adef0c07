"""Validate JSON against schemas, one request a line.

Run by `schema_checks` as `python -m agentchat.orchestrator.output.schema_checker`.

This is a process of its own because a schema is untrusted: its patterns and references can take for ever, and
nothing in Python interrupts a regular expression. The kernel ends the process when a check uses too much CPU
time, also if its worker has died, and bounds its memory.
"""

import resource
import signal
import sys
import time
from typing import Any

import msgspec

CPU_SECONDS = 1.0
"""CPU time of one check, after which the kernel ends the process by SIGVTALRM."""
MEMORY_BYTES = 1024 * 1024 * 1024

_SHOWN_CHARS = 120


class CheckRequest(msgspec.Struct, frozen=True):
    """A text to validate against a schema."""

    schema: dict[str, Any]
    text: str


class CheckResult(msgspec.Struct, frozen=True):
    """The problem of a text, "" for none, and the CPU time that the check took.

    `field` is its place, such as `items[0].id`, "" for the whole text; `reason` is what is wrong there.
    """

    problem: str
    seconds: float = 0.0
    field: str = ""
    reason: str = ""


def main() -> None:
    """Answer the requests on stdin until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the worker
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    check_json(CheckRequest({}, "0"))  # imports the validator before the first request
    decoder = msgspec.json.Decoder(CheckRequest)
    for line in sys.stdin.buffer:
        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        found = check_json(decoder.decode(line))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        result = msgspec.structs.replace(found, seconds=time.process_time() - began)
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()


def check_json(request: CheckRequest) -> CheckResult:
    """Validate the text; return where it fails and what is required there, but no value of it."""
    # Imported here, since the worker imports this module only for its types.
    from jsonschema import Draft202012Validator
    from referencing import Registry

    from agentchat.contracts.ecma_patterns import translate_schema

    try:
        value = msgspec.json.decode(request.text)
    except (msgspec.DecodeError, RecursionError):
        return _make_problem("it is not JSON")
    try:
        originals: dict[str, str] = {}
        schema = translate_schema(request.schema, originals)
        validator = Draft202012Validator(schema, registry=Registry())  # fetches nothing
        error = next(validator.iter_errors(value), None)
        if error is None:
            return CheckResult("")
        wanted = error.validator_value
        if error.validator == "pattern":
            wanted = originals.get(wanted, wanted)
        shown = msgspec.json.encode(wanted).decode()
        shown = shown if len(shown) <= _SHOWN_CHARS else shown[:_SHOWN_CHARS] + "…"
        words = f'does not satisfy "{error.validator}": {shown}'
        path, reason = list(error.absolute_path), words
        if error.validator == "required":
            path.append(next(name for name in wanted if name not in error.instance))
            reason = "is required"
        field = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
        return CheckResult(
            f"at {error.json_path[:_SHOWN_CHARS]} it {words}",
            field=field.removeprefix(".")[:_SHOWN_CHARS],
            reason=reason,
        )
    except RecursionError:
        return _make_problem("it is nested too deeply to be checked")
    except Exception:  # noqa: BLE001 - a schema and a text of strangers, such as a number too large to divide
        return _make_problem("it could not be checked")


def _make_problem(words: str) -> CheckResult:
    return CheckResult(words, reason=words)


if __name__ == "__main__":
    main()
