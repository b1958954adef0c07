"""What xdist starts as a process of its own: `python -I -S xdist_process.py -u -c CODE`.

It has one forked that runs the code with its descriptors, waits for that, and ends as it did. Where it is
killed, that is too. It imports next to nothing, since it is started six times.
"""

import json
import os
import signal
import socket
import sys


def main() -> int:
    folder, code = os.environ["TESTS_FORK_SERVERS"], sys.argv[-1]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"{folder}/pytest.sock")
        request = {
            "module": "pytest",
            "arguments": [],
            "env": dict(os.environ),
            "code": code,
            "death_signal": signal.SIGKILL,
            "folder": os.getcwd(),
        }
        encoded = json.dumps(request).encode()
        socket.send_fds(connection, [len(encoded).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(encoded)
        for line in connection.makefile():
            what, _, *status = line.split()
            if what == "ended":
                return os.waitstatus_to_exitcode(int(status[0]))
    return 1


if __name__ == "__main__":
    sys.exit(main())
