"""`agentchat replay show`, `why` and `trace` on imported histories."""

import asyncio
import os
import pty
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from agentchat.administration import admin_agents
from agentchat.administration.admin_values import NewAgent
from agentchat.contracts import ids
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.directory.agent_validation import AgentChanges
from tests.conversations.given import (
    begin,
    build_answer,
    build_compacted,
    build_conversation_started,
    build_delta,
    trace,
    turn,
)
from tests.conversations.recorded import LOAD, PRO, SHOP_AGENT, encode_carried, rename_ids
from tests.conversations.replay_commands import Commands
from tests.gateway import stored


class Shown(NamedTuple):
    """A conversation of two runs, the first of which failed, at version 11."""

    replay: Commands
    account: str
    thread: str


@pytest.fixture(scope="module")
def failed_chat(replay: Commands) -> Shown:
    account = replay.account()
    conversation = rename_ids(encode_carried("failed"), {LOAD: account}, own_runs=True)
    replay.store_recorded(conversation)
    return Shown(replay, account, conversation.conversation_id)


def test_show_prints_a_conversation_as_it_is(failed_chat: Shown) -> None:
    now = failed_chat.replay("show", failed_chat.thread.upper())
    for part in (
        "version 11",
        failed_chat.account,
        "failed  provider_error",
        "run 2  completed",
        "demo-echo",
        "tokens",
    ):
        assert part in now.out, part
    assert "\x85" not in now.out  # an answer's control characters drive no terminal


def test_show_prints_a_conversation_as_it_was(failed_chat: Shown) -> None:
    then = failed_chat.replay("show", failed_chat.thread, "--at", "3")
    assert "version 3 of 11" in then.out
    assert "run 1  running  versions 1 to 3" in then.out
    assert "run 2" not in then.out
    told = failed_chat.replay("show", failed_chat.thread, "--at", "4", "--json").json
    assert told["head"] == 11
    assert told["conversation"]["version"] == 4
    assert [run["state"] for run in told["conversation"]["runs"]] == ["running"]


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("12", "conversation {thread} is at version 11, not 12 yet"),
        ("0", "conversation {thread} had not started at 0"),
        ("2020-01-01", "conversation {thread} had not started at 2020-01-01"),
        ("soon", "--at: 'soon' must be a version, such as 12, or a time in ISO 8601"),
    ],
)
def test_show_refuses_what_is_no_version_of_it(failed_chat: Shown, at: str, said: str) -> None:
    wrong = failed_chat.replay("show", failed_chat.thread, "--at", at)
    assert (wrong.code, wrong.out) == (2, "")
    assert said.format(thread=failed_chat.thread) in wrong.err


async def test_show_and_why_tell_which_summary_the_model_was_shown(
    store: ConversationStore, replay: Commands
) -> None:
    first, second, third = (ids.make_id().replace("-", "") for _ in range(3))
    told = (*turn("a", "Hello", "Hi"), *begin("b"), build_compacted(7, "b"), *build_delta("So.", "b"))
    told = (*told, *build_answer("So.", "b"), *turn("c", "And?", "Then."))
    own = {trace("a"): first, trace("b"): second, trace("c"): third}
    thread = Conversation(conversation_id=ids.make_id())
    await store.append(
        thread, [build_conversation_started(), *(replace(each, trace_id=own[each.trace_id]) for each in told)]
    )
    shown = await asyncio.to_thread(replay, "show", thread.conversation_id)
    assert shown.out.count("They met.") == 1
    assert "summary  of events up to version 7" in shown.out
    for trace_id, summaries in ((first, 0), (second, 1), (third, 1)):
        why = await asyncio.to_thread(replay, "why", trace_id)
        assert why.out.count("They met.") == summaries
    made = (await asyncio.to_thread(replay, "why", third, "--json")).json
    assert made["compacted"]["through_version"] == 7


class Explained(NamedTuple):
    """The first exchange of an imported conversation, of whose agent there is a newer version since."""

    replay: Commands
    asked: dict[str, Any]
    reply: dict[str, Any]
    started: dict[str, Any]
    replied: dict[str, Any]
    before_projection: Any


@pytest.fixture(scope="module")
def shop_reply(replay: Commands) -> Explained:
    account = replay.account()
    new = NewAgent(account_id=account, name="Shop", model="demo-shop-1", system_prompt="Be brief.")
    agent = replay.administer(lambda admin: admin_agents.create(admin, new)).id
    conversation = rename_ids(encode_carried("shop"), {PRO: account, SHOP_AGENT: agent}, own_runs=True)
    replay.store_recorded(conversation)
    events: list[dict[str, Any]] = conversation.json_events

    def find_first(kind: str) -> dict[str, Any]:
        return next(event for event in events if event["type"] == kind)

    asked, reply = [event for event in events if event["type"] == "message_saved.v1"][:2]
    behind = replay("why", reply["message_id"])
    replay.project()
    replay.administer(lambda admin: admin_agents.change(admin, agent, AgentChanges(system_prompt="Be long.")))
    return Explained(
        replay, asked, reply, find_first("run_started.v1"), find_first("model_replied.v1"), behind
    )


def test_why_refuses_a_message_that_the_read_models_lack(shop_reply: Explained) -> None:
    unknown = shop_reply.before_projection
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err == (
        f"no such message: {shop_reply.reply['message_id']} (the read models lag behind the log: try again)"
    )


def test_why_tells_which_agent_version_and_worker_made_a_message(shop_reply: Explained) -> None:
    made = shop_reply.replay("why", shop_reply.reply["message_id"], "--json").json
    started = shop_reply.started
    assert made["trace_id"] == shop_reply.reply["trace_id"]
    assert (made["agent"]["version"], made["agent"]["current"]) == (1, 2)
    assert made["agent"]["changes"] == [{"field": "system_prompt", "then": "Be brief.", "now": "Be long."}]
    assert made["attempts"] == [{"attempt": 1, "at": started["at"], "worker": started["worker"]}]
    assert shop_reply.replay("why", shop_reply.reply["trace_id"], "--json").json == made


@pytest.mark.parametrize(
    ("name", "said"),
    [("x", "not a message id or trace id"), ("f" * 32, "no such trace"), (ids.make_id(), "no such message")],
    ids=["no id", "trace", "message"],
)
def test_why_refuses_what_is_not_there(replay: Commands, name: str, said: str) -> None:
    wrong = replay("why", name)
    assert (wrong.code, wrong.out) == (2, "")
    assert said in wrong.err


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


def import_history(name: str, replay: Commands) -> Imported:
    recorded = encode_carried(name)
    accounts = {each: replay.account() for each in recorded.find_values("account_id")}
    conversation = rename_ids(recorded, accounts, own_runs=True)
    replay.store_recorded(conversation)
    events: list[dict[str, Any]] = conversation.json_events
    return Imported(
        replay,
        conversation.conversation_id,
        [
            each
            for each in events
            if each["type"].startswith(("approval_requested.", "elicitation_requested."))
        ],
        [each for each in events if each["type"].startswith("approval_decided.")],
    )


@pytest.fixture(scope="module")
def approvals(replay: Commands) -> Imported:
    return import_history("approvals", replay)


@pytest.fixture(scope="module", params=["elicited", "elicitation"])
def elicited(replay: Commands, request: pytest.FixtureRequest) -> Imported:
    return import_history(request.param, replay)


def test_who_decided_when_and_what_was_changed_is_shown(approvals: Imported) -> None:
    (approved, denied), (first, _) = approvals.decided, approvals.requested
    for text in (approvals.show(), approvals.why(0) + approvals.why(1)):
        assert f"approval requested  {first['at']}  approval {first['approval_id']}" in text
        assert f"approved by account {approved['by']['id']}  {approved['at']}\n" in text
        assert 'run with order_id="ORD-1030", reason="by phone"' in text
        assert f"denied by account {denied['by']['id']}  {denied['at']}: Too late.\n" in text


def test_what_a_tool_asked_and_was_answered_is_shown(elicited: Imported) -> None:
    text = elicited.show()
    answered, declined = elicited.decided
    assert "the tool asks: Change the shipping address: country?" in text
    assert f"answered by account {answered['by']['id']}  {answered['at']}" in text
    assert 'answered country="AT"' in text
    assert f"declined by account {declined['by']['id']}  {declined['at']}" in text


TEXT = "\x1b[2J \x9b31m \x85 \u202e \x7f ü"


class Account:
    account_id = ids.make_id()
    agent = ids.make_id()


async def list_written(trace_id: str, environ: Mapping[str, str], *, on_terminal: bool) -> bytes:
    """What the command writes."""
    ours, its = pty.openpty() if on_terminal else os.pipe()
    command = (sys.executable, "-m", "agentchat.ops.main", "replay", "trace", trace_id, "--as", "json")
    process = await asyncio.create_subprocess_exec(*command, stdout=its, env=environ)
    os.close(its)
    async with asyncio.timeout(30):
        assert await process.wait() == 0
    written = b""
    try:
        while piece := os.read(ours, 4096):
            written += piece
    except OSError:  # so a terminal ends
        pass
    finally:
        os.close(ours)
    return written.replace(b"\r\n", b"\n")


@pytest.mark.slow
async def test_a_trace_is_shown_as_it_was_and_drives_no_terminal(
    store: ConversationStore, migrated_database_url: str
) -> None:
    asked = stored.request(Account())
    await stored.write(store, asked, *stored.has_ended(asked, TEXT, ids.make_id()))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    environ = {**kept, "AGENTCHAT_DATABASE_URL": migrated_database_url}
    filed, seen = await asyncio.gather(
        *(list_written(asked.trace_id, environ, on_terminal=on_terminal) for on_terminal in (False, True))
    )
    assert "\x9b31m \x85 \u202e \x7f ü" in filed.decode()
    assert "\\u009b31m \\u0085 \\u202e \\u007f ü" in seen.decode()
