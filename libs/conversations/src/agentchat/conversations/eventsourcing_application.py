"""Open the log as an application of the eventsourcing library, for slow paths.

`ConversationLog` opens the log of a database. Its `repository`, `events`, `notification_log` and
subscriptions are the library's (https://eventsourcing.readthedocs.io), over our recorder and mapper. Its
calls block; on an event loop use it in a thread. Projections that follow the log use
`event_store.event_log`: the library's runner took 28 to 39 times as long (measured).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from eventsourcing.application import Application
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    Mapper,
    ProcessRecorder,
    StoredEvent,
    TrackingRecorder,
)
from eventsourcing.utils import Environment
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.event_store.mapper import ConversationEvent, ConversationMapper, EventTranscoder
from agentchat.conversations.event_store.recorder import ConversationDatastore, ConversationRecorder
from agentchat.conversations.queries.time_travel import VersionOrTime

DATABASE_URL = "AGENTCHAT_DATABASE_URL"
_ERASED = events.get_tag(events.ConversationErased)


class PastConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at a version, and the events that led to it; `head` is its version now.

    An erased conversation has no past: it is the same at every version.
    """

    conversation: Conversation
    entries: tuple[ConversationEvent, ...]
    head: int


class _Factory(InfrastructureFactory[TrackingRecorder]):
    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        url = self.env.get(DATABASE_URL)
        if not url:
            raise OSError(f"{DATABASE_URL} is not set")
        self.datastore = ConversationDatastore(url)

    def close(self) -> None:
        self.datastore.close()

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:  # noqa: ARG002 - no snapshots
        return self.application_recorder()

    def application_recorder(self) -> ApplicationRecorder:
        return ConversationRecorder(self.datastore)

    def tracking_recorder(self, tracking_recorder_class: Any = None) -> TrackingRecorder:
        raise NotImplementedError("a projection keeps its position in a database of its own")

    def process_recorder(self) -> ProcessRecorder:
        raise NotImplementedError("a projection keeps its position in a database of its own")


class ConversationLog(Application[str]):
    """The log of the database at AGENTCHAT_DATABASE_URL, from `env` or the environment.

    Raises OSError if the variable is not set; each call DatabaseUnavailable.
    """

    name = "conversations"
    log_section_size = 200
    recorder: ConversationRecorder

    def construct_factory(self, env: Environment) -> InfrastructureFactory[TrackingRecorder]:
        """Return the factory that the library takes recorders from."""
        return _Factory(env)

    def construct_mapper(self) -> Mapper[str]:
        """Return the mapper of our events."""
        return self.factory.mapper(EventTranscoder(), mapper_class=ConversationMapper)

    def load_past(self, conversation_id: str, place: VersionOrTime | None = None) -> PastConversation:
        """Load the conversation at a version or time, or now. A later one gives its end.

        Only one later event is decoded. Raises UnreadableEvent.
        """
        stored = self.recorder.select_events(conversation_id)
        head = stored[-1].originator_version if stored else 0
        if stored and stored[-1].topic == _ERASED:
            place = None
        entries = tuple(self._read_until(stored, place))
        state = project(None, entries) or Conversation(conversation_id=conversation_id)
        return PastConversation(conversation=state, entries=entries, head=head)

    def _read_until(
        self, stored: Iterable[StoredEvent], place: VersionOrTime | None
    ) -> Iterator[ConversationEvent]:
        for each in stored:
            if isinstance(place, int) and each.originator_version > place:
                return
            read: Any = self.mapper.to_domain_event(each)
            if isinstance(place, datetime) and datetime.fromisoformat(read.event.at) > place:
                return
            yield read


def project(conversation: Conversation | None, stored: Iterable[ConversationEvent]) -> Conversation | None:
    """Fold events onto a state: the library's projector function."""
    following = list(stored)
    if not following:
        return conversation
    conversation = conversation or Conversation(conversation_id=following[0].originator_id)
    state = evolve_all(conversation, [each.event for each in following])
    return replace(state, version=following[-1].originator_version)
