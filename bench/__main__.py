"""`python -m bench [--quick | --protocols]`: each scenario with each subject in turn; tables and JSON."""

import argparse
import asyncio
import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import process_usage
from bench.bench_processes import ROOT, Started, lean_upstream
from bench.counting.counted_stack import counted_stack
from bench.counting.one_chat import costs
from bench.measured_systems import BASELINE_PYTHON, ByProtocol, Subject, baseline, service
from bench.measuring import Measuring
from bench.protocol_requests import PROTOCOLS
from bench.report import Machine, Report, markdown, tables
from bench.scenarios import AIOHTTP, ALL, BY_PROTOCOL, FULL, QUICK, SDK, SERVICE, Chats, Scenario, models
from bench.show_tables import show
from ops.errors import StackError
from runtime.web import raise_open_files

OUTPUT = ROOT / ".bench"
_REST_SECONDS = 5.0
Step = Callable[[str], None]
_WARM_UP = Chats(name="warm-up", chats=200, at_once=8)


def main() -> None:
    """Measure and print; an error is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures the service next to baselines."
    )
    parser.add_argument("--quick", action="store_true", help="fewer scenarios and rounds, in three minutes")
    parser.add_argument("--protocols", action="store_true", help="the service alone, by each protocol")
    parser.add_argument("--only", default="", help="scenarios whose names contain this")
    parser.add_argument("--rounds", type=int, help="of each scenario")
    given = parser.parse_args()
    chosen = tuple(
        msgspec.structs.replace(each, rounds=given.rounds or each.rounds)
        for each in (BY_PROTOCOL if given.protocols else QUICK if given.quick else FULL)
        if given.only in each.name
    )
    raise_open_files()  # of what is started here too
    try:
        asyncio.run(_bench(Console(), chosen))
    except StackError as error:
        sys.exit(f"bench: {error}")


async def _bench(console: Console, scenarios: tuple[Scenario, ...]) -> None:
    if SDK in _names(scenarios) and not BASELINE_PYTHON.exists():
        raise StackError("the baselines are not installed: start it by `make bench`")
    report = Report(machine=_machine())
    try:
        await _fill(report, scenarios)
    finally:
        _print(console, report)


async def _fill(report: Report, scenarios: tuple[Scenario, ...]) -> None:
    with _progress(scenarios) as step:
        step("counting one chat")
        if SERVICE in _names(scenarios):
            async with counted_stack() as counted:
                report.counts = {kind: cost.counts for kind, cost in (await costs(counted)).items()}
        step("starting the subjects")
        async with lean_upstream() as upstream, _subjects(upstream, scenarios) as subjects:
            await asyncio.sleep(_REST_SECONDS)
            report.idle = {
                name: process_usage.memory(each.pids) for name, each in subjects.items() if name in ALL
            }
            await _measure(report, Measuring(upstream.pid), subjects, scenarios, step)


async def _measure(
    report: Report,
    measuring: Measuring,
    subjects: dict[str, Subject],
    scenarios: tuple[Scenario, ...],
    step: Step,
) -> None:
    """All subjects in each round, so that other load of the machine is in all of them."""
    for subject in subjects.values():
        await measuring.measure(_WARM_UP, subject, 0)
    for scenario in scenarios:
        for number in range(1, scenario.rounds + 1):
            for name in scenario.subjects:
                step(f"{scenario.name}, round {number} of {scenario.rounds}: {name}")
                report.measured.append(await measuring.measure(scenario, subjects[name], number))
        _keep(report)  # one that is killed has come so far


@contextlib.asynccontextmanager
async def _subjects(upstream: Started, scenarios: tuple[Scenario, ...]) -> AsyncIterator[dict[str, Subject]]:
    """Those of the scenarios."""
    names = _names(scenarios)
    async with (
        contextlib.AsyncExitStack() as baselines,
        service(upstream, tuple({*models(scenarios), _WARM_UP.model})) as ours,
    ):
        found: dict[str, Subject] = {SERVICE: ours} | {name: ByProtocol(name, ours) for name in PROTOCOLS}
        for form in (SDK, AIOHTTP):
            if form in names:
                found[form] = await baselines.enter_async_context(baseline(form, upstream))
        yield {name: found[name] for name in names}


def _names(scenarios: tuple[Scenario, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for scenario in scenarios for name in scenario.subjects))


@contextlib.contextmanager
def _progress(scenarios: tuple[Scenario, ...]) -> Iterator[Step]:
    """Shows the current step: a bar on a terminal, else a line each."""
    total = 2 + sum(each.rounds * len(each.subjects) for each in scenarios)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=total)

        def step(text: str) -> None:
            shown.advance(task)
            shown.update(task, description=text)
            if shown.disable:
                sys.stderr.write(f"bench: {text}\n")

        yield step


def _machine() -> Machine:
    described = subprocess.run(
        ("git", "describe", "--always", "--dirty"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    return Machine(
        cores=os.cpu_count() or 0,
        python=platform.python_version(),
        commit=described.stdout.strip(),
        at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    )


def _print(console: Console, report: Report) -> None:
    show(console, tables(report))
    console.print(f"kept: {_keep(report)}")


def _keep(report: Report) -> Path:
    """Everything as JSON, and the tables in Markdown; returns the path of these."""
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "bench.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    shown = OUTPUT / "bench.md"
    shown.write_text(markdown(tables(report)))
    return shown


if __name__ == "__main__":
    main()
