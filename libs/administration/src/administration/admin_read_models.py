"""Read models built again from the log, or compared with it: requested here, and done by a projector."""

import msgspec

from administration.admin import Admin, outcomes
from administration.admin_rows import page_of, rows_for
from administration.admin_values import Page
from administration.checked_input import checked, identifier
from administration.parameters import After, Limit
from contracts.admin_errors import Conflict, Invalid, NotFound
from contracts.ids import new_id
from conversations.projections import read_model_jobs as jobs
from conversations.projections.read_model_jobs import JobKind, ReadModelJob
from conversations.shard_leases import holders

_KIND = "read model job"


class NewReadModelJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rebuild` makes new tables and swaps them in, `verify` compares and changes nothing.

    Without `read_models` it is about all.
    """

    kind: JobKind
    read_models: tuple[str, ...] = ()


async def start(admin: Admin, new: NewReadModelJob) -> ReadModelJob:
    """Have read models built again from the log, or compared with it.

    A projector takes the job. Raises Invalid, Conflict where one is under way.
    """
    new, job_id = checked(new), new_id()
    async with admin.transaction() as conn:
        names = _chosen(new.read_models, await jobs.known_names(conn))
        job = await jobs.add(conn, job_id, new.kind, names, admin.actor)
        if job is None:
            other = await jobs.under_way(conn)
            raise Conflict("another job has just ended: repeat this" if other is None else _busy(other))
        after = {"kind": new.kind, "read_models": names}
        await admin.note(conn, "start", _KIND, job.id, after=after)
    return await _explained(admin, job)


async def page(admin: Admin, *, after: After | None = None, limit: Limit = 20) -> Page[ReadModelJob]:
    """List the last rebuilds and verifications of read models, the newest first. Raises Invalid."""
    before = after and identifier(_KIND, after)
    async with admin.connection() as conn:
        found = await jobs.newest(conn, before, rows_for(limit))
    listed = page_of(found, limit)
    shown = tuple([await _explained(admin, each) for each in listed.items])
    return msgspec.structs.replace(listed, items=shown)


async def get(admin: Admin, job_id: str) -> ReadModelJob:
    """Get a rebuild or a verification, with its progress and what came of it. Raises NotFound."""
    async with admin.connection() as conn:
        found = await jobs.find(conn, identifier(_KIND, job_id))
    if found is None:
        raise NotFound(_KIND, job_id)
    return await _explained(admin, found)


async def stop(admin: Admin, job_id: str) -> ReadModelJob:
    """Stop a rebuild or a verification; it ends within a second, and live tables stay as they are.

    Read models that were swapped before stay swapped. Raises NotFound, Conflict where it has ended.
    """
    job_id = identifier(_KIND, job_id)
    async with admin.transaction() as conn:
        job = await jobs.request_stop(conn, job_id, admin.actor)
        if job is None:
            if await jobs.find(conn, job_id) is None:
                raise NotFound(_KIND, job_id)
            raise Conflict("the job has ended")
        await admin.note(conn, "stop", _KIND, job.id, after={"kind": job.kind})
    return await _explained(admin, job)


def _chosen(names: tuple[str, ...], known: list[str]) -> list[str]:
    """Each once; all of them for none. Raises Invalid."""
    for number, name in enumerate(names):
        if name not in known:
            raise Invalid(f"read_models[{number}]", f"must be one of {', '.join(known)}")
    return [*dict.fromkeys(names)] or known


def _busy(job: ReadModelJob) -> str:
    what = f"a {job.kind} of {', '.join(job.read_models)}, requested by {job.requested_by},"
    return f"one job at a time: {what} is {job.state}; stop it, or wait for its end"


async def _explained(admin: Admin, job: ReadModelJob) -> ReadModelJob:
    """With the reason why nothing happens, where that is so."""
    reason = job.reason
    if job.state == "waiting":
        with outcomes():
            led = any(each.leads for each in await holders(admin.pool))
        reason = "a projector takes it now" if led else "no projector runs; the next one takes it"
    elif job.state == "running" and (job.seconds_ago or 0.0) > jobs.SILENT_SECONDS:
        reason = (
            f"{job.projector} has noted nothing for {job.seconds_ago:.0f} s; the next one goes on with it"
        )
    return msgspec.structs.replace(job, reason=reason)
