"""Rebuilds and verifications that were requested: a projector carries them out, and says how they ended."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest

from administration import admin_read_models
from administration.admin_read_models import NewReadModelJob
from conversations.projections.read_model_jobs import DifferentRow, JobKind, ReadModelJob
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import alone
from projector.job_runner import MOST_ATTEMPTS, JobRunner
from runtime.postgres import connection
from tests.administrator import administrator
from tests.conversations.given import turn
from tests.conversations.read_models import TABLES, no_jobs
from tests.projector.conftest import World
from tests.projector.test_sharing_projectors import Projectors, projectors
from tests.support.service_process import START_SECONDS

__all__ = ["no_jobs", "projectors"]

pytestmark = pytest.mark.usefixtures("no_jobs")

_FULL = """
CREATE OR REPLACE FUNCTION fill_the_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE disk_full USING MESSAGE = 'could not extend file "base/5/16384": No space left on device';
END $$;
CREATE TRIGGER full_disk BEFORE UPDATE ON projection_positions FOR EACH ROW
WHEN (new.name = 'usage@rebuilding' AND old.position <> new.position) EXECUTE FUNCTION fill_the_disk();
"""
_SPACE = "DROP TRIGGER IF EXISTS full_disk ON projection_positions"


def runner(world: World, name: str = "projector-1", built: Callable[[], None] = lambda: None) -> JobRunner:
    return JobRunner(world.url, name, world.pool, PROJECTIONS, built)


@contextlib.asynccontextmanager
async def running(world: World, name: str = "projector-1") -> AsyncIterator[None]:
    task = asyncio.create_task(runner(world, name).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def requested(world: World, kind: JobKind, *names: str) -> ReadModelJob:
    new = NewReadModelJob(kind=kind, read_models=names)
    return await admin_read_models.start(administrator(world.pool, "console:ada"), new)


async def until(
    world: World,
    job: ReadModelJob,
    seen: Callable[[ReadModelJob], bool] = lambda job: job.ended_at is not None,
) -> ReadModelJob:
    """The job as soon as it is so; others see to it."""
    async with asyncio.timeout(START_SECONDS):
        while not seen(found := await admin_read_models.get(administrator(world.pool), job.id)):  # noqa: ASYNC110 - another process sees to it
            await asyncio.sleep(0.02)
    return found


def hindered(job: ReadModelJob) -> bool:
    """It runs, and says what it waits for."""
    return job.state == "running" and job.reason is not None


@contextlib.asynccontextmanager
async def in_use(world: World, table: str) -> AsyncIterator[None]:
    """A reader holds the live table, so that a swap cannot come to its end."""
    async with await psycopg.AsyncConnection.connect(world.url) as reader:
        await reader.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode())
        yield


async def filled(world: World) -> None:
    await world.many(3)
    await world.follow()


async def test_a_rebuild_comes_to_its_end_with_who_what_and_how_far(world: World) -> None:
    await filled(world)
    async with connection(world.pool) as conn:
        await conn.execute("UPDATE messages SET content = 'wrong'")
    built: list[str] = []
    job = await requested(world, "rebuild", "messages", "usage")
    assert (job.state, job.requested_by, job.projector) == ("waiting", "console:ada", None)
    task = asyncio.create_task(runner(world, built=lambda: built.append("built")).run())
    ended = await until(world, job)
    task.cancel()
    head = await world.log.head()
    assert (ended.state, ended.projector, ended.attempts, ended.reason) == (
        "completed",
        "projector-1",
        1,
        None,
    )
    assert (ended.position, ended.target) == (head, head)
    assert [(each.name, each.outcome, each.position) for each in ended.results] == [
        ("messages", "swapped", head),
        ("usage", "swapped", head),
    ]
    assert built == ["built", "built"]
    assert await world.rows("SELECT count(*) FROM messages WHERE content = 'wrong'") == [(0,)]
    assert all(one.ok for one in await world.verify())


async def test_a_verification_names_the_row_that_differs_and_no_text_of_it(world: World) -> None:
    await filled(world)
    await world.told(*turn("poisoned", "No\x00thing", "Hi"))
    await world.follow()
    changed, *_ = (await world.rows("SELECT message_id FROM messages ORDER BY 1 LIMIT 1"))[0]
    async with connection(world.pool) as conn:
        await conn.execute("UPDATE messages SET content = 'a secret' WHERE message_id = %s", [changed])
    job = await requested(world, "verify")
    async with running(world):
        ended = await until(world, job)
    assert (ended.state, ended.reason) == ("completed", None)
    found = {each.name: each for each in ended.results}
    assert sorted(found) == sorted(TABLES)
    assert {name for name, each in found.items() if each.outcome != "equal"} == {"messages"}
    assert (found["messages"].outcome, found["messages"].parked) == ("differs", 2)
    assert found["messages"].difference == DifferentRow(key={"message_id": changed}, column="content")
    assert "secret" not in str(await world.rows("SELECT * FROM read_model_jobs"))
    assert await world.shadows() == []


async def test_a_job_that_is_stopped_leaves_the_live_tables_and_nothing_half_built(world: World) -> None:
    await filled(world)
    before = await world.contents()
    async with in_use(world, "usage"), running(world):
        job = await requested(world, "rebuild", "usage", "runs")
        busy = await until(world, job, hindered)
        assert "usage is built, but its live table is in use" in (busy.reason or "")
        assert await world.shadows() != []
        asked = await admin_read_models.stop(administrator(world.pool, "console:bob"), job.id)
        assert (asked.state, asked.stopped_by) == ("running", "console:bob")
        ended = await until(world, job)
    assert (ended.state, ended.stopped_by, ended.results) == ("stopped", "console:bob", ())
    assert await world.contents() == before
    assert await world.shadows() == []


async def test_a_database_without_space_fails_the_job_and_swaps_nothing(world: World) -> None:
    await filled(world)
    before = await world.contents()
    async with await psycopg.AsyncConnection.connect(world.url, autocommit=True) as owner:
        await owner.execute(_FULL)
        try:
            job = await requested(world, "rebuild", "messages", "usage")
            async with running(world):
                ended = await until(world, job)
        finally:
            await owner.execute(_SPACE)
    assert (ended.state, ended.results) == ("failed", ())
    assert "No space left on device" in (ended.reason or "")
    assert await world.contents() == before
    assert await world.shadows() == []


async def test_a_connection_that_is_lost_fails_the_job_with_the_reason(world: World) -> None:
    await filled(world)
    async with in_use(world, "usage"), running(world):
        job = await requested(world, "rebuild", "usage")
        await until(world, job, hindered)
        async with await psycopg.AsyncConnection.connect(world.url, autocommit=True) as owner:
            while not await (await owner.execute(_CUT)).fetchall():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.02)
        ended = await until(world, job)
    assert ended.state == "failed"
    assert "the database does not answer, or refuses: " in (ended.reason or "")
    assert await world.shadows() == []


_CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE query LIKE 'SELECT swap_read_model%' AND wait_event_type = 'Lock' AND datname = current_database()
"""


async def test_it_waits_for_a_command_that_builds_the_same(world: World) -> None:
    await filled(world)
    async with running(world):
        async with alone(world.pool, "rebuilding", PROJECTIONS[:1]):
            job = await requested(world, "rebuild", PROJECTIONS[0].name)
            waits = await until(world, job, hindered)
            assert waits.reason == f"{PROJECTIONS[0].name} is being built by another process"
        assert (await until(world, job)).state == "completed"


async def test_one_that_no_projector_survives_is_not_taken_up_for_ever(world: World) -> None:
    job = await requested(world, "verify")
    async with connection(world.pool) as conn:
        await conn.execute("UPDATE read_model_jobs SET attempts = %s", [MOST_ATTEMPTS])
    async with running(world):
        ended = await until(world, job)
    assert (ended.state, ended.reason) == ("failed", f"it was interrupted {MOST_ATTEMPTS} times")


async def test_a_projector_that_leads_no_more_leaves_the_job_to_the_next(world: World) -> None:
    await filled(world)
    async with in_use(world, "usage"):
        async with running(world):
            job = await requested(world, "rebuild", "usage")
            await until(world, job, hindered)
        left = await admin_read_models.get(administrator(world.pool), job.id)
        assert (left.state, left.projector) == ("running", "projector-1")
        assert await world.shadows() != [], "the next one goes on there"
    async with running(world, "projector-2"):
        ended = await until(world, job)
    assert (ended.state, ended.projector, ended.attempts) == ("completed", "projector-2", 2)


async def test_a_projector_that_dies_in_the_middle_leaves_the_job_to_the_next(
    projectors: Projectors, world: World
) -> None:
    leader, other = await projectors.two()
    await world.many(3)
    await caught_up(world)
    async with in_use(world, "usage"):
        job = await requested(world, "rebuild", "messages", "usage")
        seen = await until(world, job, lambda job: len(job.results) == 1 and hindered(job))
        assert (seen.state, seen.projector, seen.attempts) == ("running", leader, 1)
        projectors.signal(leader, signal.SIGKILL)
        taken = await until(world, job, lambda job: job.attempts == 2)
        assert (taken.projector, [each.name for each in taken.results]) == (other, ["messages"])
    ended = await until(world, job)
    assert (ended.state, ended.projector) == ("completed", other)
    assert [each.name for each in ended.results] == ["messages", "usage"]
    await world.many(1)
    await caught_up(world)
    assert all(one.ok for one in await world.verify())


async def caught_up(world: World) -> None:
    """The projectors have filled all read models up to the end of the log."""
    head = await world.log.head()
    async with asyncio.timeout(START_SECONDS):
        while await world.shadows() or await world.rows(_POSITIONS) != [(len(TABLES), head)]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


_POSITIONS = "SELECT count(DISTINCT name), min(position) FROM read_model_positions"
