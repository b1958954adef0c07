"""`agentchat replay show` and `why`: who decided about a tool call, what each round was shown and took."""

import json
import re
from typing import Any, NamedTuple

import pytest

from tests.conversations.replay_commands import Commands, mine_file

pytestmark = pytest.mark.requirement("TIME-TRAVEL", "WHY")


class Imported(NamedTuple):
    """A recorded history in which persons decided: `requested` and `decided` are its events, in order."""

    replay: Commands
    conversation: str
    requested: list[dict[str, Any]]
    decided: list[dict[str, Any]]

    def show(self) -> str:
        return self.replay("show", self.conversation).out

    def why(self, run: int) -> str:
        return self.replay("why", self.requested[run]["trace_id"]).out


def imported(name: str, replay: Commands, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    source = mine_file(tmp_path_factory.mktemp(name), name)
    accounts = sorted(set(re.findall(r'"account_id":"([^"]+)"', source.read_text())))
    arguments = [part for each in accounts for part in ("--account", f"{each}={replay.account()}")]
    assert replay("import", str(source), *arguments).code == 0
    lines = [json.loads(line) for line in source.read_bytes().splitlines()[1:-1]]
    events = [line["event"] for line in lines]
    return Imported(
        replay,
        lines[0]["conversation_id"],
        [
            each
            for each in events
            if each["type"].startswith(("approval_requested.", "elicitation_requested."))
        ],
        [each for each in events if each["type"].startswith("approval_decided.")],
    )


@pytest.fixture(scope="module")
def approvals(replay: Commands, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return imported("approvals", replay, tmp_path_factory)


@pytest.fixture(scope="module", params=["elicited", "elicitation"])
def elicited(
    replay: Commands, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Imported:
    return imported(request.param, replay, tmp_path_factory)


def test_who_decided_when_and_what_was_changed_is_shown(approvals: Imported) -> None:
    (approved, denied), (first, _) = approvals.decided, approvals.requested
    for text in (approvals.show(), approvals.why(0) + approvals.why(1)):
        assert f"approval requested  {first['at']}  approval {first['approval_id']}" in text
        assert f"approved by account {approved['by']['id']}  {approved['at']}\n" in text
        assert 'run with order_id="ORD-1030", reason="by phone"' in text
        assert f"denied by account {denied['by']['id']}  {denied['at']}: Too late.\n" in text


def test_a_call_that_was_denied_took_no_time(approvals: Imported) -> None:
    lines = approvals.show().splitlines()
    assert '    cancel_order(order_id="ORD-1031")' in lines
    assert '    cancel_order(order_id="ORD-1030")  126 ms' in lines


def test_what_a_tool_asked_and_was_answered_is_shown(elicited: Imported) -> None:
    text = elicited.show()
    answered, declined = elicited.decided
    assert "the tool asks: Change the shipping address: country?" in text
    assert f"answered by account {answered['by']['id']}  {answered['at']}" in text
    assert 'answered country="AT"' in text
    assert f"declined by account {declined['by']['id']}  {declined['at']}" in text


def test_show_names_the_versions_of_each_round(approvals: Imported) -> None:
    text = approvals.show()
    assert "  round 1  versions 4 to 10  tool_use" in text
    assert "  round 2  versions 24 to 25  end_turn" in text


def test_why_shows_the_messages_and_the_time_of_each_round(approvals: Imported) -> None:
    text = approvals.why(1)
    assert re.search(r"round 1 +2026-\S+Z, 0\.1 s, shown 6 messages: tool_use", text)
    assert re.search(r"round 2 +2026-\S+Z, 0\.2 s, shown 7 messages: end_turn", text)
    assert "messages      7\n  user        Cancel ORD-1030\n" in text
    assert '  assistant   calls cancel_order(order_id="ORD-1031")\n' in text
    made = approvals.replay("why", approvals.requested[1]["trace_id"], "--json").json
    assert [each["role"] for each in made["messages"]] == ["user", "assistant"] * 3 + ["user"]
    assert [each["messages"] for each in made["rounds"]] == [6, 7]
