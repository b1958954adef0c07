"""Validate JSON against schemas: `python -m agentchat.orchestrator.output.json_validation`.

This is a process with limits, run by `validation_processes`, because a schema is untrusted: its patterns and
references can take for ever.
"""

import time
from typing import Any

import msgspec

from agentchat.runtime.limited_process import limit_resources, serve_requests

CPU_SECONDS = 1.0
"""CPU time of one check, after which the kernel ends the process."""
MEMORY_BYTES = 1024 * 1024 * 1024

_SHOWN_CHARS = 120
_SHOWN_CHOICES = 12


class CheckRequest(msgspec.Struct, frozen=True):
    """A text to validate against a schema."""

    schema: dict[str, Any]
    text: str


class CheckResult(msgspec.Struct, frozen=True):
    """The problem of a text, "" for none, and the CPU time that the check took.

    `field` is its place, such as `items[0].id`, "" for the whole text; `reason` says what is required,
    in words for people.
    """

    problem: str
    seconds: float = 0.0
    field: str = ""
    reason: str = ""


def main() -> None:
    """Answer the requests of `validation_processes`."""
    limit_resources(MEMORY_BYTES)
    check_json(CheckRequest({}, "0"))  # imports the validator before the first request
    serve_requests(_answer)


def _answer(request: bytes) -> bytes:
    began = time.process_time()
    found = check_json(msgspec.json.decode(request, type=CheckRequest))
    return msgspec.json.encode(msgspec.structs.replace(found, seconds=time.process_time() - began))


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
        path, reason = list(error.absolute_path), _explain(error.validator, wanted, error.schema) or words
        if error.validator == "required":
            path.append(next(name for name in wanted if name not in error.instance))
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


def _explain(keyword: str, wanted: Any, schema: dict[str, Any]) -> str:
    """Return what a keyword of JSON Schema requires, in words for people; "" if there are none."""
    number = f"{wanted:,}" if isinstance(wanted, int | float) else ""
    match keyword:
        case "required":
            return "is required"
        case "pattern":
            examples = [str(each) for each in schema.get("examples", ()) if isinstance(each, str | int)]
            hint = f"such as {', '.join(examples[:3])}" if examples else schema.get("description", "")
            return f"has the wrong format{f': {hint}' if hint else ''}"[:_SHOWN_CHARS]
        case "format":
            return f"is not a valid {wanted}"
        case "type":
            kinds = wanted if isinstance(wanted, list) else [wanted]
            return f"must be {' or '.join(_TYPES.get(each, str(each)) for each in kinds)}"
        case "enum" if len(wanted) <= _SHOWN_CHOICES:
            return f"must be one of {', '.join(map(str, wanted))}"[:_SHOWN_CHARS]
        case "additionalProperties" | "unevaluatedProperties":
            return "has a field that is not allowed"
        case _:
            return _BOUNDS[keyword].format(number) if keyword in _BOUNDS and number else ""


_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {
    "minimum": "must be at least {}",
    "exclusiveMinimum": "must be more than {}",
    "maximum": "must be at most {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
}


def _make_problem(words: str) -> CheckResult:
    return CheckResult(words, reason=words)


if __name__ == "__main__":
    main()
