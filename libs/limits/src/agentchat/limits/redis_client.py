"""Run the limiter's scripts in Redis: batched, bounded in time, and not at all while Redis is away."""

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Sequence
from contextvars import Context
from typing import Any, NamedTuple

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from agentchat.runtime import logs
from agentchat.runtime.batching import Batcher

PROBE_SECONDS = 1.0
_MOST = 256
_CONNECT_SECONDS = 2.0
_GRACE_SECONDS = 0.02
_PING = "return 1"
# uvloop raises RuntimeError if something is written to a connection that was reset just before.
_FAILURES = (TimeoutError, RedisError, OSError, RuntimeError)


class RedisUnavailable(Exception):  # noqa: N818 - a state, not an error
    """Redis does not answer: "timeout", "error", or "open": not asked, because it was away just now."""


class _Call(NamedTuple):
    script: str
    keys: list[str]
    arguments: list[Any]

    def build_command(self, command: str, script: str) -> list[Any]:
        return [command, script, len(self.keys), *self.keys, *self.arguments]


class RedisClient:
    """Runs scripts on one connection, all waiting calls in one piece: 200 callers wait as long as one.

    A call takes at most about `timeout` seconds. After a failure Redis is not asked until a probe, once a
    second, finds it well.
    """

    def __init__(self, redis_url: str, *, timeout: float, name: str) -> None:
        # No retries: a second try after a time-out would only come too late. RESP2 saves a round trip.
        pool = ConnectionPool.from_url(
            redis_url,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=None,  # `timeout` is of all calls together
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            driver_info=None,
            client_name=name,
        )
        self._connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
        self._timeout = timeout
        self._batcher: Batcher[_Call, Any] = Batcher(self._send_unless_away, most=_MOST, inline=True)
        self._probe: asyncio.Task[None] | None = None
        self._is_away = False

    async def run(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """Return the script's reply. Raises RedisUnavailable."""
        return await self._batcher.call(_Call(script, keys, arguments))

    async def ping(self) -> None:
        """Make one round trip. Raises RedisUnavailable."""
        await self.run(_PING, [], [])

    async def aclose(self) -> None:
        """Stop probing and close the connection."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        await self._batcher.aclose()
        await self._connection.disconnect()

    async def _send_unless_away(self, calls: Sequence[_Call], _: float) -> Sequence[Any]:
        if self._is_away:
            raise RedisUnavailable("open")
        try:
            replies = await _run_in_time(self._send(calls), self._timeout)
        except _FAILURES as error:
            self._go_away(error)
            raise RedisUnavailable("timeout" if isinstance(error, TimeoutError) else "error") from error
        return [_report_refusal(reply) if isinstance(reply, RedisError) else reply for reply in replies]

    async def _send(self, calls: Sequence[_Call]) -> list[Any]:
        """Send the calls in one round trip; in a second one those whose scripts Redis has forgotten."""
        replies = await self._exchange(
            [call.build_command("EVALSHA", _hash_script(call.script)) for call in calls]
        )
        forgotten = [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if forgotten:
            again = [calls[place].build_command("EVAL", calls[place].script) for place in forgotten]
            for place, reply in zip(forgotten, await self._exchange(again), strict=True):
                replies[place] = reply
        return replies

    async def _exchange(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send commands and return their replies, errors among them. One exchange at a time."""
        connection, replies = self._connection, list[Any]()
        try:
            await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except ResponseError as error:
                    replies.append(error)
        except BaseException:  # a reply that is still to come would be taken for the next command's
            await connection.disconnect(nowait=True)
            raise
        return replies

    def _go_away(self, error: BaseException) -> None:
        self._is_away = True
        logs.get_logger("limits").warning("redis_away", reason=str(error) or type(error).__name__)
        # Its log lines are of no request.
        self._probe = asyncio.get_running_loop().create_task(self._keep_probing(), context=Context())

    async def _keep_probing(self) -> None:
        while self._is_away:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                (reply,) = await _run_in_time(self._send([_Call(_PING, [], [])]), self._timeout)
            except _FAILURES:
                continue
            self._is_away = isinstance(reply, RedisError)
        logs.get_logger("limits").info("redis_back")


def _report_refusal(error: RedisError) -> RedisUnavailable:
    logs.get_logger("limits").error("redis_refused", reason=str(error))
    return RedisUnavailable("error")


async def _run_in_time(work: Awaitable[list[Any]], seconds: float) -> list[Any]:
    """Return the result of `work`. Raises TimeoutError after `seconds`.

    If this process itself was late, the reply is on the socket already: a moment is left to read it.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        late = loop.call_later(seconds, lambda: limit.reschedule(loop.time() + _GRACE_SECONDS))
        try:
            return await work
        finally:
            late.cancel()


@functools.cache
def _hash_script(script: str) -> str:
    """Return the SHA-1 by which Redis names a script."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
