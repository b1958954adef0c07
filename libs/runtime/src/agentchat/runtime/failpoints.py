"""Name places in the life of a request at which a test may kill, stop or fail the process.

In production `reach` does nothing. If AGENTCHAT_FAILPOINTS is set when the process starts, it looks into the
folder `failpoints` of the run folder. A file named after a place says what happens there, once:
`kill`, `stop` (SIGSTOP; the test sends SIGCONT) or `raise`, and after a colon at which visit (`stop:3`; the
first if left out).
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
"""A file of this name in a run folder marks it as a test's, whose processes may be broken."""


class FailpointReached(Exception):  # noqa: N818 - what happened, by its name
    """A test makes the process fail at this place."""


def _do_nothing(_name: str) -> None:
    pass


reach: Callable[[str], None] = _do_nothing
"""Report that the process is at a place. Call it as `failpoints.reach(...)`, since `arm` replaces it."""


def arm(name: str, run_dir: str, environ: Mapping[str, str] = os.environ) -> None:
    """Make `reach` look into the run folder if the environment asks for it; `name` is this process's.

    Raises:
        SettingsError: The run folder is not that of a test.
    """
    global reach
    if not environ.get(VARIABLE):
        return
    if not run_dir or not (Path(run_dir) / TEST_RUN).is_file():
        raise SettingsError(
            f"{VARIABLE} is set, but {run_dir or 'no run folder'} is not the run folder of a test"
        )
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
            armed.rename(claimed := armed.with_suffix(".claimed"))  # only one process succeeds
        except FileNotFoundError:
            return
        self._times[name] = 0
        claimed.write_text(self._process)
        claimed.rename(armed.with_suffix(".fired"))  # renamed once it is complete
        match action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case _:
                raise FailpointReached(name)
