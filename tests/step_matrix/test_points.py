"""The table of failpoints, and the mechanism after them."""

import os
import re
import signal
import subprocess
import sys
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentchat.runtime import failpoints
from agentchat.runtime.settings import SettingsError
from tests.step_matrix.points import POINTS

_ROOT = Path(__file__).parents[2]
_REACHED = re.compile(r'failpoints\.reach\("([a-z-]+)"\)')
_PROGRAM = """
import sys
from agentchat.runtime import failpoints
failpoints.arm("service-1", sys.argv[1])
for _ in range(3):
    failpoints.reach("here")
    print("passed", flush=True)
"""


def test_every_failpoint_is_in_the_matrix_once() -> None:
    sources = [*_ROOT.glob("services/*/src/**/*.py"), *_ROOT.glob("libs/*/src/**/*.py")]
    reached = {name for source in sources for name in _REACHED.findall(source.read_text())}
    assert sorted(reached) == sorted(point.name for point in POINTS)


def test_an_unarmed_failpoint_is_a_call_that_does_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    loops = 200_000
    seconds = min(timeit.repeat(lambda: failpoints.reach("here"), number=loops, repeat=3))
    record_property("nanoseconds", round(seconds / loops * 1e9))
    print(f"an unarmed failpoint takes {seconds / loops * 1e9:.0f} ns, the lambda around it included")
    assert failpoints.reach is failpoints._do_nothing


def test_a_process_does_not_start_with_failpoints_outside_of_a_test(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not the run folder of a test"):
        failpoints.arm("", str(tmp_path), {failpoints.VARIABLE: "1"})
    with pytest.raises(SettingsError, match="no run folder"):
        failpoints.arm("", "", {failpoints.VARIABLE: "1"})
    assert failpoints.reach is failpoints._do_nothing


def test_wrong_failpoint_is_one_line_at_start(tmp_path: Path) -> None:
    service = (
        sys.executable,
        "-m",
        "agentchat.projector",
        "--name",
        "projector-1",
        "--run-dir",
        str(tmp_path),
    )
    ended = subprocess.run(
        service,
        env=os.environ | {failpoints.VARIABLE: "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    assert failpoints.VARIABLE in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("action", "code"), [("kill", -signal.SIGKILL), ("raise", 1)])
def test_a_failpoint_fires_at_the_requested_time(tmp_path: Path, action: str, code: int) -> None:
    folder = _arm_failpoint(tmp_path, f"{action}:2")
    ended = _run(tmp_path)
    assert ended.returncode == code
    assert ended.stdout == "passed\n"
    assert (folder / "here.fired").read_text() == "service-1"
    assert not (folder / "here").exists()


@pytest.mark.slow
def test_a_failpoint_does_not_fire_again_after_a_restart(tmp_path: Path) -> None:
    _arm_failpoint(tmp_path, "kill")
    assert _run(tmp_path).returncode == -signal.SIGKILL
    assert _run(tmp_path).stdout == "passed\n" * 3


def _arm_failpoint(run_dir: Path, what: str) -> Path:
    (run_dir / failpoints.TEST_RUN).touch()
    folder = run_dir / failpoints.FOLDER
    folder.mkdir()
    (folder / "here").write_text(what)
    return folder


def _run(run_dir: Path) -> "subprocess.CompletedProcess[str]":
    return _run_command((sys.executable, "-c", _PROGRAM, str(run_dir)))


def _run_command(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        env=os.environ | {failpoints.VARIABLE: "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
