"""`make bench`: measure the service and the baselines in turns; print tables and keep them in `.bench`."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence

import msgspec
from rich.console import Console

from agentchat.ops.errors import StackError
from agentchat.runtime.uvicorn_server import raise_open_files
from bench import processes
from bench.load import Loaded, run
from bench.processes import ROOT, Started, start_upstream
from bench.report import CPU_CHATS, CPU_DELTAS, EARLIER, TOOL_CALL, Measured, build_tables, show
from bench.systems import BASELINE_PYTHON, SHORT, TOOL, Service, System, run_baseline, run_service

OUTPUT = ROOT / ".bench"
_BASELINES = ("sdk", "aiohttp")
_REST_SECONDS = 10.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """`chats` in all, `at_once` at a time, of `deltas` each.

    Without `spacing_ms` the deltas arrive at once. With it the provider paces them, and all streams are open
    together, so that their memory is measured too. All chats continue one conversation if that has `earlier`
    messages.
    """

    name: str
    chats: int
    at_once: int
    deltas: int = 20
    spacing_ms: int = 0
    tool: bool = False
    earlier: int = 0
    rounds: int = 3

    @property
    def model(self) -> str:
        """The model whose reply the scenario wants, with its pace."""
        if self.spacing_ms:
            return f"lean?deltas={self.deltas}&delay_ms={self.spacing_ms}"
        return TOOL if self.tool else SHORT

    @property
    def ramp(self) -> float:
        """Seconds within which the streams begin, evenly."""
        return self.chats / 250 if self.spacing_ms else 0.0

    @property
    def provider_seconds(self) -> float:
        """Return the seconds that the provider takes for one stream."""
        return self.spacing_ms / 1000 * (self.deltas - 1)


_WARM_UP = Scenario(name="warm-up", chats=200, at_once=8)
FULL = (
    Scenario(name="1 at once", chats=150, at_once=1),
    Scenario(name="32 at once", chats=800, at_once=32, rounds=4),
    Scenario(name="128 at once", chats=800, at_once=128),
    Scenario(name=TOOL_CALL, chats=60, at_once=1, tool=True),
    Scenario(name=EARLIER, chats=60, at_once=1, earlier=1_000),
    Scenario(name="200 streams", chats=200, at_once=200, deltas=500, spacing_ms=10),
    Scenario(name="1000 streams", chats=1000, at_once=1000, deltas=200, spacing_ms=50, rounds=2),
)
"""Less than ten minutes."""
QUICK = (
    Scenario(name="1 at once", chats=60, at_once=1, rounds=2),
    Scenario(name=TOOL_CALL, chats=30, at_once=1, tool=True, rounds=1),
    Scenario(name=EARLIER, chats=30, at_once=1, earlier=1_000, rounds=1),
    Scenario(name="32 at once", chats=300, at_once=32, rounds=2),
    Scenario(name="50 streams", chats=50, at_once=50, deltas=300, spacing_ms=10, rounds=1),
)
"""Two minutes."""


def main() -> None:
    """Measure and print the tables. Errors are one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Compare the service with baselines."
    )
    parser.add_argument("--quick", action="store_true", help="fewer scenarios and rounds, in two minutes")
    parser.add_argument("--only", default="", help="scenarios whose names contain this")
    given = parser.parse_args()
    raise_open_files()  # of the processes that are started here too
    scenarios = [each for each in (QUICK if given.quick else FULL) if given.only in each.name]
    try:
        asyncio.run(run_benchmark(scenarios))
    except StackError as error:
        sys.exit(f"bench: {error}")


async def run_benchmark(scenarios: Sequence[Scenario]) -> None:
    if not BASELINE_PYTHON.exists():
        raise StackError("the baselines are not installed; start the benchmark by `make bench`")
    measured: list[Measured] = []
    try:
        models = tuple({each.model for each in (_WARM_UP, *scenarios)})
        async with start_upstream() as upstream, build_systems(upstream, models) as systems:
            await asyncio.sleep(_REST_SECONDS)
            measured += [await measure_idle(system) for system in systems]
            for system in systems:
                await measure(_WARM_UP, system, 0)
            for scenario in scenarios:
                # All systems in each round, so that other load of the machine is in all of them.
                for number in range(1, scenario.rounds + 1):
                    for system in systems:
                        if system.name in _BASELINES and (scenario.tool or scenario.earlier):
                            continue
                        sys.stderr.write(f"bench: {scenario.name}, round {number}: {system.name}\n")
                        measured.append(await measure(scenario, system, number))
    finally:
        OUTPUT.mkdir(exist_ok=True)
        (OUTPUT / "bench.json").write_bytes(msgspec.json.format(msgspec.json.encode(measured)))
        show(Console(), build_tables(measured))


@contextlib.asynccontextmanager
async def build_systems(upstream: Started, models: tuple[str, ...]) -> AsyncIterator[list[System]]:
    async with contextlib.AsyncExitStack() as stack:
        ours = await stack.enter_async_context(run_service(upstream, models))
        yield [ours, *[await stack.enter_async_context(run_baseline(form, upstream)) for form in _BASELINES]]


async def measure_idle(system: System) -> Measured:
    """Measure the memory and the CPU of a system that has nothing to do."""
    before = processes.measure_cpu_seconds(system.pids)
    await asyncio.sleep(_REST_SECONDS)
    after = processes.measure_cpu_seconds(system.pids)
    cpu = {name: used - before.get(name, 0.0) for name, used in after.items()}
    figures = {"MiB": measure_memory(system), "% of a core": sum(cpu.values()) / _REST_SECONDS * 100}
    return Measured(scenario="idle", system=system.name, round=0, figures=figures, cpu=cpu, failures={})


async def measure(scenario: Scenario, system: System, number: int) -> Measured:
    """Run one scenario with one system. Raises StackError, TimeoutError."""
    load = system.load(scenario.model, scenario.chats, scenario.at_once, scenario.ramp)
    if scenario.earlier and isinstance(system, Service):
        conversation_id = await system.start_conversation(scenario.earlier)
        load = system.load(scenario.model, scenario.chats, scenario.at_once, scenario.ramp, conversation_id)
    await system.settle()
    idle, before = measure_memory(system), processes.measure_cpu_seconds(system.pids)
    loading = asyncio.create_task(run(load))
    if scenario.spacing_ms:  # when the last stream has begun and the first is still open
        await asyncio.sleep((scenario.ramp + scenario.provider_seconds) / 2)
        open_memory = await asyncio.to_thread(measure_memory, system)
    loaded = await loading
    await system.settle()
    after = processes.measure_cpu_seconds(system.pids)
    # A process that was started again meanwhile has used what it used since its start.
    cpu = {name: used - min(used, before.get(name, 0.0)) for name, used in after.items()}
    figures = collect_figures(scenario, loaded, sum(cpu.values()))
    if scenario.spacing_ms:
        figures["KiB / open stream"] = (open_memory - idle) * 1024 / scenario.chats
    return Measured(
        scenario=scenario.name,
        system=system.name,
        round=number,
        figures=figures,
        cpu=cpu,
        failures=loaded.failures,
    )


def collect_figures(scenario: Scenario, loaded: Loaded, cpu: float) -> dict[str, float]:
    good, firsts = max(1, len(loaded.firsts)), sorted(loaded.firsts)
    found = {
        "first p50 ms": compute_quantile(firsts, 0.5) * 1e3,
        "first p99 ms": compute_quantile(firsts, 0.99) * 1e3,
        "client share of a core": loaded.busy,
    }
    if not scenario.spacing_ms:
        return found | {"chats": good, CPU_CHATS: cpu / good * 1e3, "chats / s": good / loaded.seconds}
    deltas = good * scenario.deltas
    stretch = compute_quantile(sorted(loaded.lengths), 0.99) / scenario.provider_seconds
    return found | {"deltas": deltas, CPU_DELTAS: cpu / deltas * 1e6, "stretch p99": stretch}


def compute_quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def measure_memory(system: System) -> float:
    return sum(processes.measure_memory(system.pids).values())


if __name__ == "__main__":
    main()
