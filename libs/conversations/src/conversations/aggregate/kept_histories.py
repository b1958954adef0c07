"""Histories of the conversations that were asked about last: what a model has seen is not rendered again.

Of 970 messages before the new one, rendering all takes 0.8 ms, and copying what is kept 0.01 ms. A provider
may keep the JSON of the messages with them (`Settled.json`), which is about as large as the runs in them.
"""

import msgspec

from conversations.aggregate.compaction import Opening
from conversations.aggregate.conversation import Conversation, Run
from conversations.aggregate.history import History
from runtime.bounded import BoundedMap

MAX_HISTORIES = 1000
MAX_BYTES = 32 * 1024 * 1024

_Key = tuple[str, str, bool]


class KeptHistories:
    """`history.Histories`, bounded by their number and by the bytes of the runs that are in them."""

    def __init__(self, max_histories: int = MAX_HISTORIES, max_bytes: int = MAX_BYTES) -> None:
        self._kept: BoundedMap[_Key, History] = BoundedMap(max_histories, max_bytes)

    def up_to(
        self,
        runs: tuple[Run, ...],
        opening: Opening,
        conversation: Conversation,
        provider: str,
        *,
        tools_offered: bool,
    ) -> History:
        """The history of those `runs` behind `opening`: what is kept, if it is of these, and the rest."""
        key = (conversation.conversation_id, provider, tools_offered)
        # Taken out: one whose rendering fails half way is not to be gone on with.
        size, history = self._kept.size_of(key), self._kept.pop(key)
        # Runs that have ended are the same objects from one state of a conversation to the next.
        if history is None or history.opening != opening or history.runs != runs[: len(history.runs)]:
            history, size = History(opening, provider, tools_offered=tools_offered), 0
        size += sum(len(msgspec.json.encode(run)) for run in runs[len(history.runs) :])
        history.go_on_to(runs)
        self._kept.put(key, history, size)
        return history
