"""The output of a failed call: the model and operators get the tool's own text, API clients a sentence."""

import msgspec
import pytest
from msgspec.structs import replace

from agentchat.contracts import events, wire
from agentchat.contracts.updates import Finished, ToolEnded
from agentchat.conversations.aggregate.canonical_stream import build_last_update, replay_updates
from agentchat.conversations.aggregate.conversation import fold
from agentchat.conversations.queries.user_export import ToolCallLine, list_lines
from tests.conversations.given import (
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_tool_called,
    build_tool_returned,
    trace,
    use,
)

SECRET = wire.encode_tool_error("KeyError: 'host' at postgres://admin:hunter2@10.0.0.7/shop")
OURS = wire.encode_tool_error("The tool did not answer in time.")
PLAIN = '{"error":"The tool failed."}'


@pytest.mark.parametrize(
    ("output", "is_error", "quotes_server", "shown"),
    [
        pytest.param('{"ok":1}', False, False, '{"ok":1}', id="a result"),
        pytest.param(SECRET, True, True, PLAIN, id="an exception"),
        pytest.param(OURS, True, False, OURS, id="our own words"),
    ],
)
def test_clients_get_no_text_of_an_exception(
    output: str, is_error: bool, quotes_server: bool, shown: str
) -> None:
    returned = replace(build_tool_returned("c", output), is_error=is_error, quotes_server=quotes_server)
    begun = (build_conversation_started(), *begin())
    ended = (*build_delta("So.", number=2), *build_answer("So."))
    told: tuple[events.Event, ...] = (*begun, *build_tool_called([use("c")]), returned, *ended)
    run = fold("c", told).run(trace())
    assert run is not None
    assert run.rounds[0].calls[0].output == output, "what the model gets"
    updates = list(replay_updates(run))
    ends = [each for each in updates if isinstance(each, ToolEnded)]
    assert ends == [ToolEnded("c", is_error, shown)]
    last = build_last_update(run)
    assert isinstance(last, Finished)
    (call,) = last.tool_calls
    assert (call.id, call.is_error, call.output) == ("c", is_error, shown)
    assert msgspec.json.decode(call.output)
    exported = [line.output for line in list_lines(fold("c", told)) if isinstance(line, ToolCallLine)]
    assert exported == [shown]
