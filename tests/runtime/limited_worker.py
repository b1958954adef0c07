"""A process with limits that misbehaves on request."""

import tempfile

from agentchat.runtime.limited_process import limit_resources, serve_requests

MEMORY_BYTES = 512 * 1024 * 1024


def answer(request: bytes) -> bytes:
    match request:
        case b"loop":
            while True:
                pass
        case b"allocate":
            bytearray(2 * MEMORY_BYTES)
        case b"write":
            with tempfile.TemporaryFile() as file:
                file.write(b"x")
    return request.upper()


if __name__ == "__main__":
    limit_resources(MEMORY_BYTES)
    serve_requests(answer)
