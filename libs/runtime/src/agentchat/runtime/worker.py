"""Run a process: uvloop, a stop event set by SIGTERM or SIGINT, draining, exit codes.

Exit code 0: drained after a signal, or `main` returned. 1: `main` failed, or draining took too long. 2: the
settings are wrong, which is reported in one line on stderr.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from agentchat.runtime import failpoints, logs, metrics, tracing
from agentchat.runtime.settings import SettingsError, refuse
from agentchat.runtime.task_cancellation import repair_wait_for

DRAIN_SECONDS = 20.0
THREAD_SWITCH_SECONDS = 0.0005
"""How long a computing thread may hold the interpreter while the event loop waits.

With Python's default of 5 ms each of a request's thirty or so turns of the loop would wait as long
(decision 29).
"""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def parse_process_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse `--name` and `--run-dir`, which make a process recognisable in `ps`; arm a test's failpoints."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--name", default="", help="the process's name, such as gateway-1")
    parser.add_argument("--run-dir", default="", help="the run folder of the stack that started it")
    arguments = parser.parse_args(argv)
    try:
        failpoints.arm(arguments.name, arguments.run_dir)
    except SettingsError as error:
        refuse(error)
    return arguments


def run(main: Callable[[asyncio.Event], Awaitable[None]]) -> NoReturn:
    """Run `main(stop)` to its end and exit.

    The first signal sets `stop`, after which `main` should drain and return. A second signal, or 20 s without
    an end, exits with code 1 at once.
    """
    repair_wait_for()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(_supervise(main))
    tracing.shut_down()
    sys.exit(code)


async def _supervise(main: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _on_signal, stop)
    watching = asyncio.create_task(metrics.watch_loop())
    try:
        await main(stop)
    except SettingsError as error:
        refuse(error)
    except Exception:  # noqa: BLE001 - the outermost frame of a process
        logs.get_logger("worker").exception("worker_failed")
        return 1
    finally:
        watching.cancel()
    return 0


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        _end_now("second_signal")
    stop.set()
    # A thread, because a blocked loop would never run its own timer.
    timer = threading.Timer(DRAIN_SECONDS, _end_now, ["drain_timed_out"])
    timer.daemon = True
    timer.start()


def _end_now(reason: str) -> NoReturn:
    logs.get_logger("worker").error("ended_undrained", reason=reason)
    os._exit(1)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    if sys.platform == "win32":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
