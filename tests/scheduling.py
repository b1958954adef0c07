"""Which tests share a process: those of one file, and each third of all that use the whole stack.

The stack starts once for each third (decision 74).

The plugin's own groups are no use here: it marks them by a private name of items that pytest no longer reads.
"""

from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_ROOT = Path(__file__).resolve().parents[1]
_STACK_FOLDER = "tests/system/"
_STACK_FIXTURE = "stack: RunningStack"
_STACK = "stack"
_STACK_OF_FAULTS = "stack of faults"
_FAULTS = (
    *("tests/system/test_elicitation", "tests/system/test_crashes", "tests/system/test_drain"),
    *("tests/system/test_idempotency", "tests/system/test_limits", "tests/system/test_long_threads"),
)
"""Where the tests of the second third are: they kill, drain and wait."""
_STACK_OF_PROTOCOLS = "stack of protocols"
_PROTOCOLS = (
    *("tests/client/", "tests/consumers/", "tests/terminal/", "tests/system/openai_api/"),
    *("tests/system/test_ag_ui", "tests/system/test_ai_sdk"),
    *("tests/system/test_code_blocks", "tests/system/test_openai"),
)
"""Where the tests of the last third are: clients, the protocols for them, and what waits for a person.

Most of all three is waiting: in one chain they would outlast all other tests.
"""
_OWN_STACK = ("tests/system/test_approvals.py",)
"""Files that start stacks of their own."""
_LONG = (
    _STACK,
    _STACK_OF_FAULTS,
    _STACK_OF_PROTOCOLS,
    *("tests/chaos/test_chaos.py", "tests/step_matrix/test_step_matrix.py"),
    *("tests/orchestrator/test_lease_fence.py", "tests/stack/test_up.py"),
    *("tests/tool_runner/test_crash_and_shutdown.py", "tests/tool_runner/test_progress.py"),
    *("tests/orchestrator/test_guarded_calls.py", "tests/orchestrator/test_drain_and_handover.py"),
    *("tests/tool_runner/test_runner.py", "tests/bench/test_one_chat.py", "tests/bus/test_queues.py"),
    *("tests/conversations/test_store_outages.py", "tests/tool_runner/test_authorization.py"),
    *("tests/system/test_approvals.py", "tests/orchestrator/test_approvals.py"),
    "tests/orchestrator/test_elicitation.py",
    *("tests/gateway/test_timeouts.py", "tests/stack/test_dist.py"),
    *("tests/stack/test_database_users.py", "tests/simulator/test_seeds_1.py"),
    *("tests/simulator/test_seeds_2.py", "tests/stack/test_postgres.py", "tests/stack/test_users.py"),
    *("tests/stack/test_supervisor.py", "tests/stack/test_up_refuses.py"),
)
"""Units in the order in which they begin, before all others: those that wait longest."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A unit of work is a file, or a third of the files that use the stack."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def long_ones_first(items: list[pytest.Item]) -> None:
    """Order tests by unit; within one they stay in the order they are in."""
    ranks = {unit: rank for rank, unit in enumerate(_LONG)}
    items.sort(key=lambda item: ranks.get(unit_of(item.nodeid), len(ranks)))


def unit_of(nodeid: str) -> str:
    """The unit of work of a test or a file."""
    return _unit(_path(nodeid))


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@cache
def _unit(path: str) -> str:
    if path in _OWN_STACK or not _uses_stack(path):
        return path
    if path.startswith(_FAULTS):
        return _STACK_OF_FAULTS
    return _STACK_OF_PROTOCOLS if path.startswith(_PROTOCOLS) else _STACK


def _uses_stack(path: str) -> bool:
    return path.startswith(_STACK_FOLDER) or _STACK_FIXTURE in (_ROOT / path).read_text()
