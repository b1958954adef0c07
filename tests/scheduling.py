"""Which tests share a process: those of one file, and all that use the whole stack, so that it starts once.

The plugin's own groups are no use here: it marks them by a private name of items that pytest no longer reads.
"""

from pathlib import Path

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_ROOT = Path(__file__).resolve().parents[1]
_STACK_FOLDER = "tests/system/"
_STACK_FIXTURE = "stack: RunningStack"


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A unit of work is a file, or all files that use the stack."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._scopes: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path not in self._scopes:
            self._scopes[path] = "stack" if _uses_stack(path) else path
        return self._scopes[path]


def _uses_stack(path: str) -> bool:
    return path.startswith(_STACK_FOLDER) or _STACK_FIXTURE in (_ROOT / path).read_text()
