"""The way to one tool server: an open session, opened again after it ended, with back-off after failures."""

import asyncio
from collections.abc import Callable

from runtime import logs
from runtime.shared_task import shared
from tool_runner.faults import ToolFailed
from tool_runner.servers.mcp_session import ToolSession

MakeSession = Callable[[bool], ToolSession]
"""A new session; True for a server that is known to want a handshake."""

_BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)


class ServerConnection:
    """Opens at most one session at a time, for all who wait for one."""

    def __init__(self, name: str, make_session: MakeSession) -> None:
        self._make_session = make_session
        self._handshake = False
        self._session: ToolSession | None = None
        self._opening: asyncio.Task[ToolSession] | None = None
        self._retiring: dict[ToolSession, asyncio.Task[None]] = {}
        self._failures = 0
        self._failed = ToolFailed("unreachable")
        self._retry_at = 0.0
        self._log = logs.get_logger("servers").bind(server=name)

    @property
    def protocol_version(self) -> str:
        """What the newest session speaks; empty before the first."""
        return self._session.protocol_version if self._session is not None else ""

    async def session(self) -> ToolSession:
        """A session that is alive. Raises ToolFailed, at once for some time after a failure."""
        if self._session is not None and self._session.alive:
            return self._session
        if self._opening is None or self._opening.done():
            if asyncio.get_running_loop().time() < self._retry_at:
                raise ToolFailed(self._failed.fault.kind, "not tried again yet")
            self._opening = shared(self._open())
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        """Close the session, and older ones that were still in use."""
        if self._opening is not None:
            self._opening.cancel()
        for task in self._retiring.values():
            task.cancel()
        sessions = [*self._retiring, *([self._session] if self._session is not None else [])]
        await asyncio.gather(*(session.close() for session in sessions))

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
            self._retry_at = asyncio.get_running_loop().time() + delay
            self._log.warning("server_unavailable", fault=str(failed), failures=self._failures)
            raise
        except asyncio.CancelledError:
            await session.close()
            raise
        self._failures = 0
        self._handshake = session.handshaken
        self._session = session
        self._log.info("session_opened", protocol_version=session.protocol_version)
        return session

    def _retire(self, session: ToolSession) -> None:
        task = asyncio.create_task(session.retire())
        self._retiring[session] = task
        task.add_done_callback(lambda _: self._retiring.pop(session, None))
