"""One run as the log has it, read piece by piece while it grows."""

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all
from agentchat.conversations.aggregate.rounds import Round
from agentchat.conversations.event_store.log import Log, iterate_in_turns
from agentchat.conversations.event_store.mapper import decode_readable


class RunReader:
    """Keeps what it has read, so that each `read` costs only what is new in the run, and nothing at its end.

    `after_version`: where in the conversation the run begins, 0 where that is to be looked up. `erased`: the
    conversation was found to be. `is_readable`: all events of the run so far could be decoded.
    """

    def __init__(self, log: Log, conversation_id: str, trace_id: str, after_version: int = 0) -> None:
        self.erased = False
        self._log = log
        self._trace_id = trace_id
        self._version = after_version
        self._conversation = Conversation(conversation_id=conversation_id)
        self.is_readable = True

    async def read(self) -> Run | None:
        """The run up to now; None if the log has none. Raises DatabaseUnavailable.

        Only the events of the run's own trace are used: the conversation may be anybody's.
        """
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
        """Without its text, but for its reply, where an event that cannot be decoded may hold some."""
        run = self._conversation.run(self._trace_id)
        if run is None or self.is_readable:
            return run
        known = (Round(number=1, text=run.reply.content),) if run.reply is not None else ()
        return replace(run, rounds=known, sources=None)
