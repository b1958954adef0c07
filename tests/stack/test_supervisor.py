"""The supervisor on small processes: order, restarts, giving up, stopping."""

import asyncio
import errno
import itertools
import os
import signal
import time

import msgspec
import pytest
from msgspec.structs import replace

from agentchat.ops import process_record
from agentchat.ops.errors import StartError
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.supervisor import Supervisor
from tests.stack.processes import running_for, until
from tests.stack.small import Remembering, job, make_dying_process, server


def _pid(folder: RunFolder, name: str) -> int | None:
    kept = process_record.read(folder.processes)
    entry = kept.find(name) if kept else None
    return entry.pid if entry else None


async def test_processes_start_in_parallel_after_their_needs(folder: RunFolder) -> None:
    report = Remembering()
    late = job(folder, "late", "print('done')", after=["one", "two"])
    processes = [late, server(folder, "one"), server(folder, "two")]
    async with Supervisor(folder, processes, report) as supervisor:
        await supervisor.wait_up(40)
        assert [note.split()[0] for note in report.notes][-1] == "late"
        assert {"one", "two"} == {note.split()[0] for note in report.notes[:2]}


async def test_a_crashed_process_is_named_and_restarted_at_once(folder: RunFolder) -> None:
    report = Remembering()
    async with Supervisor(folder, [server(folder, "one")], report) as supervisor:
        await supervisor.wait_up(40)
        first = _pid(folder, "one")
        assert first is not None
        killed_at = time.monotonic()
        os.kill(first, signal.SIGKILL)
        await until(lambda: _pid(folder, "one") not in (None, first))
        await until(lambda: "one is ready again" in report.notes)
        assert time.monotonic() - killed_at < 20  # under 2 s where nothing else runs
    output = "\n".join(report.notes)
    assert "one was killed by SIGKILL; its last lines:" in output
    assert "hello from one" in output


async def test_crashing_process_is_restarted_with_backoff(folder: RunFolder) -> None:
    report = Remembering()
    async with Supervisor(folder, [server(folder, "one")], report) as supervisor:
        await supervisor.wait_up(40)
        (folder.path / "stopped.broken").touch()
        os.kill(_pid(folder, "one") or 0, signal.SIGKILL)
        await until(lambda: len(report.deaths) == 3)
        kept = process_record.read(folder.processes)
        entry = kept.find("one") if kept else None
        assert entry is not None
        assert entry.ended_at is not None
        assert entry.restarts == 2
        assert str(entry.end_reason).startswith("ended with exit code 3")
    assert report.deaths == [
        ("one", "was killed by SIGKILL", 0.1),
        ("one", "ended with exit code 3", 0.4),
        ("one", "ended with exit code 3", 1.6),
    ]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), StartError("no room")])
async def test_what_cannot_be_prepared_again_is_tried_until_it_can(
    folder: RunFolder, error: Exception
) -> None:
    report, times = Remembering(), itertools.count()

    async def prepare() -> None:
        if next(times) == 1:
            raise error

    process = msgspec.structs.replace(server(folder, "one"), prepare=prepare)
    async with Supervisor(folder, [process], report) as supervisor:
        await supervisor.wait_up(40)
        os.kill(_pid(folder, "one") or 0, signal.SIGKILL)
        await until(lambda: "one is ready again" in report.notes)
    assert f"one cannot be started: {error}" in report.notes


async def test_wrong_setting_of_a_process_ends_the_start(folder: RunFolder) -> None:
    sick = make_dying_process(
        folder, "sick", "import sys; sys.stderr.write('COLOUR is not set\\n'); sys.exit(2)"
    )
    with pytest.raises(StartError, match="sick does not start: COLOUR is not set"):
        async with Supervisor(folder, [server(folder, "one"), sick], Remembering()) as supervisor:
            await supervisor.wait_up(40)
    assert running_for(folder.path) == {}


async def test_a_process_that_keeps_dying_at_the_start_ends_it(folder: RunFolder) -> None:
    report = Remembering()
    with pytest.raises(StartError, match="sick does not start: no luck"):
        async with Supervisor(
            folder, [make_dying_process(folder, "sick", "print('no luck')")], report
        ) as supervisor:
            await supervisor.wait_up(40)
    assert len(report.deaths) == 2


async def test_a_job_that_fails_ends_the_start(folder: RunFolder) -> None:
    failing = job(folder, "failing", "raise SystemExit('no database')")
    with pytest.raises(StartError, match="failing does not start: no database"):
        async with Supervisor(folder, [failing], Remembering()) as supervisor:
            await supervisor.wait_up(40)


async def test_a_process_that_never_gets_ready_times_out_by_name(folder: RunFolder) -> None:
    mute = make_dying_process(folder, "mute", "import time; time.sleep(30)")
    with pytest.raises(StartError, match=r"mute is not ready after 0\.5 s"):
        async with Supervisor(folder, [mute], Remembering()) as supervisor:
            await supervisor.wait_up(0.5)
    assert running_for(folder.path) == {}


async def test_shutdown_stops_processes_by_rank_and_kills_a_deaf_one(folder: RunFolder) -> None:
    report = Remembering()
    processes = [
        server(folder, "last", rank=2),
        server(folder, "first", rank=0),
        server(folder, "deaf", rank=1, deaf=True),
        server(folder, "second", rank=1),
    ]
    async with Supervisor(folder, processes, report) as supervisor:
        await supervisor.wait_up(40)
    assert (folder.path / "stopped").read_text().split() == ["first", "second", "last"]
    assert "deaf did not stop within 0.5 s; killing it" in report.notes
    assert running_for(folder.path) == {}
    assert not folder.processes.exists()


async def test_services_are_killed_on_demand_and_servers_end_in_order(folder: RunFolder) -> None:
    deaf = replace(server(folder, "deaf", deaf=True), stop_seconds=600.0)
    holder = replace(server(folder, "holder", rank=1), is_server=True, stop_seconds=30.0)
    report = Remembering()
    async with asyncio.timeout(60), Supervisor(folder, [deaf, holder], report) as supervisor:
        await supervisor.wait_up(40)
        supervisor.kill_services()
    assert report.notes[-1] == "killing the services; the servers still stop in order"
    assert (folder.path / "stopped").read_text().split() == ["holder"], "it ended by itself"
    assert running_for(folder.path) == {}


async def test_a_server_that_does_not_end_is_killed_after_its_own_time(folder: RunFolder) -> None:
    deaf = replace(server(folder, "deaf", deaf=True), is_server=True)
    report = Remembering()
    async with Supervisor(folder, [deaf], report) as supervisor:
        await supervisor.wait_up(40)
        supervisor.kill_services()
    assert report.notes[-1] == "deaf did not stop within 0.5 s; killing it"
    assert running_for(folder.path) == {}
