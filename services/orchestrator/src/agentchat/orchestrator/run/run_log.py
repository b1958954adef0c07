"""Append to the log of a started run."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.busy_rules import place_messages
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store.append_statement import LeaseChange
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.leases.leases import Lease, Leases
from agentchat.runtime import failpoints
from agentchat.runtime.postgres import DatabaseUnavailable

_APPEND_SECONDS = 10.0
_APPEND_AGAIN_SECONDS = 0.25
_NOTE_SECONDS = 1.0
_LEAVES = events.RunEnd | events.DecisionRequested
"""Events after which no worker works on the run."""


class RunRecorder(Protocol):
    """The log of a run: the event store (`RunLog`), or only memory (`recorded_tools.MemoryRecorder`)."""

    @property
    def conversation(self) -> Conversation:
        """The conversation as far as it is recorded."""

    @property
    def run(self) -> Run:
        """The run as far as it is recorded."""

    async def append(self, new: Sequence[events.Event]) -> None:
        """Append events."""


class RunLog:
    """The log of a run in the event store. `conversation` has only stored events."""

    def __init__(
        self,
        store: ConversationStore,
        leases: Leases,
        conversation: Conversation,
        trace_id: str,
        lease: Lease,
    ) -> None:
        self.conversation = conversation
        self._store = store
        self._leases = leases
        self._lease = lease
        self._trace_id = trace_id

    @property
    def run(self) -> Run:
        """The run as far as it is stored."""
        return get_run(self.conversation, self._trace_id)

    async def append(self, new: Sequence[events.Event]) -> None:
        """Append events; retry for some seconds if Postgres is away. The store recognises its own events.

        Events that others appended meanwhile, such as a title, come first. Messages that the run has received
        are saved with events that they may follow. The end or pause of the run
        releases its lease in the same statement.

        Raises:
            VersionConflict: Another worker has the run.
            DatabaseUnavailable
        """
        loop = asyncio.get_running_loop()
        leaves = isinstance(new[-1], _LEAVES)
        end = loop.time() + _APPEND_SECONDS
        while True:
            try:
                failpoints.reach("orchestrator-before-append")
                release = self._leases.plan_release(self._trace_id, self._lease) if leaves else None
                await self._append(new, release)
                if release is not None:
                    self._leases.confirm_release(self._trace_id, self._lease)
                failpoints.reach("orchestrator-appended")
            except DatabaseUnavailable:
                if loop.time() > end:
                    raise
                await asyncio.sleep(_APPEND_AGAIN_SECONDS)
            else:
                return

    async def _append(self, new: Sequence[events.Event], release: LeaseChange | None = None) -> None:
        """Append events, again if others than a worker of the run have appended meanwhile.

        Raises:
            VersionConflict, DatabaseUnavailable, UnreadableEvent
        """
        while True:
            try:
                placed = place_messages(self.conversation, self._trace_id, new)
                self.conversation = await self._store.append(
                    self.conversation, (*new, *placed), release=release
                )
            except VersionConflict:
                newer = await self._store.load(self.conversation.conversation_id)
                # A worker that takes the run over appends an attempt of its own first.
                if newer.version == self.conversation.version or not self._has_only_received(newer):
                    raise
                self.conversation = newer
            else:
                return

    def _has_only_received(self, newer: Conversation) -> bool:
        """Return True if all that happened to the run since is that it received messages."""
        run = newer.run(self._trace_id)
        return run is not None and replace(run, received=self.run.received) == self.run

    async def refresh(self) -> None:
        """Load what others have appended; a run that another worker has stays as it is."""
        newer = await self._store.load(self.conversation.conversation_id)
        if self._has_only_received(newer):
            self.conversation = newer

    async def append_once(self, event: events.Event) -> None:
        """Append an event that nobody depends on, once and within a second."""
        with contextlib.suppress(DatabaseUnavailable, VersionConflict, TimeoutError):
            async with asyncio.timeout(_NOTE_SECONDS):
                await self._append([event])


def get_run(conversation: Conversation, trace_id: str) -> Run:
    """Return the run of a trace, which must exist."""
    run = conversation.run(trace_id)
    assert run is not None, "an opened request has a run"
    return run
