"""`make fuzz`: 20,000 generated requests against the whole system.

Both APIs, and every check that schemathesis has.
A stack of its own on embedded servers, in a temporary folder. Exit code 1 where a check fails, or a service
logs a failure. Each failure is printed with a command that repeats it, and with the seed of its run.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from agentchat.ops.settings import ProcessCounts
from tests.fuzz.agents import target_of
from tests.fuzz.schemathesis_run import Target, run_schemathesis
from tests.harness import RunningStack, running_stack

_PUBLIC = ("--exclude-tag", "admin")
_ADMIN = ("--include-tag", "admin")
_DEEP = ("--phases", "fuzzing,stateful", "--max-examples", "150")
# What a fuzzed request may never bring a service to write.
_FAULTS = ('"request_failed"', "Traceback", "ASGI callable")


async def fuzz(cases: int, seed: int) -> bool:
    """True where nothing was found."""
    async with running_stack(ProcessCounts(gateways=1, orchestrators=1, tool_runners=1)) as stack:
        print(f"the stack is up in {stack.folder.path}", flush=True)
        target = await target_of(stack)
        with tempfile.TemporaryDirectory(prefix="agentchat-fuzz-") as folder:
            passed = _rounds(target, Path(folder), cases, seed)
        return _logs_are_clean(stack) and passed


def _rounds(target: Target, folder: Path, cases: int, seed: int) -> bool:
    """The public API in all phases, with a peer, then at depth to three quarters; then the admin API."""
    passed, done = True, 0
    for api, goal in ((_PUBLIC, cases * 3 // 4), (_ADMIN, cases)):
        number = 0
        while done < goal:
            began = time.monotonic()
            options = api if number == 0 else (*api, *_DEEP)
            peers = api is _PUBLIC and number == 1
            outcome = run_schemathesis(target, folder, options, seed=seed, peers=peers)
            done += outcome.cases
            spent = time.monotonic() - began
            print(f"seed {seed}: {outcome.cases} cases in {spent:.0f} s, {done} of {cases}", flush=True)
            if not outcome.passed:
                passed = False
                print(outcome.said, flush=True)
            if not outcome.cases:
                return False
            seed += 1
            number += 1
    return passed


def _logs_are_clean(stack: RunningStack) -> bool:
    clean = True
    for log in sorted(stack.folder.logs.glob("*.log")):
        for line in log.read_text(errors="replace").splitlines():
            if any(fault in line for fault in _FAULTS):
                clean = False
                print(f"{log.name}: {line[:2000]}", flush=True)
    return clean


def main() -> None:
    """The command; exits with 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    sys.exit(0 if asyncio.run(fuzz(arguments.cases, arguments.seed)) else 1)


if __name__ == "__main__":
    main()
