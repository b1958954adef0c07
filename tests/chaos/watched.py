"""The stack of `agentchat up`, without proxies and faults, whose processes can be asked what they hold."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ops.environment import Environment
from ops.folder import RunFolder
from ops.ports import Ports
from ops.probes import HttpProbe
from ops.process import Process
from ops.settings import UpSettings
from tests.chaos import counted
from tests.chaos.growth import Sample, sample, sample_nats
from tests.chaos.plan import SERVICES
from tests.chaos.processes import Kin
from tests.chaos.records import Clock
from tests.chaos.rig import described


class Watched:
    """A running stack."""

    def __init__(self, environment: Environment, kin: Kin, folder: RunFolder) -> None:
        self.environment = environment
        self._kin = kin
        self._folder = folder

    async def samples(self, requests: int, names: Sequence[str] = SERVICES) -> list[Sample]:
        """Of these services and of the clients of NATS."""
        found = [
            await sample(name, self._kin.kept[name], requests, self._folder.path / f"{name}.tasks")
            for name in names
        ]
        health = self._kin.kept["nats"].process.health
        assert isinstance(health, HttpProbe)  # a page of its monitor
        return [*found, await sample_nats(health.port, requests)]


@contextlib.asynccontextmanager
async def watched_stack(path: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[Watched]:
    """Up while the block runs, two of each service. `settings` are added to the services' environment."""
    folder = RunFolder(path)
    folder.create()
    with folder.locked(), contextlib.closing(Ports()) as ports:
        stack = described(folder, ports, UpSettings(port=0), settings)
        processes = [_watched(process, folder) for process in stack.processes]
        async with Kin(processes, Clock()) as kin:
            await kin.wait_ready(60)
            yield Watched(stack.environment, kin, folder)


def _watched(process: Process, folder: RunFolder) -> Process:
    """Services count their tasks."""
    if process.name not in SERVICES:
        return process
    python, dash_m, *rest = process.argv
    env = process.env | {counted.VARIABLE: str(folder.path / f"{process.name}.tasks")}
    return msgspec.structs.replace(process, argv=(python, dash_m, "tests.chaos.counted", *rest), env=env)
