"""The faults that need help of the machine: a disk that is full, a wall clock that is off."""

import errno
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.wall_clock import set_offset

_FILL = """
import errno, os, sys
from pathlib import Path
from tests.chaos.disk import Disk, unshare_mounts
try:
    unshare_mounts()
except OSError as error:
    sys.exit(error.errno)
disk, file = Disk(Path(sys.argv[1])), Path(sys.argv[1], "file")
file.write_bytes(b"a" * 8192)
disk.fill()
with file.open("r+b", buffering=0) as opened:
    opened.write(b"b" * 8192)
    try:
        print(opened.write(b"c"))
    except OSError as error:
        print(error.errno)
disk.free()
print(file.write_bytes(b"d" * 100000))
disk.close()
"""


def test_a_full_disk_takes_no_new_block_until_it_has_room(tmp_path: Path) -> None:
    ran = subprocess.run((sys.executable, "-c", _FILL, str(tmp_path)), capture_output=True, text=True)
    if ran.returncode in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EINVAL):
        pytest.skip("user namespaces are not allowed here, so no disk is filled")
    assert ran.stdout.split() == [str(errno.ENOSPC), "100000"]
    assert ran.stderr == ""
    assert list(tmp_path.iterdir()) == []  # nobody else sees it


def test_a_wall_clock_jumps_and_others_do_not(tmp_path: Path) -> None:
    file = tmp_path / "offset"
    set_offset(file, -300.0)
    with subprocess.Popen(
        (sys.executable, "-m", "tests.chaos.wall_clock", str(file), "tests.chaos.told_time"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as telling:
        assert telling.stdin
        assert telling.stdout
        for offset in (-300.0, 300.0, 0.0):
            set_offset(file, offset)
            telling.stdin.write("?\n")
            telling.stdin.flush()
            wall, nanoseconds, monotonic = map(float, telling.stdout.readline().split())
            assert wall == pytest.approx(time.time() + offset, abs=5)
            assert nanoseconds / 1e9 == pytest.approx(wall, abs=5)
            assert monotonic == pytest.approx(time.monotonic(), abs=5)
        telling.stdin.close()
