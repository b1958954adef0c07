"""Carries out the rebuild or the verification that somebody has requested (`read_model_jobs`).

While a leader leads, next to all else that it does. One that was interrupted is taken up by the next leader:
a rebuild where it was, a verification from the beginning. What is stopped or fails leaves nothing half built.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from conversations.database import DatabaseError
from conversations.errors import ConversationsError, RebuildUnderWay
from conversations.event_store.log import open_log
from conversations.projections.applying import RefusedEvent
from conversations.projections.projection import Projection
from conversations.projections.read_model_jobs import (
    ClaimedJob,
    DifferentRow,
    JobState,
    Outcome,
    Progress,
    ReadModelJob,
    ReadModelResult,
    claim,
)
from conversations.projections.rebuilding import CONNECTIONS, discard, rebuild
from conversations.projections.verifying import VerifiedReadModel, verify
from projector.rebuilds import LoggedBuild
from runtime.following import follow
from runtime.logs import first_line, get_logger
from runtime.postgres import DatabaseUnavailable, Pool, open_pool

LOOK_SECONDS = 0.5
NOTE_SECONDS = 0.5
"""From one note of the progress to the next, and to see that the job is to stop."""
_AGAIN_SECONDS = 1.0
MOST_ATTEMPTS = 5
"""A job that has ended as many processes is not taken up again."""

BATCH = 500
"""Fewer events than of a rebuild by hand: live ones are projected by the same process in between."""

_FAULTS = (ConversationsError, DatabaseUnavailable, DatabaseError)


class JobWatch(LoggedBuild):
    """Keeps the progress of a job."""

    def __init__(self, job: ReadModelJob, built: Callable[[], None]) -> None:
        super().__init__(built)
        goes_on = job.kind == "rebuild"
        position = job.position if goes_on else 0
        self.progress = Progress(position=position, target=job.target, results=list(job.results))
        self._logs_parked = goes_on  # a verification returns them
        self._parked: dict[str, int] = {}
        self._first: tuple[int, float] | None = None

    def advanced(self, position: int, head: int) -> None:
        now, progress = time.monotonic(), self.progress
        progress.position, progress.target, progress.reason = position, max(position, head), None
        if self._first is None:
            self._first = position, now
        elif now > self._first[1]:
            progress.events_per_second = (position - self._first[0]) / (now - self._first[1])

    def parked(self, name: str, refused: RefusedEvent) -> None:
        if self._logs_parked:
            super().parked(name, refused)
        self._parked[name] = self._parked.get(name, 0) + 1

    def waits(self, name: str) -> None:
        super().waits(name)
        self.progress.reason = f"{name} is built, but its live table is in use; that is tried again"

    def swapped(self, name: str, position: int) -> None:
        super().swapped(name, position)
        parked = self._parked.get(name, 0)
        result = ReadModelResult(name=name, outcome="swapped", position=position, parked=parked)
        self.progress.results.append(result)


class JobRunner:
    """Looks for a job, and carries it out; `built` is called when a read model was swapped."""

    def __init__(
        self,
        database_url: str,
        name: str,
        pool: Pool,
        projections: Sequence[Projection],
        built: Callable[[], None],
    ) -> None:
        self._database_url = database_url
        self._name = name
        self._pool = pool
        self._projections = {each.name: each for each in projections}
        self._built = built
        self._logger = get_logger("projector.job_runner")

    async def run(self) -> NoReturn:
        """Until cancelled, as the one process that leads."""
        away, log = (DatabaseUnavailable, DatabaseError), self._logger
        await follow(self._look, away, retry_seconds=_AGAIN_SECONDS, log=log, problem="cannot_claim_jobs")

    async def _look(self) -> None:
        claimed = await claim(self._pool, self._name)
        if claimed is None:
            await asyncio.sleep(LOOK_SECONDS)
            return
        job, watch = claimed.job, JobWatch(claimed.job, self._built)
        log = self._logger.bind(job_id=job.id, kind=job.kind, read_models=job.read_models)
        log.info("read_model_job_begins", attempt=job.attempts)
        state = await self._outcome(claimed, watch)
        if job.kind == "rebuild" and state != "completed":
            with contextlib.suppress(*_FAULTS):
                await discard(self._pool, self._left(job, watch.progress))
        log.info("read_model_job_ends", state=state, reason=watch.progress.reason)
        await self._end(claimed, state, watch.progress)

    async def _outcome(self, claimed: ClaimedJob, watch: JobWatch) -> JobState:
        if claimed.job.attempts > MOST_ATTEMPTS:
            watch.progress.reason = f"it was interrupted {MOST_ATTEMPTS} times"
            return "failed"
        work = asyncio.ensure_future(self._work(claimed.job, watch))
        noting = asyncio.ensure_future(self._note(claimed, watch.progress))
        try:
            await asyncio.wait((work, noting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (work, noting):
                each.cancel()
            await asyncio.gather(work, noting, return_exceptions=True)
        if work.cancelled():
            return "stopped"
        error = work.exception()
        if error is None:
            return "completed"
        watch.progress.reason = self._reason(error)
        return "failed"

    async def _note(self, claimed: ClaimedJob, progress: Progress) -> None:
        """Until it is to stop."""
        goes_on = True
        while goes_on:
            await asyncio.sleep(NOTE_SECONDS)
            with contextlib.suppress(DatabaseUnavailable):
                goes_on = await claimed.note(progress)

    async def _work(self, job: ReadModelJob, watch: JobWatch) -> None:
        """Raises ConversationsError, DatabaseUnavailable, and what is wrong with a read model."""
        projections = self._left(job, watch.progress)
        if not projections:  # interrupted after the last swap
            return
        async with (
            open_pool(self._database_url, max_size=len(projections) + CONNECTIONS) as pool,
            open_log(self._database_url, max_size=2) as log,
        ):
            while True:
                try:
                    if job.kind == "rebuild":
                        await rebuild(pool, log, projections, watch, batch=BATCH)
                    else:
                        found = await verify(pool, log, projections, watch, batch=BATCH)
                        watch.progress.results = [_result(each) for each in found]
                except RebuildUnderWay as error:  # by a command, or by this program's own after an upgrade
                    watch.progress.reason = str(error)
                    await asyncio.sleep(_AGAIN_SECONDS)
                else:
                    return

    def _left(self, job: ReadModelJob, progress: Progress) -> list[Projection]:
        """Those that the job has not swapped yet. Raises ConversationsError."""
        swapped = {each.name for each in progress.results}
        names = [name for name in job.read_models if name not in swapped]
        if unknown := [name for name in names if name not in self._projections]:
            raise ConversationsError(f"this projector has no read model {unknown[0]}")
        return [self._projections[name] for name in names]

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, ConversationsError):
            return first_line(error)
        if isinstance(error, (DatabaseUnavailable, DatabaseError)):
            return f"the database does not answer, or refuses: {first_line(error)}"
        self._logger.error("read_model_job_failed", exc_info=error)
        return f"an error in the program: {type(error).__name__}; the log of {self._name} has more"

    async def _end(self, claimed: ClaimedJob, state: JobState, progress: Progress) -> None:
        while True:
            try:
                return await claimed.end(state, progress)
            except (DatabaseUnavailable, DatabaseError) as error:
                self._logger.warning("cannot_end_job", reason=first_line(error))
            await asyncio.sleep(_AGAIN_SECONDS)


def _result(found: VerifiedReadModel) -> ReadModelResult:
    """What a job keeps of a comparison."""
    outcome: Outcome = "equal" if found.ok else "other_version"
    difference = None
    if found.difference is not None:
        outcome = "differs"
        difference = DifferentRow(key=found.difference.key, column=found.difference.column)
    return ReadModelResult(
        name=found.name,
        outcome=outcome,
        position=found.position,
        rows=found.rows,
        parked=len(found.parked),
        difference=difference,
    )
