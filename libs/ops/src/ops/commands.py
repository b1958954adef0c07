"""Run a command to its end, within a bound."""

import asyncio
import contextlib
import signal

import msgspec

from ops.errors import StartError
from ops.process import wrapped

_SECONDS = 60.0


class Output(msgspec.Struct, frozen=True):
    """How a command ended, and what it wrote to stdout and stderr together."""

    code: int
    text: str

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


async def run_command(
    argv: tuple[str, ...],
    *,
    env: dict[str, str],
    user: tuple[int, int] | None = None,
    reaches: tuple[str, ...] = (),
    stdin: str = "",
) -> Output:
    """Raises StartError after a minute. It is killed then, as when this process dies or is cancelled."""
    running = await asyncio.create_subprocess_exec(
        *wrapped(argv, signal.SIGKILL, user, reaches),
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await running.communicate(stdin.encode())
    except TimeoutError:
        raise StartError(f"{argv[0]} has not ended after {_SECONDS:.0f} s") from None
    finally:
        if running.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                running.kill()
            await running.wait()
    return Output(running.returncode or 0, output.decode(errors="replace"))
