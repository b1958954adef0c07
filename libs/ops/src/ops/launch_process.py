"""Become another program, but die with the process that started this one.

Run by file name, before the command: `python -I -S launch_process.py SIGNAL USER COMMAND...`. USER is
`uid:gid` to change to, or `-` to stay. Imports nothing of ours, so that it costs about 10 ms.

Linux sends the signal when the parent is gone, however it went (prctl(2), PR_SET_PDEATHSIG). It is set here
and not between fork and exec, which would be unsafe in a process with threads; and after the user has
changed, which clears it. Elsewhere the next `agentchat up` finds what a killed one has left.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    signal_number, user, *command = arguments
    if user != "-":
        uid, gid = map(int, user.split(":"))
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


if __name__ == "__main__":
    main(sys.argv[1:])
