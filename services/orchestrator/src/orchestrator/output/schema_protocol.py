"""What is said to a checking process and by it: a line of JSON each."""

from typing import Any

import msgspec

CPU_SECONDS = 1.0
"""What one check may take; the system ends the process then."""


class CheckRequest(msgspec.Struct, frozen=True):
    """A schema, and the text that is to be JSON of it."""

    schema: dict[str, Any]
    text: str


class CheckResult(msgspec.Struct, frozen=True):
    """What is wrong with the text, "" for nothing, and the CPU time that it took to find out."""

    problem: str
    seconds: float = 0.0
