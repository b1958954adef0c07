"""Redis scripts for the limiter: sent together, each bounded in time, and not at all while Redis is away."""

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from runtime import logs

PROBE_SECONDS = 1.0
_BATCH = 256
_BACKSTOP_SECONDS = 2.0
# uvloop raises RuntimeError where something is written to a connection that was reset just before.
_FAILURES = (TimeoutError, RedisError, OSError, RuntimeError)


class ScriptsUnavailable(Exception):  # noqa: N818 - a state, not an error
    """Redis is not to be had: "timeout", "error", or "open": not asked, because it was away just now."""


class Call(msgspec.Struct, frozen=True, eq=False):
    """A script with its operands, and who waits for the reply."""

    script: str
    operands: tuple[Any, ...]
    reply: "asyncio.Future[Any]"


class RedisClient:
    """Runs scripts on one connection, all that wait in one round trip: 200 callers wait as long as one.

    A call takes about `timeout` seconds at most. After a failure Redis is not asked again until a probe, once
    a second, finds it well; then `on_return` is awaited, which may run scripts, and scripts are run again.
    """

    def __init__(
        self, redis_url: str, *, timeout: float, name: str, on_return: Callable[[], Awaitable[None]]
    ) -> None:
        self._connection = _connection(redis_url, name)
        self._exchanging = asyncio.Lock()
        self._timeout = timeout
        self._on_return = on_return
        self._waiting: list[Call] = []
        self._sender: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._refusing = False

    async def run(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """The script's reply. Raises ScriptsUnavailable."""
        if self._refusing:
            raise ScriptsUnavailable("open")
        return await self._ask(script, keys, arguments)

    async def run_on_return(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """As `run`, for `on_return`, while others are still refused. Raises ScriptsUnavailable."""
        return await self._ask(script, keys, arguments)

    async def ping(self) -> None:
        """One round trip. Raises redis.RedisError, OSError or TimeoutError."""
        async with asyncio.timeout(self._timeout):
            await self._exchange([("PING",)])

    async def aclose(self) -> None:
        """Stop probing and close the connections."""
        tasks = [task for task in (self._probe, self._sender) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail_waiting("open")
        await self._connection.disconnect()

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
        replies = await self._exchange([("EVALSHA", _sha(call.script), *call.operands) for call in batch])
        if any(isinstance(reply, NoScriptError) for reply in replies):
            forgotten = [
                position for position, reply in enumerate(replies) if isinstance(reply, NoScriptError)
            ]
            commands = [("EVAL", batch[position].script, *batch[position].operands) for position in forgotten]
            for position, reply in zip(forgotten, await self._exchange(commands), strict=True):
                replies[position] = reply
        return replies

    async def _exchange(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """One write and its replies. The library's pipeline and pool take twice the CPU time, measured.

        Who is cancelled, or fails, leaves the connection closed; the next one opens it.
        """
        connection = self._connection
        async with self._exchanging:
            if connection.is_connected and await connection.can_read():
                await connection.disconnect(nowait=True)  # Redis has closed it
            packed = connection.pack_commands(commands)
            await connection.send_packed_command(packed, check_health=False)
            return [await _reply(connection) for _ in commands]

    def _fail_waiting(self, reason: str) -> None:
        failed, self._waiting = self._waiting, []
        for call in failed:
            if not call.reply.done():
                call.reply.set_exception(ScriptsUnavailable(reason))

    def _go_away(self, error: BaseException) -> None:
        self._refusing = True
        if self._probe is None or self._probe.done():
            logs.get_logger("limits").warning("redis_away", reason=str(error) or type(error).__name__)
            self._probe = asyncio.create_task(self._keep_probing())

    async def _keep_probing(self) -> None:
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                await self.ping()
                await self._on_return()
            except (*_FAILURES, ScriptsUnavailable):
                continue
            break
        self._refusing = False
        logs.get_logger("limits").info("redis_back")


def _answer(call: Call, reply: Any) -> None:
    if call.reply.done():  # its caller was cancelled
        return
    if isinstance(reply, Exception):
        logs.get_logger("limits").error("redis_refused", reason=str(reply))
        call.reply.set_exception(ScriptsUnavailable("error"))
    else:
        call.reply.set_result(reply)


async def _unless_late(work: Awaitable[list[Any]], seconds: float) -> list[Any]:
    """The result of `work`, or TimeoutError after `seconds` if no reply has come by then.

    It may be this process that is late, and not Redis: so first come a few turns of the loop, each of which
    takes what is on the socket.
    """
    loop = asyncio.get_running_loop()
    over = False

    def look(turns: int) -> None:
        if turns > 0 and not over:
            loop.call_soon(look, turns - 1)
        elif not over:
            limit.reschedule(loop.time())

    timer = loop.call_later(seconds, look, _TURNS)
    try:
        async with asyncio.timeout(None) as limit:
            return await work
    finally:
        over = True
        timer.cancel()


_TURNS = 10


@functools.cache
def _sha(script: str) -> str:
    """Redis names a script by its SHA-1."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


async def _reply(connection: AbstractConnection) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


def _connection(redis_url: str, name: str) -> AbstractConnection:
    """No retries: a second try after a time-out would only come too late. RESP2 saves a round trip."""
    pool = ConnectionPool.from_url(
        redis_url,
        socket_timeout=None,  # of a batch as a whole
        socket_connect_timeout=_BACKSTOP_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
        client_name=name,
    )
    return pool.make_connection()  # type: ignore[no-any-return,no-untyped-call]
