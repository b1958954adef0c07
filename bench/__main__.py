"""`python -m bench [--quick | --protocols | …]`: writes tables and JSON.

Without an option, and with the first two, each scenario with each subject in turn.
"""

import argparse
import asyncio
import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import appends, growth, neighbours, processes, projection
from bench.counting.counted_stack import counted_stack
from bench.counting.one_chat import costs
from bench.measured_systems import BASELINE_PYTHON, ByProtocol, Subject, baseline, service
from bench.measuring import Measuring
from bench.processes import ROOT, Started, lean_upstream
from bench.protocol_requests import PROTOCOLS
from bench.report import Machine, Report, markdown, show, tables
from bench.scenarios import AIOHTTP, ALL, BY_PROTOCOL, FULL, QUICK, SDK, SERVICE, Chats, Scenario, models
from ops.errors import StackError
from runtime.web import raise_open_files

OUTPUT = ROOT / ".bench"
_REST_SECONDS = 5.0
Step = Callable[[str], None]
_WARM_UP = Chats(name="warm-up", chats=200, at_once=8)


class Output:
    """The report so far, in `.bench/<name>.json` and its tables in `.bench/<name>.md`."""

    def __init__(self, name: str) -> None:
        self.report = Report(machine=_machine())
        self._path = OUTPUT / name

    def add(self, title: str, columns: tuple[str, ...], *row: str) -> None:
        """One more row of a table, written at once: a run that is stopped leaves what it has measured."""
        self.report.add(title, columns, row)
        self.keep()
        sys.stderr.write(f"bench: {title}: {' | '.join(row)}\n")

    def keep(self) -> Path:
        """Everything as JSON, and the tables in Markdown; returns the path of these."""
        OUTPUT.mkdir(exist_ok=True)
        self._path.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(self.report)))
        shown = self._path.with_suffix(".md")
        shown.write_text(markdown(tables(self.report)))
        return shown


def main() -> None:
    """Measure and print; an error is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures the service next to baselines."
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="fewer scenarios and rounds, in three minutes")
    kind.add_argument("--protocols", action="store_true", help="the service alone, by each protocol")
    kind.add_argument("--growth", action="store_true", help=f"how cost grows with {', '.join(growth.PARTS)}")
    kind.add_argument("--neighbours", action="store_true", help="one account while another one attacks")
    kind.add_argument("--appends", action="store_true", help="appends to the log, next to those of 0.9.0")
    kind.add_argument("--projection", action="store_true", help="read models by 1, 2, 4 and 8 processes")
    parser.add_argument("--only", default="", help="scenarios, parts or attacks whose names contain this")
    parser.add_argument("--rounds", type=int, help="of each scenario")
    parser.add_argument("--largest", type=int, default=100_000, help="of what is stored, 1000 to 1000000")
    parser.add_argument("--streams", type=int, default=5_000, help="the most that are opened")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of each measurement of a neighbour or writer"
    )
    given = parser.parse_args()
    raise_open_files()  # of what is started here too
    kinds = ("growth", "neighbours", "appends", "projection")
    output = Output(next((each for each in kinds if vars(given)[each]), "bench"))
    if given.growth:
        work = growth.measure(output.add, given.only, growth.Limits(given.largest, given.streams))
    elif given.neighbours:
        work = neighbours.measure(output.add, given.only, given.seconds)
    elif given.appends:
        work = appends.measure(output.add, given.only, given.seconds, given.rounds)
    elif given.projection:
        work = projection.measure(output.add, given.only, given.seconds)
    else:
        every = BY_PROTOCOL if given.protocols else QUICK if given.quick else FULL
        chosen = [each for each in every if given.only in each.name]
        work = _scenarios(
            output,
            tuple(msgspec.structs.replace(each, rounds=given.rounds or each.rounds) for each in chosen),
        )
    try:
        asyncio.run(_bench(Console(), output, work))
    except StackError as error:
        sys.exit(f"bench: {error}")


async def _bench(console: Console, output: Output, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    finally:
        show(console, tables(output.report))
        console.print(f"kept: {output.keep()}")


async def _scenarios(output: Output, scenarios: tuple[Scenario, ...]) -> None:
    if SDK in _names(scenarios) and not BASELINE_PYTHON.exists():
        raise StackError("the baselines are not installed: start it by `make bench`")
    report = output.report
    with _progress(scenarios) as step:
        step("counting one chat")
        if SERVICE in _names(scenarios):
            async with counted_stack() as counted:
                report.counts = {kind: cost.counts for kind, cost in (await costs(counted)).items()}
        step("starting the subjects")
        async with lean_upstream() as upstream, _subjects(upstream, scenarios) as subjects:
            await asyncio.sleep(_REST_SECONDS)
            report.idle = {
                name: processes.memory(each.pids) for name, each in subjects.items() if name in ALL
            }
            await _measure(output, Measuring(upstream.pid), subjects, scenarios, step)


async def _measure(
    output: Output,
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
                output.report.measured.append(await measuring.measure(scenario, subjects[name], number))
        output.keep()  # a run that is stopped leaves what it has measured


@contextlib.asynccontextmanager
async def _subjects(upstream: Started, scenarios: tuple[Scenario, ...]) -> AsyncIterator[dict[str, Subject]]:
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


if __name__ == "__main__":
    main()
