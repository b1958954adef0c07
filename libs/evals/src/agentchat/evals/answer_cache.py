"""Cache answers in a suite's folder, by what was asked: each is paid for once."""

import hashlib
from pathlib import Path

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.replay_messages import WhatIfAnswered
from agentchat.evals.cases import Case
from agentchat.evals.suite import SuiteAgent, write_file

CACHE = ".eval-cache"


class AnsweringVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version that answers: a stored one, with another model or prompt if given.

    `seconds` bound one run.
    """

    agent: SuiteAgent
    model: str | None = None
    system_prompt: str | None = None
    seconds: float = 120.0

    @property
    def answering_model(self) -> str:
        """The model that answers."""
        return self.model or self.agent.settings.model


class AnswerCache:
    """The answers of one version of an agent. If `fresh`, none is found, so that all are asked again."""

    def __init__(self, folder: Path, answering: AnsweringVersion, *, fresh: bool) -> None:
        self._folder = folder / CACHE
        self._answering = answering
        self._fresh = fresh

    def find(self, case: Case, attempt: int) -> WhatIfAnswered | None:
        """Return the answer of that attempt at the case, or None."""
        if self._fresh:
            return None
        try:
            return msgspec.json.decode(self._build_path(case, attempt).read_bytes(), type=WhatIfAnswered)
        except (OSError, msgspec.DecodeError):
            return None

    def store(self, case: Case, attempt: int, answer: WhatIfAnswered) -> None:
        """Write the answer. Raises UnfitSuite."""
        path = self._build_path(case, attempt)
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._folder / ".gitignore", b"*\n")
        write_file(path, msgspec.json.encode(answer))

    def _build_path(self, case: Case, attempt: int) -> Path:
        """Name a file by everything that was asked, except what does not change the answer."""
        asked = msgspec.structs.replace(case, slices={}, feedback=None, evaluators=(), redacted=())
        settings = msgspec.to_builtins(self._answering.agent.settings)
        for server in settings["mcp_servers"]:
            server["url"] = ""  # not called, and its port differs between installations
        settings |= {"model": self._answering.answering_model}
        if self._answering.system_prompt is not None:
            settings |= {"system_prompt": self._answering.system_prompt}
        question = [msgspec.json.encode(asked).decode(), settings, attempt]
        name = hashlib.sha256(wire.encode_canonical({"question": question})).hexdigest()
        return self._folder / name[:2] / f"{name[2:]}.json"
