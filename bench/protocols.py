"""`python -m bench.protocols`: what a chat costs in each protocol, in CPU of the whole service."""

import argparse
import asyncio
from collections.abc import Iterator, Mapping
from statistics import median

from rich.console import Console

from bench import usage
from bench.agents import name_of
from bench.load import Load, run
from bench.processes import lean_upstream
from bench.protocol_requests import FORM1, PROTOCOLS, ProtocolRequest
from bench.scenarios import Chats, Streams
from bench.subjects import Service, service
from runtime.web import raise_open_files

_SHORT = Chats(name="short: 20 deltas that arrive at once, 32 chats at once", chats=400, at_once=32)
_LONG = Streams(
    name="long: 500 deltas, one each 10 ms, 50 chats at once", streams=50, deltas=500, spacing_ms=10
)
Cpu = Mapping[str, float]
"""Milliseconds a chat, by process."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.protocols")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    raise_open_files()  # of what is started here too
    asyncio.run(_measure(given.rounds))


async def _measure(rounds: int) -> None:
    console = Console(width=130)
    scenarios = (_SHORT, _LONG)
    async with (
        lean_upstream() as upstream,
        service(upstream, tuple(each.model for each in scenarios)) as subject,
    ):
        for scenario in scenarios:
            for protocol in PROTOCOLS.values():  # code that no chat has met
                await _cpu(subject, protocol, _SHORT)
            found = [
                {name: await _cpu(subject, PROTOCOLS[name], scenario) for name in _turns(each)}
                for each in range(rounds)
            ]
            console.print(f"{scenario.name}, {rounds} rounds")
            for name, line in _lines(found):
                console.print(f"{name:33}{line}", highlight=False)


def _turns(number: int) -> list[str]:
    """Each round begins with another protocol: what grows meanwhile is nobody's own."""
    names, first = list(PROTOCOLS), number % len(PROTOCOLS)
    return names[first:] + names[:first]


def _lines(found: list[dict[str, Cpu]]) -> Iterator[tuple[str, str]]:
    yield "", "CPU ms a chat, over form 1's: of the medians, and by round (lowest to highest); by process"
    whole = {name: median(sum(each[name].values()) for each in found) for name in PROTOCOLS}
    for name in PROTOCOLS:
        ratios = sorted(sum(each[name].values()) / sum(each[FORM1].values()) for each in found)
        processes = {process: median(each[name][process] for each in found) for process in found[0][name]}
        by_process = ", ".join(f"{process} {cost:.2f}" for process, cost in processes.items() if cost >= 0.05)
        ratio = f"{whole[name] / whole[FORM1]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        yield name, f"{whole[name]:6.2f}  {ratio}  {by_process}"


async def _cpu(subject: Service, protocol: ProtocolRequest, scenario: Chats | Streams) -> Cpu:
    """Raises RuntimeError where a chat fails."""
    load = _load(subject, protocol, scenario)
    await subject.settle()
    before = usage.cpu_seconds(subject.pids)
    loaded = await run(load)
    await subject.settle()
    if loaded.failures:
        raise RuntimeError(f"{protocol.path}: {loaded.failures}")
    used = usage.since(before, usage.cpu_seconds(subject.pids))
    return {process: seconds / load.chats * 1e3 for process, seconds in used.items()}


def _load(subject: Service, protocol: ProtocolRequest, scenario: Chats | Streams) -> Load:
    if isinstance(scenario, Chats):
        chats, at_once, ramp = scenario.chats, scenario.at_once, 0.0
    else:
        chats, at_once, ramp = scenario.streams, scenario.streams, scenario.ramp
    usual = subject.load(scenario.model, chats, at_once)
    agent_id = usual.headers["X-Agent-Id"]
    return Load(
        url=subject.environment.base_url + protocol.path.format(agent=agent_id),
        headers=protocol.headers_for(usual.headers["X-Api-Key"], agent_id),
        bodies=tuple(protocol.body(name_of(scenario.model)) for _ in range(chats)),
        chats=chats,
        at_once=at_once,
        ramp=ramp,
        done=protocol.done,
    )


if __name__ == "__main__":
    main()
