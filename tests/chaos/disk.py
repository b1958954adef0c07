"""Disks that can be filled: file systems in memory, in a mount namespace of this process alone.

Whoever writes to a full one gets ENOSPC from the kernel, as on any other. No privilege is needed where
unprivileged user namespaces are allowed (unshare(2), user_namespaces(7)); nothing outside sees the mounts.
"""

import ctypes
import errno
import os
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_REMOUNT, _MS_REC, _MS_PRIVATE = 0x20, 0x4000, 0x40000
_MNT_DETACH = 2
_ROOM = 4 << 30


def unshare_mounts() -> None:
    """Let this process and its children mount what nobody else sees. It must have one thread only.

    Raises OSError where that is not allowed.
    """
    uid, gid = os.geteuid(), os.getegid()
    _checked("unshare", _CLONE_NEWNS | (_CLONE_NEWUSER if uid else 0))
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE, "")


class Disk:
    """A file system at `path`, which is a folder. Raises OSError without mounts of our own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _mount("tmpfs", path, "tmpfs", 0, f"size={_ROOM},mode=711")

    def fill(self) -> None:
        """Leave no room. What has a block already can be written on, as on any file system."""
        while True:
            found = os.statvfs(self._path)
            used = max(1, found.f_blocks - found.f_bfree)
            try:
                return self._resize(used * found.f_frsize)
            except OSError as error:  # more was written meanwhile
                if error.errno != errno.EINVAL:
                    raise

    def free(self) -> None:
        """Give the room back."""
        self._resize(_ROOM)

    def close(self) -> None:
        """Forget all that is on it, when nobody uses it any more."""
        _checked("umount2", os.fsencode(self._path), _MNT_DETACH)

    def _resize(self, size: int) -> None:
        _mount("tmpfs", self._path, "", _MS_REMOUNT, f"size={size}")


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    words = (source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _checked("mount", *words)


def _checked(call: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, call)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
