"""Read a followed run from the log, where its frames are missing."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.canonical_stream import has_reasoning
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all
from agentchat.conversations.aggregate.rounds import Round
from agentchat.conversations.event_store.event_log import Log, iterate_in_turns
from agentchat.conversations.event_store.mapper import decode_readable

ShowsReasoning = Callable[[str], Awaitable[bool]]
"""A question by an agent's id: does it show its model's reasoning now?"""


async def hide_reasoning(_agent_id: str) -> bool:
    """Return False: the reader takes no reasoning."""
    return False


class RunReader:
    """A run as the log has it. Each `read` costs only what is new in the run, and nothing after its end.

    after_version: The version after which the run begins in its conversation; 0 if unknown.
    erased: The conversation was found to be erased.
    is_readable: All events of the run so far could be decoded.
    shows_reasoning: The agent shows the reasoning that the run has; None while the run has none.
    """

    def __init__(
        self,
        log: Log,
        conversation_id: str,
        trace_id: str,
        after_version: int = 0,
        shows_reasoning: ShowsReasoning = hide_reasoning,
    ) -> None:
        self.erased = False
        self.shows_reasoning: bool | None = None
        self._ask_agent = shows_reasoning
        self._log = log
        self._trace_id = trace_id
        self._version = after_version
        self._conversation = Conversation(conversation_id=conversation_id)
        self.is_readable = True

    async def read(self) -> Run | None:
        """Return the run up to now; None if the log has none. Raises DatabaseUnavailable.

        Only events of the run's own trace are used, since the conversation may belong to another account.
        """
        run = await self._read_run()
        if self.shows_reasoning is None and run is not None and has_reasoning(run):
            self.shows_reasoning = await self._ask_agent(run.agent_id)
        return run

    async def _read_run(self) -> Run | None:
        known = self._run()
        if known is not None and known.state != "running":
            return known
        rows = await self._log.read_run_rows(
            self._conversation.conversation_id, self._trace_id, self._version
        )
        new: list[events.Event] = []
        is_readable = True
        async for row in iterate_in_turns(rows):
            found, all_of_it = decode_readable([(row.topic, row.state)])
            new += found
            is_readable = is_readable and all_of_it
        if rows:
            self._version = rows[-1].version
        self.is_readable = self.is_readable and is_readable
        self.erased = self.erased or any(isinstance(event, events.ConversationErased) for event in new)
        own = [event for event in new if event.trace_id == self._trace_id]
        self._conversation = evolve_all(self._conversation, own)
        return self._run()

    def _run(self) -> Run | None:
        """Return the run; without its rounds if an event could not be decoded, since it may hold text."""
        run = self._conversation.run(self._trace_id)
        if run is None or self.is_readable:
            return run
        known = (Round(number=1, text=run.reply.content),) if run.reply is not None else ()
        return replace(run, rounds=known, sources=None)
