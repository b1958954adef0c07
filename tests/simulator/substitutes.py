"""What our modules are given in place of the time, ids, database and logger while they are simulated."""

import contextlib
import sys
import time as real_time
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import agentchat.contracts.ids
import agentchat.conversations.postgres_sessions
import agentchat.runtime.logs
import agentchat.runtime.postgres
from tests.simulator import database
from tests.simulator.world import World

_OURS = tuple(
    f"agentchat.{name}."
    for name in (
        *("contracts", "conversations", "orchestrator", "gateway", "projector", "tool_runner"),
        *("directory", "runtime", "bus"),
    )
)


class _Quiet:
    """A logger that says nothing, and makes a violation of what is logged as our own mistake."""

    def __init__(self, current: "_Current") -> None:
        self._current = current

    def bind(self, **_: Any) -> "_Quiet":
        return self

    def exception(self, event: str, **_: Any) -> None:
        self._current.world.report_internal(f"{event}: {sys.exc_info()[1]!r}")

    def error(self, event: str, **fields: Any) -> None:
        self._current.world.report_internal(f"{event}: {fields}")

    def debug(self, *_: Any, **__: Any) -> None:
        return None

    info = warning = debug


class _Current:
    """The world that the services are in."""

    world: World


class _Time:
    """What stands for the module `time`."""

    def __init__(self, current: _Current) -> None:
        self._current = current

    def monotonic(self) -> float:
        return self._current.world.now

    time = perf_counter = monotonic


_current = _Current()


def enter(world: World) -> None:
    """From now on the services are in this world."""
    _current.world = world


@contextlib.contextmanager
def substitute_modules() -> Iterator[None]:
    """Within, our modules have the world's time, ids, database and logger."""
    quiet = _Quiet(_current)
    instead: dict[int, Any] = {
        id(real_time): _Time(_current),
        id(agentchat.contracts.ids.make_id): lambda: _current.world.new_id(),
        id(agentchat.conversations.postgres_sessions.open_session): database.open_session,
        id(agentchat.conversations.postgres_sessions.listen): database.listen,
        id(agentchat.conversations.postgres_sessions.wait_for_notifications): database.notifications,
        id(agentchat.runtime.postgres.acquire_connection): database.connection,
        id(agentchat.runtime.logs.get_logger): lambda _name=None: quiet,
        id(agentchat.runtime.logs.bind_context): lambda **_: contextlib.nullcontext(),
    }
    changed: list[tuple[ModuleType, str, Any]] = []
    for name, module in tuple(sys.modules.items()):
        if f"{name}.".startswith(_OURS) and module is not None:
            for attribute, value in tuple(vars(module).items()):
                if id(value) in instead:
                    changed.append((module, attribute, value))
    never_awaited = warnings.catch_warnings()  # of tasks that a world's end met before their first step
    never_awaited.__enter__()
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    try:
        for module, attribute, value in changed:
            setattr(module, attribute, instead[id(value)])
        yield
    finally:
        never_awaited.__exit__(None, None, None)
        for module, attribute, value in changed:
            setattr(module, attribute, value)
