"""Answers that were paid for, in the folder of the suite, by what was asked: a run that was stopped, or is
repeated, asks no orchestrator for them again.
"""

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from contracts import wire
from contracts.replay_messages import WhatIfAnswered
from evals.cases import Case
from evals.questions import configuration_of
from evals.suite import SuiteAgent, SuiteTools, write_file

FOLDER = ".eval-cache"
_FORM = 1
"""Another one where an answer of before would not be given any more."""

_Answer = TypeVar("_Answer", bound=msgspec.Struct)


class CacheFolder:
    """An entry is a file, named by the SHA-256 of what was asked, which appears with all its content or not
    at all. `keeps` False: nothing is read, but written.
    """

    def __init__(self, suite: Path, *, keeps: bool = True) -> None:
        self._folder = suite / FOLDER
        self._keeps = keeps

    def find(self, asked: dict[str, Any], kind: type[_Answer]) -> _Answer | None:
        """None where it was not asked, or what is there is not readable."""
        if not self._keeps:
            return None
        try:
            return msgspec.json.decode(self._path(asked).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return None

    def store(self, asked: dict[str, Any], answer: msgspec.Struct) -> None:
        """Raises UnfitSuite where it cannot be written."""
        path = self._path(asked)
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._folder / ".gitignore", b"*\n")
        write_file(path, msgspec.json.encode(answer))

    def _path(self, asked: dict[str, Any]) -> Path:
        name = hashlib.sha256(wire.encode_canonical({"form": _FORM} | asked)).hexdigest()
        return self._folder / name[:2] / f"{name[2:]}.json"


class AnswerCache:
    """Of one agent, asked by these rules for tools."""

    def __init__(self, suite: Path, agent: SuiteAgent, tools: SuiteTools, *, keeps: bool = True) -> None:
        self._folder = CacheFolder(suite, keeps=keeps)
        self._asked: dict[str, Any] = {
            "agent": configuration_of(agent.settings),
            "unrecorded": tools.unrecorded,
            "harmless": sorted(set(tools.harmless)),
        }

    def find(self, case: Case, attempt: int) -> WhatIfAnswered | None:
        """None where it was not asked, or what is there is not readable."""
        return self._folder.find(self._question(case, attempt), WhatIfAnswered)

    def store(self, case: Case, attempt: int, answer: WhatIfAnswered) -> None:
        """Raises UnfitSuite where it cannot be written."""
        self._folder.store(self._question(case, attempt), answer)

    def _question(self, case: Case, attempt: int) -> dict[str, Any]:
        return self._asked | {"case": _content_of(case), "attempt": attempt}


def _content_of(case: Case) -> str:
    """The SHA-256 of what is asked: what its owner expects of it, and how it is sorted, changes no answer."""
    asked = msgspec.structs.replace(case, slices={}, feedback=(), checks={}, redacted=(), sha256="")
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()
