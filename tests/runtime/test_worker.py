import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentchat.runtime.worker import parse_process_args

PROGRAM = """
import asyncio, sys
from agentchat.runtime import logs, worker
from agentchat.runtime.settings import SettingsError
logs.configure("test")
async def main(stop):
    print("up", type(asyncio.get_running_loop()).__module__, flush=True)
    {body}
worker.run(main)
"""


@contextmanager
def start_process(body: str) -> Iterator[subprocess.Popen[str]]:
    program = PROGRAM.format(body=body)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up uvloop\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_shutdown_by_a_signal_drains_and_exits_with_0(number: signal.Signals) -> None:
    with start_process("await stop.wait(); print('drained', flush=True)") as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=40)
    assert process.returncode == 0
    assert stdout == "drained\n"
    assert stderr == ""


@pytest.mark.slow
def test_a_second_signal_cuts_the_drain_short_with_1() -> None:
    with start_process(
        "await stop.wait(); print('draining', flush=True); await asyncio.sleep(60)"
    ) as process:
        process.terminate()
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, stderr = process.communicate(timeout=40)
    assert process.returncode == 1
    assert "second_signal" in stderr


@pytest.mark.slow
def test_endless_drain_exits_with_1_even_if_the_loop_blocks() -> None:
    body = "worker.DRAIN_SECONDS = 0.3; await stop.wait(); import time; time.sleep(60)"
    with start_process(body) as process:
        process.terminate()
        _, stderr = process.communicate(timeout=40)
    assert process.returncode == 1
    assert "drain_timed_out" in stderr


def test_a_failing_main_is_logged_and_ends_with_1() -> None:
    with start_process("raise LookupError('nobody home')") as process:
        _, stderr = process.communicate(timeout=40)
    assert process.returncode == 1
    assert "nobody home" in stderr
    assert len(stderr.splitlines()) == 1


def test_name_and_run_folder_are_taken_from_the_command_line() -> None:
    arguments = parse_process_args(["--name", "gateway-1", "--run-dir", ".run"])
    assert arguments.name == "gateway-1"
    assert arguments.run_dir == ".run"


@pytest.mark.slow
def test_a_task_that_is_cancelled_as_its_answer_comes_ends() -> None:
    body = """
    answered = asyncio.get_running_loop().create_future()
    waits = asyncio.create_task(asyncio.wait_for(answered, 60))
    await asyncio.sleep(0)
    answered.set_result(None)
    waits.cancel()
    await asyncio.wait([waits])
    assert waits.cancelled()
    """
    with start_process(body.strip()) as process:
        _, stderr = process.communicate(timeout=40)
    assert process.returncode == 0
    assert stderr == ""


def test_ready_process_does_not_collect_its_startup_heap() -> None:
    body = """
    import gc
    from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
    full = []
    async with serve_health(HealthChecks({}), "127.0.0.1", 0):
        gc.callbacks.append(lambda phase, about: full.append(phase) if about["generation"] == 2 else None)
        kept = [[] for _ in range(300_000)]
    assert not full, "a full look at the heap for new objects alone"
    assert gc.get_freeze_count() > len(sys.modules)
    """
    with start_process(body.strip()) as process:
        _, stderr = process.communicate(timeout=40)
    assert process.returncode == 0
    assert stderr == ""
