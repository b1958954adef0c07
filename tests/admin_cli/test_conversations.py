"""`agentchat admin GET /conversations`: an operator finds a conversation of any account."""

from typing import Any, NamedTuple

import pytest

from tests.admin_cli.conftest import Cli
from tests.conversations.recorded import encode_carried, rename_ids
from tests.conversations.replay_commands import Commands


class Imported(NamedTuple):
    """A recorded history of an account of its own."""

    account: str
    conversation: str
    trace: str
    agent: str


@pytest.fixture(scope="module")
def imports(migrated_database_url: str) -> dict[str, Imported]:
    replay = Commands(migrated_database_url)
    found = {}
    for name in ("approvals", "failed", "shop"):
        recorded, account = encode_carried(name), replay.account()
        conversation = rename_ids(recorded, {recorded.account_id: account}, own_runs=True)
        replay.store_recorded(conversation)
        event: dict[str, Any] = conversation.json_events[1]
        found[name] = Imported(account, conversation.conversation_id, event["trace_id"], event["agent_id"])
    replay.project()
    return found


def ids(cli: Cli, path: str, *arguments: str) -> list[str]:
    return [each["id"] for each in cli.json("GET", path, *arguments)["data"]]


def test_all_accounts_are_listed_and_one_of_them(cli: Cli, imports: dict[str, Imported]) -> None:
    listed = ids(cli, "/conversations")
    assert set(listed) >= {each.conversation for each in imports.values()}
    shop = imports["shop"]
    assert ids(cli, "/conversations", f"account_id={shop.account}") == [shop.conversation]
    assert shop.conversation in cli("GET", "/conversations", f"account_id={shop.account}").out
    (read,) = cli.json("GET", "/audit", "kind=conversations", "limit=1")["data"]
    assert (read["action"], read["subject"]) == ("read", "/conversations")
    assert read["after"] == {"conversations": [shop.conversation]}


@pytest.mark.parametrize(
    ("argument", "names"),
    [
        ("end=failed", {"failed"}),
        ("tool=cancel_order", {"approvals"}),
        ("since=2020-01-01", {"approvals", "failed", "shop"}),
        ("until=2020-01-01", set()),
        ("tag=customer=C-77", set()),
    ],
)
def test_a_list_is_narrowed_down(
    cli: Cli, imports: dict[str, Imported], argument: str, names: set[str]
) -> None:
    assert set(ids(cli, "/conversations", argument)) == {imports[name].conversation for name in names}


def test_a_conversation_is_found_by_what_was_said_and_by_its_ids(
    cli: Cli, imports: dict[str, Imported]
) -> None:
    wanted = imports["approvals"]
    for text in ("cancel ord-1030", wanted.conversation.upper(), wanted.trace):
        assert ids(cli, "/conversations/search", f"query={text}") == [wanted.conversation]
    assert (
        ids(cli, "/conversations/search", "query=cancel ord-1030", f"account_id={imports['shop'].account}")
        == []
    )
    assert ids(cli, "/conversations/search", "query=100%_nothing") == [], "signs of a pattern are letters"
    page = cli.json("GET", "/conversations/search", "query=cancelling ord-1030 -nothing")
    assert (page["total"], page["is_total_exact"]) == (len(page["data"]), True)
    assert page["data"][0]["hit"]["origin"] in ("user", "assistant")


def test_pages_follow_each_other(cli: Cli, imports: dict[str, Imported]) -> None:
    page = cli.json("GET", "/conversations", "limit=2")
    assert page["total"] == len(ids(cli, "/conversations", "limit=100"))
    runs = cli.json("GET", "/runs", "limit=1")
    assert runs["total"] == len(cli.json("GET", "/runs", "limit=100")["data"])
    assert len(page["data"]) == 2
    assert ids(cli, "/conversations", f"cursor={page['next_cursor']}")
    assert f"cursor={page['next_cursor']}" in cli("GET", "/conversations", "limit=2").err


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("end=lost", "end: must be one of running, completed, failed, cancelled"),
        ("since=soon", "since: must be a time in ISO 8601"),
        ("tag=customer", "tag: must be KEY=VALUE"),
        ("query=-refund", "query: has no word to look for"),
        ("query=label:late", "query: has label:, which is not one of from:, user: and metadata:"),
    ],
)
def test_a_wrong_filter_is_named(cli: Cli, argument: str, reason: str) -> None:
    done: Any = cli("GET", "/conversations", argument)
    assert done.code == 2
    assert reason in done.err
