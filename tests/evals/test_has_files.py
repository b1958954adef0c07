"""Events of which a case can have no file are recognized."""

import msgspec
import pytest

from agentchat.contracts import events
from agentchat.contracts.examples import FILE
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.event_store import mapper
from agentchat.evals.case_reader import has_files
from tests.conversations import given

WITH_FILE = msgspec.structs.replace(
    given.build_user_message("file", "Read this invoice"), attachments=(FILE,)
)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (WITH_FILE, True),
        (given.build_user_message(text='{"file_id":"f"}'), False),
        (msgspec.structs.replace(given.build_tool_returned("1"), files=(FILE,)), True),
        (given.build_tool_returned("1", '{"file_id":"f"}'), False),
        (events.MessageReceived(trace_id="t", at=given.AT, message=WITH_FILE), True),
        (
            events.ConversationSeeded(
                trace_id="t", at=given.AT, messages=(ShownMessage("user", "Hi", (FILE,)),)
            ),
            True,
        ),
        (events.ConversationSeeded(trace_id="t", at=given.AT, messages=(ShownMessage("user", "Hi"),)), False),
    ],
)
def test_events_with_files_are_recognized(event: events.Event, expected: bool) -> None:
    ((_, state),) = mapper.encode_pairs([event])
    assert has_files(state) is expected
