"""The measurements in order, against a stack that runs or one started for the time, as tables on stdout."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from rich.console import Console
from rich.table import Table

from directory.administration import create_agent
from directory.agent_draft import AgentDraft
from directory.errors import Conflict
from directory.secrets import Sealer
from ops import demo, environment, record, secrets
from ops.bench import measure
from ops.bench.flood import Flooded, flooding, told_of
from ops.bench.measure import Paced, Spread, Target, spread
from ops.environment import Environment
from ops.errors import NotRunningError
from ops.folder import RunFolder
from ops.harness import running_stack
from ops.probes import HttpProbe
from runtime.postgres import connection, open_pool

AT_ONCE = "demo-load?deltas=20"
PACED = "demo-load?deltas=200&delay_ms=20"
_AGENTS = {AT_ONCE: "019a0000-0000-7000-8000-0000000000b1", PACED: "019a0000-0000-7000-8000-0000000000b2"}
_STREAMS, _DELTAS, _SPACING = 100, 200, 0.020
_REQUESTS = 100
_FLOODS = 4
_IDLE_SECONDS = 5.0


def bench() -> None:
    """Measure and print. Raises StackError, BenchError."""
    asyncio.run(_bench(Console()))


async def _bench(console: Console) -> None:
    async with _stack() as folder:
        found = environment.load(folder)
        await _make_agents(folder, found)
        pids = _pids(folder)
        await asyncio.sleep(_IDLE_SECONDS)
        console.print(_memory_table(measure.proportional_set_sizes(pids)))
        console.print(await _first_delta(folder, found))
        console.print(await _beside_a_flood(found))
        console.print(*await _paced(folder, found, pids))


@contextlib.asynccontextmanager
async def _stack() -> AsyncIterator[RunFolder]:
    """The running one, else one of the bench's own."""
    folder = environment.run_folder()
    try:
        environment.load(folder)
    except NotRunningError:
        sys.stderr.write("agentchat: nothing runs here, so a stack is started for the measurement\n")
        async with running_stack() as stack:
            yield stack.folder
    else:
        yield folder


async def _make_agents(folder: RunFolder, found: Environment) -> None:
    sealer = Sealer.from_setting(secrets.keep(folder.secrets).secret_key)
    async with open_pool(found.database_url, role=None) as pool, connection(pool, seconds=10) as conn:
        for model, agent_id in _AGENTS.items():
            draft = AgentDraft(name=f"Bench {model}", model=model, provider_key="offline")
            with contextlib.suppress(Conflict):  # there from an earlier measurement
                await create_agent(
                    conn, sealer, demo.LOAD_ACCOUNT_ID, draft, actor="agentchat bench", agent_id=agent_id
                )


def _pids(folder: RunFolder) -> dict[str, int]:
    kept = record.read(folder.processes)
    assert kept is not None, "a stack that runs keeps its record"
    started = {entry.name: entry.pid for entry in kept.processes if entry.pid is not None}
    return {"agentchat up": kept.pid, **started}


def _service(found: Environment, model: str) -> Target:
    return Target(
        name="the service",
        url=f"{found.base_url}/v1/chat/stream",
        headers={"X-Api-Key": found.load_api_key, "X-Agent-Id": _AGENTS[model], "X-Stream-Form": "1"},
        body={"message": "Go."},
        marker=b'"type":"delta"',
    )


def _model(folder: RunFolder, model: str) -> Target:
    kept = record.read(folder.processes)
    entry = kept.entry("model-demo") if kept else None
    assert entry is not None
    assert isinstance(entry.probe, HttpProbe)
    return Target(
        name="model-demo alone",
        url=f"http://{entry.probe.host}:{entry.probe.port}/v1/messages",
        headers={"x-api-key": "offline", "anthropic-version": "2023-06-01"},
        body={
            "model": model,
            "max_tokens": 4096,
            "stream": True,
            "messages": [{"role": "user", "content": "Go."}],
        },
        marker=b'"text_delta"',
    )


async def _first_delta(folder: RunFolder, found: Environment) -> Table:
    targets = (_model(folder, AT_ONCE), _service(found, AT_ONCE))
    for target in targets:
        await measure.time_to_first_delta(target, 10)  # first connections and first imports are not the point
    alone, through = [await measure.time_to_first_delta(target, _REQUESTS) for target in targets]
    table = _spreads(f"Time to the first delta, ms, {_REQUESTS} requests one after the other")
    _row(table, targets[0].name, alone)
    _row(table, targets[1].name, through)
    _row(table, "added", _minus(through, alone))
    return table


async def _beside_a_flood(found: Environment) -> Table:
    """In turns, so that whatever else the machine does is in both."""
    target = _service(found, AT_ONCE)
    starter = {"X-Api-Key": found.starter_api_key, "X-Agent-Id": found.starter_agent_id}
    alone: list[float] = []
    beside: list[float] = []
    floods: list[Flooded] = []
    for _ in range(_FLOODS):
        alone += await measure.first_deltas(target, _REQUESTS // _FLOODS)
        async with flooding(f"{found.base_url}/v1/chat", starter) as flooded:
            beside += await measure.first_deltas(target, _REQUESTS // _FLOODS)
        floods += flooded
    table = _spreads(f"The same beside a flood of the Starter account, {told_of(floods)}")
    _row(table, "alone", spread(alone))
    _row(table, "beside the flood", spread(beside))
    _row(table, "added", _minus(spread(beside), spread(alone)))
    return table


async def _paced(folder: RunFolder, found: Environment, pids: dict[str, int]) -> list[Table]:
    title = f"{_STREAMS} streams at once, {_DELTAS} deltas each, one every {_SPACING * 1000:.0f} ms"
    delays, firsts = _spreads(f"{title}: delay of a delta, ms"), _spreads("Their first deltas, ms")
    cpu = Table(title="CPU seconds they took", title_justify="left")
    cpu.add_column("process")
    results: list[Paced] = []
    used: list[dict[str, float]] = []
    for target in (_model(folder, PACED), _service(found, PACED)):
        before = measure.cpu_seconds(pids)
        paced = await measure.paced_streams(target, streams=_STREAMS, deltas=_DELTAS, spacing=_SPACING)
        results.append(paced)
        used.append({name: after - before[name] for name, after in measure.cpu_seconds(pids).items()})
        _row(delays, f"{target.name} ({paced.lost} lost)", paced.delay)
        _row(firsts, target.name, paced.first_delta)
        cpu.add_column(target.name, justify="right")
    _row(delays, "added", _minus(results[1].delay, results[0].delay))
    for name in sorted(pids):
        cpu.add_row(name, *(f"{one[name]:.2f}" for one in used))
    return [delays, firsts, cpu]


def _memory_table(sizes: dict[str, float]) -> Table:
    table = Table(title="Idle memory, proportional set size", title_justify="left")
    table.add_column("process")
    table.add_column("MiB", justify="right")
    for name, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        table.add_row(name, f"{size:.1f}")
    table.add_section()
    table.add_row("all", f"{sum(sizes.values()):.1f}")
    return table


def _spreads(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("p50", "p90", "p99", "worst"):
        table.add_column(name, justify="right")
    return table


def _row(table: Table, name: str, values: Spread) -> None:
    table.add_row(name, *(f"{value:.1f}" for value in (values.p50, values.p90, values.p99, values.worst)))


def _minus(one: Spread, other: Spread) -> Spread:
    return Spread(
        p50=one.p50 - other.p50,
        p90=one.p90 - other.p90,
        p99=one.p99 - other.p99,
        worst=one.worst - other.worst,
    )
