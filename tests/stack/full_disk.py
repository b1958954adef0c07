"""For a test: `python -m tests.stack.full_disk FOLDER` lets the embedded NATS meet a full disk.

Prints its first message, read when it has been written to again. Exit code 77: disks cannot be filled here.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

import nats.errors

from ops.folder import RunFolder
from ops.ports import Ports
from ops.servers.nats import process, url
from ops.supervisor import Supervisor
from tests.chaos.disk import Disk, unshare_mounts
from tests.stack.processes import until
from tests.stack.small import Remembering


async def meet(folder: RunFolder) -> None:
    disk, report = Disk(folder.nats), Remembering()
    with contextlib.closing(Ports()) as ports:
        port = ports.free()
        async with Supervisor(folder, [process(folder, port, ports.free())], report) as supervisor:
            await supervisor.wait_up(20)
            client = await nats.connect(url(port), max_reconnect_attempts=-1, reconnect_time_wait=0.1)
            jetstream = client.jetstream(timeout=1)
            await jetstream.add_stream(name="S", subjects=["s"])
            await jetstream.publish("s", b"the first")
            disk.fill()
            with contextlib.suppress(nats.errors.TimeoutError):
                while True:
                    await jetstream.publish("s", bytes(64_000))
            disk.free()
            await until(lambda: "nats is ready again" in report.notes)
            await client.flush()
            await jetstream.publish("s", b"the last")
            print((await jetstream.get_msg("S", 1)).data)
            await client.close()
    disk.close()


if __name__ == "__main__":
    try:
        unshare_mounts()
    except OSError:
        sys.exit(77)
    run_folder = RunFolder(Path(sys.argv[1]))
    run_folder.create()
    asyncio.run(meet(run_folder))
