"""What one event looks like, and what the options of `agentchat tail` mean."""

import json
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts import events, examples
from contracts.feed import FeedEvent
from ops.errors import SetupError
from ops.tail.event_lines import as_json, as_line
from ops.tail.tail_command import read
from tests.tail.feeding import example, fed

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize("event", examples.EVENT_EXAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_is_one_line_with_its_ids(event: events.Fact) -> None:
    line = as_line(fed(event), None).plain
    assert line.startswith(
        f"2026-11-21T09:30:00.123Z  {examples.ACCOUNT}  {examples.CONVERSATION}  {examples.TRACE}  "
    )
    assert type(event).__name__ in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (example(events.MessageSaved), "user: Where is it?"),
        (example(events.RunStarted), "demo-shop-1, form1"),
        (replace(example(events.RunStarted), attempt=2), "demo-shop-1, form1, attempt 2"),
        (example(events.SourcesRetrieved), "1 source: Returns"),
        (example(events.ToolCalled), 'get_order(order_id="ORD-1001")'),
        (example(events.ToolReturned), 'ok in 41 ms: {"status":"shipped"}'),
        (example(events.RunCompleted), "1 round, 469 tokens"),
        (example(events.RunFailed), "provider_timeout: The provider did not answer."),
    ],
)
def test_a_line_says_what_it_is_about(event: events.Fact, text: str) -> None:
    assert as_line(fed(event), None).plain.endswith("  " + text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(60, 300))
def test_no_text_drives_the_terminal_or_leaves_the_line(text: str, width: int) -> None:
    event = fed(replace(example(events.MessageSaved), content=text), account_id="\x1b[2J" + examples.ACCOUNT)
    for line in (as_line(event, width), as_line(event, None)):
        assert not any(unicodedata.category(character) == "Cc" for character in line.plain)
    assert as_line(event, width).cell_len <= width
    assert as_json(event).isascii()


@pytest.mark.parametrize("data", [b"{}", b"not json \xff\x1b[2J", b'{"type":"unheard_of.v9","at":5}', b"[]"])
def test_what_cannot_be_read_is_shown_as_it_is(data: bytes) -> None:
    event = FeedEvent(position=1, account_id="unknown", conversation_id="odd", name="UnheardOf", data=data)
    assert "UnheardOf" in as_line(event, 120).plain
    assert json.loads(as_json(event))["name"] == "UnheardOf"


def test_options_are_read() -> None:
    account, conversation = examples.ACCOUNT, examples.CONVERSATION
    wanted = read(account, ["RunFailed", "messagesaved", "delta.v1"], conversation.upper(), "17", NOW)
    assert wanted.names == ("RunFailed", "MessageSaved", "Delta")
    assert (wanted.conversation_id, wanted.start) == (conversation, 17)
    assert wanted.takes(fed(example(events.RunFailed)))
    assert not wanted.takes(fed(example(events.RunCompleted)))
    assert not wanted.takes(fed(example(events.RunFailed), account_id="other"))
    assert not wanted.takes(fed(example(events.RunFailed), conversation_id="other"))
    assert read(None, [], None, "15m", NOW).start == NOW - timedelta(minutes=15)
    assert read(None, [], None, "2026-11-21T10:00:00+02:00", NOW).start == datetime(
        2026, 11, 21, 8, tzinfo=UTC
    )
    assert read(None, [], None, "2026-11-20", NOW).start == datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("account", "kinds", "conversation", "start", "named"),
    [
        ("a.b", [], None, None, "--account"),
        (None, ["Message"], None, None, "--type: there is no 'Message'"),
        (None, [], "c", None, "--conversation"),
        (None, [], None, "0", "--from"),
        (None, [], None, "-5", "--from"),
        (None, [], None, "9" * 30, "--from"),
        (None, [], None, "yesterday", "--from"),
        (None, [], None, "2026-11-22", "--from: 2026-11-22 is in the future"),
        (None, [], None, "999999999d", "--from"),
    ],
)
def test_a_wrong_option_is_named(
    account: str | None, kinds: list[str], conversation: str | None, start: str | None, named: str
) -> None:
    with pytest.raises(SetupError, match=named):
        read(account, kinds, conversation, start, NOW)
