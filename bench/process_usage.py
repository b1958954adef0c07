"""What processes use: CPU and memory, by name, their children counted with them."""

from collections.abc import Callable, Mapping

import psutil

Pids = Mapping[str, int]


def cpu_seconds(pids: Pids) -> dict[str, float]:
    """Used so far by each and its children, those that have ended too."""
    return {name: _sum(_cpu, family) for name, family in _families(pids).items()}


def memory(pids: Pids) -> dict[str, float]:
    """MiB of each and its children, shared pages divided among those that share them (PSS)."""
    return {name: _sum(_pss, family) / 2**20 for name, family in _families(pids).items()}


def since(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used between two readings; by one that was started again meanwhile, since its start."""
    return {name: value - min(value, before.get(name, 0.0)) for name, value in after.items()}


def _families(pids: Pids) -> dict[str, list[psutil.Process]]:
    """Each named process with its descendants, but for those that have a name themselves, or are theirs."""
    named = set(pids.values())

    def family(pid: int) -> list[psutil.Process]:
        try:
            process = psutil.Process(pid)
            children = [child.pid for child in process.children() if child.pid not in named]
        except psutil.NoSuchProcess:
            return []  # what it used is its parent's now
        return [process, *(member for child in children for member in family(child))]

    return {name: family(pid) for name, pid in pids.items()}


def _sum(measure: Callable[[psutil.Process], float], family: list[psutil.Process]) -> float:
    total = 0.0
    for process in family:
        try:
            total += measure(process)
        except psutil.NoSuchProcess:
            continue
    return total


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _pss(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss)
