"""`agentchat up`: run the stack in the foreground until Ctrl-C."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from agentchat.ops import demo_env, folder_secrets
from agentchat.ops.demo_env import REHEARSAL, Environment
from agentchat.ops.errors import SetupError
from agentchat.ops.fork_server import ForkServer
from agentchat.ops.free_ports import GATEWAY_PORT
from agentchat.ops.process import Spawn
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.settings import ProcessCounts, UpSettings
from agentchat.ops.stack import Stack, describe_stack
from agentchat.ops.stack_report import Report
from agentchat.ops.supervisor import Supervisor
from agentchat.runtime.settings import SettingsError, load
from agentchat.runtime.task_cancellation import wait_first

_START_SECONDS = 180.0
_MESSAGE = "Where is order ORD-1006, and what else would suit customer CUST-001?"


def run_stack(
    counts: ProcessCounts,
    spawn: Spawn | None = None,
    *,
    rehearsal: bool = False,
    start_seconds: float = _START_SECONDS,
) -> None:
    """Start the stack within `start_seconds`, run it until a signal, stop it. Raises StackError."""
    began = time.monotonic()
    try:
        settings = load(UpSettings)
    except SettingsError as error:
        raise SetupError(str(error)) from None
    settings = msgspec.structs.replace(settings, rehearsal=rehearsal or settings.rehearsal)
    if settings.secret_key is not None:
        folder_secrets.check_key(settings.secret_key, "AGENTCHAT_SECRET_KEY")
    for key in settings.previous_secret_keys:
        folder_secrets.check_key(key, "every key in AGENTCHAT_SECRET_KEY_PREVIOUS")
    folder = demo_env.find_run_folder()
    folder.create()
    with folder.lock():
        stack = describe_stack(
            folder, folder_secrets.load_or_create_secrets(folder.secrets), settings, counts
        )
        is_moved = settings.port is None and not stack.environment.base_url.endswith(f":{GATEWAY_PORT}")
        asyncio.run(_run(folder, stack, began, spawn, start_seconds, is_moved=is_moved))


async def _run(
    folder: RunFolder,
    stack: Stack,
    began: float,
    spawn: Spawn | None,
    start_seconds: float,
    *,
    is_moved: bool,
) -> None:
    report = Report()
    folder.demo_env.unlink(missing_ok=True)
    for process in stack.processes:
        folder.begin_log(process.name)
    stop = asyncio.Event()
    fork_server = ForkServer()
    supervisor = Supervisor(folder, stack.processes, report, spawn or fork_server.spawn)

    def on_interrupt() -> None:
        """Stop; a second Ctrl-C kills. A second SIGTERM does not: make and an init may both send one."""
        if stop.is_set():
            supervisor.kill_services()
        stop.set()

    with handle_end_signals(on_interrupt, stop.set):
        async with fork_server, supervisor:
            try:
                await wait_first(stop.wait(), supervisor.wait_up(start_seconds))
                if not stop.is_set():
                    demo_env.write(folder, stack.environment)
                    text = render_banner(
                        folder, stack.environment, time.monotonic() - began, is_moved=is_moved
                    )
                    sys.stdout.write(text)
                    sys.stdout.flush()
                    await wait_first(stop.wait(), supervisor.wait_failed())
            finally:
                folder.demo_env.unlink(missing_ok=True)
                report.note("stopping; Ctrl-C kills the services at once" if stop.is_set() else "stopping")
    report.note("stopped")


@contextlib.contextmanager
def handle_end_signals(on_interrupt: Callable[[], None], on_end: Callable[[], None]) -> Iterator[None]:
    """Handle Ctrl-C, `kill`, and a closed terminal, unless `nohup` ignores that."""
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: on_interrupt, signal.SIGTERM: on_end}
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        handlers[signal.SIGHUP] = on_end
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


def render_banner(folder: RunFolder, environment: Environment, seconds: float, *, is_moved: bool) -> str:
    """Render the addresses of the stack and two requests to paste."""
    rehearsal = f"\n\n{REHEARSAL}" if environment.rehearsal else ""
    note = f"  (port {GATEWAY_PORT} is in use; set AGENTCHAT_PORT to choose one)" if is_moved else ""
    return f"""
Agent Chat Service is up ({seconds:.1f} s).{rehearsal}

  console      {environment.console_url}
  chat API     {", ".join(environment.gateway_urls)}{note}
  try it out   {environment.base_url}/docs, or {_shorten_path(Path(sys.argv[0]))} chat
  tool server  {environment.mcp_base_url}/api/mcp
  keys, URLs   {_shorten_path(folder.demo_env)}
  logs         {_shorten_path(folder.logs)}/
{"" if environment.rehearsal else _render_requests(environment)}
Ctrl-C stops everything.
"""


def _render_requests(environment: Environment) -> str:
    return f"""
Ask a question, with a JSON reply:

{_render_curl(environment, "/v1/chat")}

Ask the same, with a streamed reply:

{_render_curl(environment, "/v1/chat/stream", "-N ")}
"""


def _render_curl(environment: Environment, path: str, options: str = "") -> str:
    return f"""\
curl {options}-sS {environment.base_url}{path} \\
  -H 'X-Api-Key: {environment.api_key}' \\
  -H 'X-Agent-Id: {environment.agent_id}' \\
  -H 'Content-Type: application/json' \\
  -d '{{"message": "{_MESSAGE}"}}'"""


def _shorten_path(path: Path) -> str:
    """Return the path relative to this folder if that is shorter."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
