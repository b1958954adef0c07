"""Become another program, but die with the process that started this one.

Run by file name, before the command: `python -I -S launch_process.py SIGNAL USER COUNT PATH... COMMAND...`.
USER is `uid:gid` to change to, or `-` to stay. The COUNT paths are what that user has to reach. Imports
nothing of ours, so that it costs about 10 ms.

Linux sends the signal when the parent is gone, however it went (prctl(2), PR_SET_PDEATHSIG). It is set here
and not between fork and exec, which would be unsafe in a process with threads; and after the user has
changed, which clears it. Elsewhere the next `agentchat up` finds what a killed one has left.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000


def main(arguments: list[str]) -> None:
    signal_number, user, count, *rest = arguments
    paths, command = rest[: int(count)], rest[int(count) :]
    if user != "-":
        uid, gid = map(int, user.split(":"))
        make_reachable(paths, uid, gid)
        os.chdir("/")
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal_number))
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is meant
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def make_reachable(paths: list[str], uid: int, gid: int) -> None:
    """Let the user pass to `paths` (absolute, without symbolic links) without changing a permission.

    A folder on the way that is closed to him, such as /root, is covered in a mount namespace of this process
    alone, and the paths are bound at their places there. He sees nothing else of such a folder.
    """
    closed = {folder for path in paths if (folder := _closed_folder(path, uid, gid))}
    if not closed:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.unshare(_CLONE_NEWNS), closed)
    _mount(libc, "none", "/", "", _MS_REC | _MS_PRIVATE, "", closed)
    held = [os.open(path, os.O_PATH) for path in paths]
    for folder in sorted(closed):
        _mount(libc, "tmpfs", folder, "tmpfs", 0, "mode=711", closed)
    for path, descriptor in zip(paths, held, strict=True):
        if _inside(path, closed):
            _make_place(path, os.path.isdir(f"/proc/self/fd/{descriptor}"))
            _mount(libc, f"/proc/self/fd/{descriptor}", path, "", _MS_BIND | _MS_REC, "", closed)
        os.close(descriptor)


def _closed_folder(path: str, uid: int, gid: int) -> str | None:
    """The first folder above `path` that the user may not pass through."""
    parts = path.split("/")[1:-1]
    for depth in range(len(parts) + 1):
        folder = "/" + "/".join(parts[:depth])
        found = os.stat(folder)
        bit = 0o100 if found.st_uid == uid else 0o010 if found.st_gid == gid else 0o001
        if not found.st_mode & bit:
            return folder
    return None


def _inside(path: str, folders: set[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _make_place(path: str, is_folder: bool) -> None:
    os.makedirs(path if is_folder else os.path.dirname(path), mode=0o711, exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _mount(
    libc: ctypes.CDLL, source: str, target: str, kind: str, flags: int, options: str, closed: set[str]
) -> None:
    words = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _checked(libc.mount(*words), closed)


def _checked(result: int, closed: set[str]) -> None:
    if result != 0:
        sys.exit(
            f"{', '.join(sorted(closed))} is closed to other users and cannot be mounted over "
            f"({os.strerror(ctypes.get_errno())}); start the stack as an ordinary user, or keep run folder "
            "and program where others may pass through"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
