"""`agentchat admin conversations list` and `search`: an operator finds a conversation of any account."""

from typing import Any, NamedTuple

import pytest

from tests.admin_cli.conftest import Cli
from tests.conversations.recorded import carried, renamed
from tests.conversations.replay_commands import Commands


class Imported(NamedTuple):
    """A recorded history of an account of its own."""

    account: str
    conversation: str
    trace: str
    agent: str


@pytest.fixture(scope="module")
def imported(migrated_database_url: str) -> dict[str, Imported]:
    replay = Commands(migrated_database_url)
    found = {}
    for name in ("approvals", "failed", "shop"):
        recorded, account = carried(name), replay.account()
        conversation = renamed(recorded, {recorded.account_id: account}, own_runs=True)
        replay.store_recorded(conversation)
        event: dict[str, Any] = conversation.json_events[1]
        found[name] = Imported(account, conversation.conversation_id, event["trace_id"], event["agent_id"])
    replay.project()
    return found


def ids(cli: Cli, *arguments: str) -> list[str]:
    return [each["id"] for each in cli.json("conversations", *arguments)]


def test_all_accounts_are_listed_and_one_of_them(cli: Cli, imported: dict[str, Imported]) -> None:
    listed = ids(cli, "list")
    assert set(listed) >= {each.conversation for each in imported.values()}
    shop = imported["shop"]
    assert ids(cli, "list", "--account", shop.account) == [shop.conversation]
    assert shop.conversation in cli("conversations", "list", "--account", shop.account).out


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--end", "failed"), {"failed"}),
        (("--tool", "cancel_order"), {"approvals"}),
        (("--since", "2020-01-01"), {"approvals", "failed", "shop"}),
        (("--until", "2020-01-01"), set()),
        (("--tag", "customer=C-77"), set()),
    ],
)
def test_a_list_is_narrowed_down(
    cli: Cli, imported: dict[str, Imported], arguments: tuple[str, ...], names: set[str]
) -> None:
    assert set(ids(cli, "list", *arguments)) == {imported[name].conversation for name in names}


def test_a_conversation_is_found_by_what_was_said_and_by_its_ids(
    cli: Cli, imported: dict[str, Imported]
) -> None:
    wanted = imported["approvals"]
    for text in ("cancel ord-1030", wanted.conversation.upper(), wanted.trace):
        assert ids(cli, "search", text) == [wanted.conversation]
    assert ids(cli, "search", "cancel ord-1030", "--account", imported["shop"].account) == []
    assert ids(cli, "search", "100%_nothing") == [], "signs of a pattern are letters"


def test_pages_follow_each_other(cli: Cli, imported: dict[str, Imported]) -> None:
    assert len(ids(cli, "list", "--limit", "2")) == 2
    assert len(ids(cli, "list", "--limit", "500")) >= len(imported)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--end", "lost"), "end: must be one of running, completed, failed, cancelled"),
        (("--since", "soon"), "since: must be a time in ISO 8601"),
        (("--tag", "customer"), "tag: must be KEY=VALUE"),
    ],
)
def test_a_wrong_filter_is_named(cli: Cli, arguments: tuple[str, ...], reason: str) -> None:
    done: Any = cli("conversations", "list", *arguments)
    assert done.code == 2
    assert reason in done.err
