"""POST /v1/chat: the reply as one JSON document, once it is saved."""

from collections.abc import Iterable

from contracts import http, wire
from contracts.updates import Finished, Update
from gateway.doors import own
from gateway.doors.json.description import operation
from gateway.doors.port import Door, Entrance


class _Document:
    def __init__(self, conversation_id: str) -> None:
        self._conversation_id = conversation_id

    def encode(self, updates: Iterable[Update]) -> bytes:
        *_, last = updates
        assert isinstance(last, Finished)
        return wire.encode(
            http.ChatReply(
                conversation_id=self._conversation_id,
                message=last.message,
                tool_calls=last.tool_calls or None,
            )
        )


DOOR = Door(name="json", read=own.reader(lambda _, claim: _Document(claim.conversation_id), streamed=False))
ENTRANCE = Entrance(path="/v1/chat", who=own.who, door=lambda _parts, _exchange: DOOR, describe=operation)
