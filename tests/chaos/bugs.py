"""Bugs planted into running services: `python -m tests.chaos.bugs` shows that the rig finds each.

Each is a patch of one service, in its own process: `python -m tests.chaos.bugs BUG MODULE ...` runs it so.
"""

import asyncio
import itertools
import runpy
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.chaos.checker import check
from tests.chaos.disk import unshare_mounts
from tests.chaos.plan import make_plan
from tests.chaos.run import record
from tests.harness import temporary_folder

_SEED = 3625
_REQUESTS, _SECONDS, _EVERY = 60, 10.0, 1.0


def _patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put what `make` makes of it in the place of an attribute."""
    setattr(owner, name, make(getattr(owner, name)))


def _one_key_for_all() -> None:
    from orchestrator.run import run_attempt

    kept: list[Any] = []

    def first_key(real: Any) -> Any:
        def credentials_of(*arguments: Any) -> Any:
            kept.append(real(*arguments))
            return kept[0]

        return credentials_of

    _patch(run_attempt, "credentials_of", first_key)


def _no_memory() -> None:
    from msgspec.structs import replace

    from conversations.aggregate.history import Prompt
    from orchestrator.run import perform

    def last_message(real: Any) -> Any:
        def prompt_for(*arguments: Any, **more: Any) -> Prompt:
            prompt: Prompt = real(*arguments, **more)
            return Prompt(prompt.messages[-1:], 0, replace(prompt.settled, count=0, blocks=0))

        return prompt_for

    _patch(perform, "prompt_for", last_message)


def _no_idempotency() -> None:
    from gateway.chat import idempotency_key

    numbers = itertools.count()
    _patch(idempotency_key, "parse", lambda real: lambda value: f"{real(value)}-{next(numbers)}")


def _lost_deltas() -> None:
    from contracts.sse import Encoder
    from contracts.updates import Text

    numbers = itertools.count()

    def with_loss(real: Any) -> Any:
        def data(self: Encoder, update: Any) -> Any:
            return b"" if isinstance(update, Text) and next(numbers) % 10 == 9 else real(self, update)

        return data

    _patch(Encoder, "_data", with_loss)


def _tools_run_twice() -> None:
    from tool_runner.servers.pool import ToolServer

    def twice(real: Any) -> Any:
        async def call(*arguments: Any) -> Any:
            await real(*arguments)
            return await real(*arguments)

        return call

    _patch(ToolServer, "call", twice)


def _no_sweeper() -> None:
    from projector.sweeper import Sweeper

    async def never(_: Sweeper) -> None:
        await asyncio.Event().wait()

    _patch(Sweeper, "_sweep_again_and_again", lambda _: never)


def _tokens_not_counted() -> None:
    from contracts.values import Usage

    _patch(Usage, "total", lambda _: property(lambda usage: usage.output_tokens))


def _no_limits() -> None:
    from msgspec.structs import replace

    from limits import Limiter

    def free(real: Any) -> Any:
        async def admit(self: Limiter, account_id: str, plan: Any, trace_id: str, **more: Any) -> Any:
            unlimited = replace(plan, requests_per_minute=None, concurrent_runs=None)
            return await real(self, account_id, unlimited, trace_id, **more)

        return admit

    _patch(Limiter, "admit", free)


def _runs_timed_by_the_wall_clock() -> None:
    import time
    from types import SimpleNamespace

    from orchestrator.run import run_clock

    _patch(run_clock, "time", lambda _: SimpleNamespace(monotonic=lambda: time.time()))


def _log_lines_that_raise() -> None:
    from runtime import logs

    _patch(logs, "_Lossy", lambda _: lambda file: file)


class Bug(NamedTuple):
    """Which services have it, the invariant that it breaks, under which faults: `only`, or version 1."""

    service: str
    invariant: str
    plant: Callable[[], None]
    only: tuple[str, ...] = ()


BUGS = {
    "one-key-for-all": Bug("orchestrator", "I12", _one_key_for_all),
    "no-memory": Bug("orchestrator", "I8", _no_memory),
    "no-idempotency": Bug("gateway", "I1", _no_idempotency),
    "lost-deltas": Bug("gateway", "I4", _lost_deltas),
    "tools-run-twice": Bug("tool-runner", "I10", _tools_run_twice),
    "no-sweeper": Bug("projector", "I7", _no_sweeper),
    "tokens-not-counted": Bug("orchestrator", "I13", _tokens_not_counted),
    "no-limits": Bug("gateway", "I14", _no_limits),
    "wall-clock": Bug("orchestrator", "I13", _runs_timed_by_the_wall_clock, ("clock",)),
    "raising-logs": Bug("orchestrator", "I7", _log_lines_that_raise, ("fill",)),
}


def _found(name: str) -> set[str]:
    bug = BUGS[name]
    version = 2 if bug.only else 1
    plan = make_plan(_SEED, _REQUESTS, _SECONDS, _EVERY, longest=3.0, only=bug.only, version=version)
    module = (sys.executable, "-m", "tests.chaos.bugs", name, bug.service.replace("-", "_"))
    with temporary_folder("agentchat-chaos-") as folder:
        replaced = {bug.service: module}
        history = asyncio.run(record(plan, folder / "run", rebuilds=0, replaced=replaced, disks=True))
    return {violation.invariant for violation in check(history)}


def main() -> None:
    unshare_mounts()
    missed = []
    for name, bug in BUGS.items():
        found = _found(name)
        print(f"{name}: {bug.invariant} {'found' if bug.invariant in found else 'MISSED'} ({sorted(found)})")
        if bug.invariant not in found:
            missed.append(name)
    sys.exit(int(bool(missed)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        del sys.argv[0]
        BUGS[sys.argv.pop(0)].plant()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        main()
