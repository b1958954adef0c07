"""The experiments of this process: each runs as a task, and is known by its id until others need its room."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Iterable
from typing import Literal

from litestar.exceptions import NotFoundException

from administration.admin_values import Agent
from bus import BusUnavailable
from contracts.admin_errors import AdminError, Conflict
from experiments.chosen_runs import Estimate
from experiments.experiment import Experiment
from runtime import logs
from runtime.postgres import DatabaseUnavailable

MOST_RUNS = 500
"""Of one experiment."""
_MOST_OF_SESSION = 2
_MOST_OF_PROCESS = 6
"""Experiments that run at once: each asks the model for several runs at a time."""

_MOST_KEPT = 5_000
_KEPT_SECONDS = 24 * 3600.0
_UNKNOWN = (
    "This console does not know the experiment: it was restarted since, or a day has passed. "
    "Start it again from the page What if."
)


class RunningExperiment:
    """One experiment, running or not. `agent` answers: a version, or a draft that differs from `of_version`
    in `changes`.
    """

    def __init__(
        self,
        experiment: Experiment,
        agent: Agent,
        estimate: Estimate,
        *,
        of_version: int,
        changes: Iterable[str],
        actor: str,
        session_id: str,
        begun_at: str,
    ) -> None:
        self.id = secrets.token_hex(8)
        self.experiment = experiment
        self.agent = agent
        self.estimate = estimate
        self.of_version = of_version
        self.changed = tuple(each.replace("_", " ") for each in changes)
        self.actor = actor
        self.session_id = session_id
        self.begun_at = begun_at
        self.state: Literal["running", "done", "stopped", "failed"] = "running"
        self.reason = ""
        self._began = self._ended = time.monotonic()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def seconds(self) -> float:
        """For which it has run."""
        return (time.monotonic() if self.state == "running" else self._ended) - self._began

    @property
    def is_old(self) -> bool:
        return self.state != "running" and time.monotonic() - self._ended > _KEPT_SECONDS

    def stop(self) -> None:
        """No further run begins; those under way end by themselves, and are not shown."""
        self._task.cancel()

    async def until_ended(self) -> None:
        await asyncio.wait([self._task])

    async def changes(self) -> AsyncIterator[None]:
        """Now, and after each change until it has ended; changes that come together are one."""
        while True:
            changed, is_last = self._changed, self.state != "running"
            yield
            if is_last:
                return
            await changed.wait()

    async def _run(self) -> None:
        try:
            await self.experiment.run(self._notify)
            self.state = "done"
        except asyncio.CancelledError:
            self.state = "stopped"
        except (AdminError, BusUnavailable, DatabaseUnavailable) as error:
            self.state, self.reason = "failed", str(error)
        except Exception:  # noqa: BLE001 - the outermost frame of a task
            self.state, self.reason = "failed", "This is a fault of the console; its log has the details."
            logs.get_logger("console").exception("experiment_broke", experiment=self.id)
        self._ended = time.monotonic()
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Experiments:
    """By their ids. The oldest that have ended make room for new ones."""

    def __init__(self) -> None:
        self._known: dict[str, RunningExperiment] = {}

    def add(self, running: RunningExperiment) -> RunningExperiment:
        self._known[running.id] = running
        runs = sum(len(each.experiment.chosen) for each in self._known.values())
        for each in list(self._known.values()):
            if each.state != "running" and (each.is_old or runs > _MOST_KEPT):
                runs -= len(each.experiment.chosen)
                del self._known[each.id]
        return running

    def check_room(self, session_id: str) -> None:
        """Whether the session may begin one. Raises Conflict."""
        running = [each for each in self._known.values() if each.state == "running"]
        if sum(each.session_id == session_id for each in running) >= _MOST_OF_SESSION:
            raise Conflict(f"{_MOST_OF_SESSION} experiments of yours run already: wait for one, or stop it")
        if len(running) >= _MOST_OF_PROCESS:
            raise Conflict(
                f"{_MOST_OF_PROCESS} experiments run at this console already: wait for one, or stop yours"
            )

    def newest(self, most: int) -> list[RunningExperiment]:
        return list(reversed(self._known.values()))[:most]

    def find(self, experiment_id: str) -> RunningExperiment:
        """Raises NotFoundException."""
        try:
            return self._known[experiment_id]
        except KeyError:
            raise NotFoundException(_UNKNOWN) from None

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls) -> "AsyncIterator[Experiments]":
        """Those that run are stopped at the end of the block."""
        experiments = cls()
        try:
            yield experiments
        finally:
            for each in experiments._known.values():
                each.stop()
            for each in experiments._known.values():
                await each.until_ended()
