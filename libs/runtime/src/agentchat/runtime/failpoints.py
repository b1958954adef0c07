"""Named places in the life of a request at which a test may end, stop or fail the process.

In production `reach` is a function that does nothing. Only with AGENTCHAT_FAILPOINTS set when the process
starts does it look into the folder `failpoints` of the run folder, where a file named after a place says what
happens there, once: `kill`, `stop` (SIGSTOP; whoever armed it sends SIGCONT) or `raise`, and after a colon
which time it is (`stop:3`, the third; the first if left out).
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from agentchat.runtime.settings import SettingsError

VARIABLE = "AGENTCHAT_FAILPOINTS"
FOLDER = "failpoints"
TEST_RUN = "test-run"
"""A file of this name in a run folder says that what runs there may be broken."""


class FailpointReached(Exception):  # noqa: N818 - what happened, by its name
    """Raised where a test wants the process to fail."""


def _nothing(_name: str) -> None:
    """No failpoint is armed in this process, and none will be."""


reach: Callable[[str], None] = _nothing
"""Say that the process is at this place. Call it as `failpoints.reach(...)`: it is replaced by `arm`."""


def arm(name: str, run_dir: str, environ: Mapping[str, str] = os.environ) -> None:
    """Have `reach` look into the run folder, if the environment asks for it, in the process of that name.

    Raises SettingsError unless that is the folder of a test.
    """
    global reach
    if not environ.get(VARIABLE):
        return
    if not run_dir or not (Path(run_dir) / TEST_RUN).is_file():
        raise SettingsError(f"{VARIABLE} is set, and {run_dir or 'no run folder'} is not that of a test")
    reach = _Armed(name, Path(run_dir) / FOLDER)


class _Armed:
    def __init__(self, process: str, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._times: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        armed = self._folder / name
        try:
            action, _, time = armed.read_text().partition(":")
            self._times[name] += 1
            if self._times[name] < int(time or 1):
                return
            armed.rename(claimed := armed.with_suffix(".claimed"))  # by the one process that fires
        except FileNotFoundError:
            return
        self._times[name] = 0
        claimed.write_text(self._process)
        claimed.rename(armed.with_suffix(".fired"))  # whole, whenever it is read
        match action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case _:
                raise FailpointReached(name)
