"""Jobs for read models, as an operator requests, lists and stops them; no projector runs here."""

import asyncio

import pytest

from administration import Admin, admin_audit, admin_read_models
from administration.admin_read_models import NewReadModelJob
from contracts.admin_errors import Conflict, Invalid, NotFound
from contracts.ids import new_id
from conversations.projections.read_model_jobs import KEPT, Progress, claim
from conversations.projections.read_models import PROJECTIONS
from runtime.postgres import Pool, connection
from tests.conversations.read_models import no_jobs

__all__ = ["no_jobs"]

pytestmark = pytest.mark.usefixtures("no_jobs")

VERIFY = NewReadModelJob(kind="verify")


async def test_without_a_projector_it_says_that_it_waits_and_can_be_stopped(admin: Admin) -> None:
    job = await admin_read_models.start(
        admin, NewReadModelJob(kind="rebuild", read_models=("usage", "usage"))
    )
    assert (job.state, job.read_models, job.requested_by) == ("waiting", ("usage",), "ada@cli")
    assert job.reason == "no projector runs; the next one takes it"
    stopped = await admin_read_models.stop(admin, job.id)
    assert (stopped.state, stopped.stopped_by, stopped.ended_at is None) == ("stopped", "ada@cli", False)
    with pytest.raises(Conflict, match="the job has ended"):
        await admin_read_models.stop(admin, job.id)
    rows = (await admin_audit.page(admin, kind="read_model_job", subject=job.id)).items
    assert [(row.action, row.actor) for row in rows] == [("stop", "ada@cli"), ("start", "ada@cli")]
    assert rows[1].after == {"kind": "rebuild", "read_models": ["usage"]}


async def test_of_two_at_once_one_is_refused_and_told_which_runs_and_whose_it_is(admin: Admin) -> None:
    tried = await asyncio.gather(
        *(admin_read_models.start(admin, VERIFY) for _ in range(4)), return_exceptions=True
    )
    refused = [each for each in tried if isinstance(each, Conflict)]
    assert len(refused) == 3
    names = ", ".join(sorted(each.name for each in PROJECTIONS))
    assert str(refused[0]) == (
        f"one job at a time: a verify of {names}, requested by ada@cli, is waiting;"
        " stop it, or wait for its end"
    )


@pytest.mark.parametrize("names", [("nothing",), ("usage", "conversation_events"), ("",), ("usage\x00",)])
async def test_a_read_model_that_there_is_not_is_refused(admin: Admin, names: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match=rf"read_models\[{len(names) - 1}\]: must be one of approvals, "):
        await admin_read_models.start(admin, NewReadModelJob(kind="rebuild", read_models=names))


async def test_a_job_that_there_is_not(admin: Admin) -> None:
    for call in (admin_read_models.get, admin_read_models.stop):
        for job_id in (new_id(), "x"):
            with pytest.raises(NotFound, match="no such read model job"):
                await call(admin, job_id)


async def test_one_whose_projector_is_silent_says_so_and_ends_when_it_is_stopped(
    admin: Admin, pool: Pool
) -> None:
    job = await admin_read_models.start(admin, VERIFY)
    claimed = await claim(pool, "projector-7")
    assert claimed is not None
    assert (await admin_read_models.get(admin, job.id)).reason is None
    async with connection(pool) as conn:
        await conn.execute("UPDATE read_model_jobs SET seen_at = seen_at - interval '1 minute'")
    silent = await admin_read_models.get(admin, job.id)
    assert silent.reason == "projector-7 has noted nothing for 60 s; the next one goes on with it"
    again = await claim(pool, "projector-8")
    assert again is not None
    assert not await claimed.note(Progress(position=5)), "it is another's now"
    await claimed.end("failed", Progress(reason="too late"))
    taken = await admin_read_models.get(admin, job.id)
    assert (taken.state, taken.projector, taken.position, taken.attempts) == ("running", "projector-8", 0, 2)
    async with connection(pool) as conn:
        await conn.execute("UPDATE read_model_jobs SET seen_at = seen_at - interval '1 minute'")
    assert (await admin_read_models.stop(admin, job.id)).state == "stopped"


async def test_the_last_ones_are_listed_page_by_page_and_older_ones_go(admin: Admin, pool: Pool) -> None:
    made = []
    for _ in range(KEPT + 3):
        made.append((await admin_read_models.start(admin, VERIFY)).id)
        await admin_read_models.stop(admin, made[-1])
    first = await admin_read_models.page(admin, limit=2)
    second = await admin_read_models.page(admin, after=first.after, limit=100)
    assert [each.id for each in (*first.items, *second.items)] == sorted(made, reverse=True)[:KEPT]
    assert second.after is None
