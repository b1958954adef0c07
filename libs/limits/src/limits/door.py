"""The one door to Redis: scripts, sent together, each bounded in time, and not at all while Redis is away."""

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from runtime import logs

PROBE_SECONDS = 1.0
_BATCH = 256
_BACKSTOP_SECONDS = 2.0
# uvloop raises RuntimeError where something is written to a connection that was reset just before.
_FAILURES = (TimeoutError, RedisError, OSError, RuntimeError)


class Away(Exception):  # noqa: N818 - a state, not an error
    """Redis is not to be had: "timeout", "error", or "open": not asked, because it was away just now."""


class Call(msgspec.Struct, frozen=True, eq=False):
    """A script with its operands, and who waits for the reply."""

    script: str
    operands: tuple[Any, ...]
    reply: "asyncio.Future[Any]"


class RedisDoor:
    """Runs scripts on one connection, all that wait in one round trip: 200 callers wait as long as one.

    A call takes about `timeout` seconds at most. After a failure Redis is not asked again until a probe, once
    a second, finds it well; then `on_return` is awaited, which may run scripts, and the door is open again.
    """

    def __init__(
        self, redis_url: str, *, timeout: float, name: str, on_return: Callable[[], Awaitable[None]]
    ) -> None:
        self._redis = _client(redis_url, name)
        self._execute: Callable[..., Awaitable[Any]] = self._redis.execute_command
        self._timeout = timeout
        self._on_return = on_return
        self._waiting: list[Call] = []
        self._sender: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._shut = False

    async def run(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """The script's reply. Raises Away."""
        if self._shut:
            raise Away("open")
        return await self._ask(script, keys, arguments)

    async def run_on_return(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """As `run`, for `on_return`, while the door is still shut to others. Raises Away."""
        return await self._ask(script, keys, arguments)

    async def ping(self) -> None:
        """One round trip. Raises redis.RedisError, OSError or TimeoutError."""
        async with asyncio.timeout(self._timeout):
            await self._execute("PING")

    async def aclose(self) -> None:
        """Stop probing and close the connections."""
        tasks = [task for task in (self._probe, self._sender) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail_waiting("open")
        await self._redis.aclose()

    async def _ask(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        reply = asyncio.get_running_loop().create_future()
        call = Call(script, (len(keys), *keys, *arguments), reply)
        self._waiting.append(call)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_waiting())
        return await call.reply

    async def _send_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            try:
                replies = await _unless_late(self._send(batch), self._timeout)
            except _FAILURES as error:
                reason = "timeout" if isinstance(error, TimeoutError) else "error"
                self._waiting = batch + self._waiting
                self._fail_waiting(reason)
                self._go_away(error)
                return
            for call, reply in zip(batch, replies, strict=True):
                _answer(call, reply)

    async def _send(self, batch: list[Call]) -> list[Any]:
        """One round trip; a second one after a restart, when Redis has forgotten the scripts."""
        replies = await self._pipeline([("EVALSHA", _sha(call.script), *call.operands) for call in batch])
        if any(isinstance(reply, NoScriptError) for reply in replies):
            forgotten = [
                position for position, reply in enumerate(replies) if isinstance(reply, NoScriptError)
            ]
            commands = [("EVAL", batch[position].script, *batch[position].operands) for position in forgotten]
            for position, reply in zip(forgotten, await self._pipeline(commands), strict=True):
                replies[position] = reply
        return replies

    async def _pipeline(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute(raise_on_error=False)

    def _fail_waiting(self, reason: str) -> None:
        failed, self._waiting = self._waiting, []
        for call in failed:
            if not call.reply.done():
                call.reply.set_exception(Away(reason))

    def _go_away(self, error: BaseException) -> None:
        self._shut = True
        if self._probe is None or self._probe.done():
            logs.get_logger("limits").warning("redis_away", reason=str(error) or type(error).__name__)
            self._probe = asyncio.create_task(self._keep_probing())

    async def _keep_probing(self) -> None:
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                await self.ping()
                await self._on_return()
            except (*_FAILURES, Away):
                continue
            break
        self._shut = False
        logs.get_logger("limits").info("redis_back")


def _answer(call: Call, reply: Any) -> None:
    if call.reply.done():  # its caller was cancelled
        return
    if isinstance(reply, Exception):
        logs.get_logger("limits").error("redis_refused", reason=str(reply))
        call.reply.set_exception(Away("error"))
    else:
        call.reply.set_result(reply)


async def _unless_late(work: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """The result of `work`, or TimeoutError after `seconds` if no reply has come by then.

    It may be this process that is late, and not Redis: so first come a few turns of the loop, each of which
    takes what is on the socket.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        for _ in range(_TURNS):
            if task.done():
                break
            await asyncio.sleep(0)
        else:
            raise TimeoutError("no answer in time")
        return task.result()
    finally:
        if not task.done():
            task.cancel()


_TURNS = 10


@functools.cache
def _sha(script: str) -> str:
    """Redis names a script by its SHA-1."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


def _client(redis_url: str, name: str) -> "Redis":
    """No retries: a second try after a time-out would only come too late. RESP2 saves a round trip."""
    return Redis.from_url(
        redis_url,
        max_connections=4,
        socket_timeout=_BACKSTOP_SECONDS,
        socket_connect_timeout=_BACKSTOP_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
        client_name=name,
    )
