"""Every place of a running stack where something may have been left, searched for it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import nats
import nats.js.errors
from nats.js.api import RetentionPolicy
from nats.js.client import JetStreamContext
from redis.asyncio import Redis

from agentchat.ops import process_record
from agentchat.ops.demo_env import Environment
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers.server_files import find_postgres_install

Place = tuple[str, bytes]
"""What it is called, and what stands in it."""
TERMINAL = "what `agentchat up` printed"


class Searched(Protocol):
    """A running stack, and what it has said while it started."""

    @property
    def environment(self) -> Environment: ...
    @property
    def folder(self) -> RunFolder: ...
    @property
    def log(self) -> Path: ...


async def places_of(stack: Searched, words: Sequence[str]) -> dict[str, list[str]]:
    """Where each word stands: in a row, a message of a stream, a key of Redis, a log, a file or an argument.

    What Postgres has deleted and not yet overwritten, in its files and its write-ahead log, is not looked at.
    """
    found: dict[str, list[str]] = {word: [] for word in words}
    sought = {word: (word.encode(), word.encode().hex().encode()) for word in words}
    async for name, content in _places(stack):
        for word, forms in sought.items():
            if any(form in content for form in forms) and name not in found[word]:
                found[word].append(name)
    return found


def files_holding(folder: Path, words: Sequence[str]) -> list[str]:
    """The files below a folder that hold one of the words as it is."""
    holding = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # sockets, and files that went meanwhile
            content = path.read_bytes() if path.is_file() else b""
            holding += [str(path) for word in words if word.encode() in content]
    return holding


async def _dump(database_url: str) -> AsyncIterator[Place]:
    """A whole dump, line by line, with the table that it is of; bytes are hexadecimal in it."""
    dumping = await asyncio.create_subprocess_exec(
        find_postgres_install() / "bin" / "pg_dump",
        database_url,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    assert dumping.stdout is not None
    table = "schema"
    async for line in dumping.stdout:
        if line.startswith(b"COPY "):
            table = line.split()[1].decode()
        yield f"table {table}", line
    assert await dumping.wait() == 0


async def _places(stack: Searched) -> AsyncIterator[Place]:
    async for place in _dump(stack.environment.database_url):
        yield place
    async for place in _messages(stack.environment.nats_url):
        yield place
    async for place in _keys(stack.environment.redis_url):
        yield place
    yield TERMINAL, stack.log.read_bytes()
    for path in stack.folder.logs.iterdir():
        yield f"log {path.name}", path.read_bytes()
    for path in stack.folder.files.rglob("*"):
        if path.is_file():
            yield "a stored file", path.read_bytes()
    for place in _arguments(stack):
        yield place


async def _messages(nats_url: str) -> AsyncIterator[Place]:
    """Of every stream, subjects and headers included."""
    client = await nats.connect(nats_url.split(","))
    try:
        jetstream = client.jetstream()
        for stream in await jetstream.streams_info():
            name = str(stream.config.name)
            if stream.config.retention == RetentionPolicy.WORK_QUEUE:  # has room for its own consumer only
                numbers = range(max(1, stream.state.first_seq), stream.state.last_seq + 1)
                messages = _one_by_one(jetstream, name, numbers)
            else:
                messages = _all(jetstream, name, stream.state.messages)
            async for content in messages:
                yield f"stream {name}", content
    finally:
        await client.close()


async def _one_by_one(jetstream: JetStreamContext, stream: str, numbers: range) -> AsyncIterator[bytes]:
    for number in numbers:
        with contextlib.suppress(nats.js.errors.NotFoundError):
            message = await jetstream.get_msg(stream, number)
            yield _join_parts(str(message.subject), message.headers, message.data)


async def _all(jetstream: JetStreamContext, stream: str, count: int) -> AsyncIterator[bytes]:
    if not count:
        return
    reading = await jetstream.subscribe(">", stream=stream, ordered_consumer=True)
    while True:
        message = await reading.next_msg(timeout=40)
        yield _join_parts(message.subject, message.headers, message.data)
        if message.metadata.num_pending == 0:
            break
    await reading.unsubscribe()


def _join_parts(subject: str, headers: dict[str, str] | None, data: bytes | None) -> bytes:
    return f"{subject} {headers}".encode() + (data or b"")


async def _keys(redis_url: str) -> AsyncIterator[Place]:
    redis = Redis.from_url(redis_url, decode_responses=True)
    try:
        async for key in redis.scan_iter(count=1000):
            content = await _READ[str(await redis.type(key))](redis, key)
            yield f"redis {key}", f"{key} {content}".encode()
    finally:
        await redis.aclose()


_READ = {
    "string": lambda redis, key: redis.get(key),
    "hash": lambda redis, key: redis.hgetall(key),
    "set": lambda redis, key: redis.smembers(key),
    "list": lambda redis, key: redis.lrange(key, 0, -1),
    "zset": lambda redis, key: redis.zrange(key, 0, -1),
    "none": lambda redis, key: redis.get(key),  # went meanwhile
}


def _arguments(stack: Searched) -> Iterator[Place]:
    """The command lines of its processes, which every user of the machine can read."""
    kept = process_record.read(stack.folder.processes)
    for entry in kept.processes if kept else ():
        with contextlib.suppress(OSError):
            yield f"arguments of {entry.name}", Path(f"/proc/{entry.pid}/cmdline").read_bytes()
