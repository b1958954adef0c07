"""`agentchat replay show` and `why` on imported histories."""

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from administration import admin_agents
from administration.admin_values import NewAgent
from contracts import ids
from conversations.aggregate.conversation import Conversation
from conversations.event_store.store import ConversationStore
from directory.agent_draft import AgentChanges
from tests.conversations.given import answered, asked, began, compacted, said, started, trace, turn
from tests.conversations.replay_commands import Commands, mine_file
from tests.conversations.test_transfer import LOAD, PRO, SHOP_AGENT


class Shown(NamedTuple):
    """A conversation of two runs, the first of which failed, at version 11."""

    replay: Commands
    account: str
    thread: str


@pytest.fixture(scope="module")
def shown(replay: Commands, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    account = replay.account()
    source = mine_file(tmp_path_factory.mktemp("shown"), "failed")
    replay("import", str(source), "--account", f"{LOAD}={account}")
    return Shown(replay, account, json.loads(source.read_bytes().splitlines()[1])["conversation_id"])


@pytest.mark.requirement("TIME-TRAVEL")
def test_show_prints_a_conversation_as_it_is(shown: Shown) -> None:
    now = shown.replay("show", shown.thread.upper())
    for part in (
        "version 11",
        shown.account,
        "failed  provider_error",
        "run 2  completed",
        "demo-echo",
        "tokens",
    ):
        assert part in now.out, part
    assert "\x85" not in now.out  # an answer's control characters drive no terminal


@pytest.mark.requirement("TIME-TRAVEL")
def test_show_prints_a_conversation_as_it_was(shown: Shown) -> None:
    then = shown.replay("show", shown.thread, "--at", "3")
    assert "version 3 of 11" in then.out
    assert "run 1  running  versions 1 to 3" in then.out
    assert "run 2" not in then.out
    told = shown.replay("show", shown.thread, "--at", "4", "--json").json
    assert told["head"] == 11
    assert told["conversation"]["version"] == 4
    assert [run["state"] for run in told["conversation"]["runs"]] == ["running"]


@pytest.mark.requirement("TIME-TRAVEL")
@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("12", "conversation {thread} is at version 11, not 12 yet"),
        ("0", "conversation {thread} had not begun at 0"),
        ("2020-01-01", "conversation {thread} had not begun at 2020-01-01"),
        ("soon", "--at: 'soon' must be a version, such as 12, or a time in ISO 8601"),
    ],
)
def test_show_refuses_what_is_no_version_of_it(shown: Shown, at: str, said: str) -> None:
    wrong = shown.replay("show", shown.thread, "--at", at)
    assert wrong.code == 2
    assert wrong.out == ""
    assert said.format(thread=shown.thread) in wrong.err


@pytest.mark.requirement("TIME-TRAVEL", "WHY", "COMPACTION")
async def test_show_and_why_tell_which_summary_the_model_was_shown(
    store: ConversationStore, replay: Commands
) -> None:
    first, second, third = (ids.new_id().replace("-", "") for _ in range(3))
    told = (*turn("a", "Hello", "Hi"), asked("b"), started("b"), compacted(7, "b"), *said("So.", "b"))
    told = (*told, *answered("So.", "b"), *turn("c", "And?", "Then."))
    own = {trace("a"): first, trace("b"): second, trace("c"): third}
    thread = Conversation(conversation_id=ids.new_id())
    await store.append(thread, [began(), *(replace(each, trace_id=own[each.trace_id]) for each in told)])
    shown = await asyncio.to_thread(replay, "show", thread.conversation_id)
    assert shown.out.count("They met.") == 1
    assert "summary  of all up to version 7" in shown.out
    for trace_id, summaries in ((first, 0), (second, 1), (third, 1)):
        why = await asyncio.to_thread(replay, "why", trace_id)
        assert why.out.count("They met.") == summaries
    made = (await asyncio.to_thread(replay, "why", third, "--json")).json
    assert made["compacted"]["through_version"] == 7


@pytest.mark.requirement("TIME-TRAVEL")
def test_show_refuses_an_unknown_conversation(replay: Commands) -> None:
    assert replay("show", ids.new_id()).code == 2


class Explained(NamedTuple):
    """The first exchange of an imported conversation, of whose agent there is a newer version since."""

    replay: Commands
    asked: dict[str, Any]
    reply: dict[str, Any]
    started: dict[str, Any]
    replied: dict[str, Any]
    before_projection: Any


@pytest.fixture(scope="module")
def explained(replay: Commands, tmp_path_factory: pytest.TempPathFactory) -> Explained:
    account = replay.account()
    new = NewAgent(account_id=account, name="Shop", model="demo-shop-1", system_prompt="Be brief.")
    agent = replay.administer(lambda admin: admin_agents.create(admin, new)).id
    source = mine_file(tmp_path_factory.mktemp("explained"), "shop")
    names = ["--account", f"{PRO}={account}", "--agent", f"{SHOP_AGENT}={agent}"]
    assert replay("import", str(source), *names, "--json").json["unknown_agents"] == {}
    events = [json.loads(line)["event"] for line in source.read_bytes().splitlines()[1:-1]]

    def first(kind: str) -> dict[str, Any]:
        return next(event for event in events if event["type"] == kind)

    asked, reply = [event for event in events if event["type"] == "message_saved.v1"][:2]
    behind = replay("why", reply["message_id"])
    replay.project()
    replay.administer(lambda admin: admin_agents.change(admin, agent, AgentChanges(system_prompt="Be long.")))
    return Explained(replay, asked, reply, first("run_started.v1"), first("model_replied.v1"), behind)


@pytest.mark.requirement("WHY")
def test_why_refuses_a_message_that_the_read_models_lack(explained: Explained) -> None:
    unknown = explained.before_projection
    assert unknown.code == 2
    assert unknown.out == ""
    assert unknown.err == (
        f"no such message: {explained.reply['message_id']} (the read models lag behind the log: try again)"
    )


@pytest.mark.requirement("WHY")
def test_why_tells_which_agent_version_and_worker_made_a_message(explained: Explained) -> None:
    made = explained.replay("why", explained.reply["message_id"], "--json").json
    started = explained.started
    assert made["trace_id"] == explained.reply["trace_id"]
    assert made["agent"]["version"] == 1
    assert made["agent"]["current"] == 2
    assert made["agent"]["changes"] == [{"field": "system_prompt", "then": "Be brief.", "now": "Be long."}]
    assert made["attempts"] == [{"attempt": 1, "at": started["at"], "worker": started["worker"]}]
    assert explained.replay("why", explained.reply["trace_id"], "--json").json == made


@pytest.mark.requirement("WHY")
def test_why_tells_the_hashes_and_calls_of_a_round(explained: Explained) -> None:
    first = explained.replay("why", explained.reply["message_id"], "--json").json["rounds"][0]
    assert first["prompt_sha256"] == explained.replied["prompt_sha256"]
    assert first["tools_sha256"] == explained.replied["tools_sha256"]
    assert len(first["calls"]) == 2


@pytest.mark.requirement("WHY")
def test_why_prints_lines(explained: Explained) -> None:
    told = explained.replay("why", explained.reply["message_id"]).out
    worker, tools = explained.started["worker"], explained.replied["tools_sha256"]
    for part in (worker, "now at version 2", "Be brief.", "system_prompt", tools):
        assert part in told, part
    assert "written by the user" in explained.replay("why", explained.asked["message_id"]).out


@pytest.mark.requirement("WHY")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "neither the id of a message nor a trace id"),
        ("f" * 32, "no such trace"),
        (ids.new_id(), "no such message"),
    ],
    ids=["no id", "trace", "message"],
)
def test_why_refuses_what_is_not_there(replay: Commands, name: str, said: str) -> None:
    wrong = replay("why", name)
    assert wrong.code == 2
    assert wrong.out == ""
    assert said in wrong.err
