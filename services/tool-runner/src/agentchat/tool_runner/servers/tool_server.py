"""Keep one tool server's session open and its list of tools fresh.

A session that has ended is opened again, with back-off after failures. One attempt serves all waiting
callers.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from mcp_types import CallToolResult

from agentchat.runtime import logs
from agentchat.runtime.shared_task import start_shared_task
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.servers.client_errors import GRACE_SECONDS
from agentchat.tool_runner.servers.elicitation import FIRST_CALL_ATTEMPT, CallAttempt, InputRequired
from agentchat.tool_runner.servers.mcp_session import ToolSession
from agentchat.tool_runner.tools.server_tool import OfferedTool, check_tools

LISTING_SECONDS = 60.0
_LIST_SECONDS = 8.0
_BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_NAMED = 5

Tools = Mapping[str, OfferedTool]
SessionFactory = Callable[[bool], ToolSession]
"""Make a new session. The argument is True if the server is known to want a handshake."""


class ToolServer:
    """A tool server under one set of credentials.

    `get_tools` and `call` open a session if none is alive.
    """

    def __init__(
        self,
        name: str,
        make_session: SessionFactory,
        *,
        listing_seconds: float = LISTING_SECONDS,
        idle_seconds: float = 600.0,
    ) -> None:
        self.users = 0
        self.idle_seconds = idle_seconds
        self.used_at = _read_clock()
        self._make_session = make_session
        self._handshake = False
        self._session: ToolSession | None = None
        self._opening: asyncio.Task[ToolSession] | None = None
        self._retiring: dict[ToolSession, asyncio.Task[None]] = {}
        self._failures = 0
        self._failed = ToolFailed("unreachable")
        self._retry_at = 0.0
        self._listing_seconds = listing_seconds
        self._listing: asyncio.Task[Tools] | None = None
        self._tools: Tools = MappingProxyType({})
        self._listed_by: ToolSession | None = None
        self._listed_at: float | None = None
        self._log = logs.get_logger("servers").bind(server=name)

    @contextlib.contextmanager
    def keep_open(self) -> Iterator[None]:
        """Keep the server in the pool within this block."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self.used_at = _read_clock()

    @property
    def protocol_version(self) -> str:
        """Return the newest session's protocol version, such as 2024-11-05.

        Empty before the first.
        """
        return self._session.protocol_version if self._session is not None else ""

    async def get_tools(self, *, newer_than: float | None = None) -> Tools:
        """Return the tools by name, from a list at most `listing_seconds` old. Raises ToolFailed.

        With `newer_than` (on the loop's clock) an older list is read again.
        """
        self.used_at = _read_clock()
        oldest = self.used_at - self._listing_seconds if newer_than is None else newer_than
        if self._listed_at is not None and self._listed_at > oldest:
            return self._tools
        return await self._list_once()

    async def call(
        self,
        tool: OfferedTool,
        arguments: dict[str, Any],
        until: float,
        attempt: CallAttempt = FIRST_CALL_ATTEMPT,
    ) -> CallToolResult | InputRequired:
        """Run a tool, until `until` on the loop's clock. Raises ToolFailed.

        The call is sent a second time only if that is safe: the server has lost the session and said so, or
        the tool is repeatable and the connection broke or the session turns out to be lost.
        """
        try:
            async with asyncio.timeout_at(until + 2 * GRACE_SECONDS):
                session = await self._get_listed_session()
                try:
                    return await session.call(tool.name, arguments, until, attempt)
                except ToolFailed as failed:
                    if not await _can_be_sent_again(failed, tool, session):
                        raise
                session = await self._get_listed_session()
                return await session.call(tool.name, arguments, until, attempt)
        except TimeoutError as error:
            raise ToolFailed("timeout") from error

    async def close(self) -> None:
        """Close the session, and older ones that are still in use. Running calls fail."""
        for task in (self._listing, self._opening, *self._retiring.values()):
            if task is not None:
                task.cancel()
        sessions = [*self._retiring, *([self._session] if self._session is not None else [])]
        await asyncio.gather(*(session.close() for session in sessions))

    async def _get_listed_session(self) -> ToolSession:
        """Return a session that has listed the tools.

        Only then the client knows which arguments also go into headers.
        """
        session = await self._get_live_session()
        if session is not self._listed_by:
            await self._list_once()
        return session

    async def _list_once(self) -> Tools:
        if self._listing is None or self._listing.done():
            self._listing = start_shared_task(self._list())
        return await asyncio.shield(self._listing)

    async def _list(self) -> Tools:
        session = await self._get_live_session()
        try:
            listed = await session.list_tools(_read_clock() + _LIST_SECONDS)
        except ToolFailed as failed:
            if not await session.is_lost(failed):
                raise
            session = await self._get_live_session()
            listed = await session.list_tools(_read_clock() + _LIST_SECONDS)
        tools, left_out = await check_tools(listed)
        if left_out:
            first = [f"{tool.name} ({tool.reason})" for tool in left_out[:_NAMED]]
            self._log.warning("tools_left_out", count=len(left_out), first=first)
        self._tools = MappingProxyType(tools)
        self._listed_by = session
        self._listed_at = _read_clock()
        return self._tools

    async def _get_live_session(self) -> ToolSession:
        """Return a live session. Raises ToolFailed, without another attempt during the back-off."""
        session = self._session
        if session is not None and session.alive and not await session.is_lost():
            return session
        if self._opening is None or self._opening.done():
            if _read_clock() < self._retry_at:
                raise ToolFailed(self._failed.fault.kind, "not tried again yet")
            self._opening = start_shared_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> ToolSession:
        previous, self._session = self._session, None
        if previous is not None:
            self._retire(previous)
        session = self._make_session(self._handshake)
        try:
            await session.open()
        except ToolFailed as failed:
            self._failures += 1
            self._failed = failed
            delay = _BACK_OFF_SECONDS[min(self._failures, len(_BACK_OFF_SECONDS)) - 1]
            self._retry_at = _read_clock() + delay
            self._log.warning("server_unavailable", fault=str(failed), failures=self._failures)
            raise
        except asyncio.CancelledError:
            await session.close()
            raise
        self._failures = 0
        self._handshake = session.needs_handshake
        self._session = session
        self._log.info("session_opened", protocol_version=session.protocol_version)
        return session

    def _retire(self, session: ToolSession) -> None:
        """Close an old session once its running calls are done."""
        task = asyncio.create_task(session.close_when_unused())
        self._retiring[session] = task
        task.add_done_callback(lambda _: self._retiring.pop(session, None))


async def _can_be_sent_again(failed: ToolFailed, tool: OfferedTool, session: ToolSession) -> bool:
    is_lost = await session.is_lost(failed)
    return failed.fault.kind == "expired" or (tool.repeatable and (is_lost or failed.fault.kind == "broken"))


def _read_clock() -> float:
    return asyncio.get_running_loop().time()
