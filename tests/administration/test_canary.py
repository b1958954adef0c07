"""Versions that share an agent's conversations: set, compared, promoted, and refused by name."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from agentchat.administration import Admin, admin_agents, admin_audit, admin_canary, canary_comparison
from agentchat.administration.admin_canary import CanaryShares
from agentchat.administration.admin_values import Account, NewAgent
from agentchat.contracts import events
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import Decider, Usage
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections import feedback_table, runs_table, tools_table
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.directory.agent_config import load_agent
from agentchat.directory.agent_validation import AgentChanges
from agentchat.directory.canary_split import choose_version
from agentchat.runtime.postgres import Pool, acquire_connection
from agentchat.runtime.prices import Price, Prices


@pytest.fixture
async def agent(admin: Admin, account: Account) -> str:
    """With versions 1 and 2, the models `old` and `new`."""
    made = await admin_agents.create(
        admin, NewAgent(account_id=account.id, name="Shop", model="old", provider_key="k")
    )
    await admin_agents.change(admin, made.id, AgentChanges(model="new"))
    return str(made.id)


async def share(admin: Admin, agent: str, **versions: Any) -> None:
    await admin_canary.put(
        admin, agent, CanaryShares(versions={name.removeprefix("v"): each for name, each in versions.items()})
    )


async def test_a_conversation_is_answered_by_the_version_that_its_id_gets(
    admin: Admin, account: Account, agent: str, pool: Pool
) -> None:
    shares = {"1": 50, "2": 50}
    await share(admin, agent, v1=50, v2=50)
    ids = [make_id() for _ in range(40)]
    answered = [await load_agent(pool, account.id, agent, conversation_id=each) for each in ids]
    assert [each and each.version for each in answered] == [choose_version(shares, each) for each in ids]
    assert {each and each.model for each in answered} == {"old", "new"}
    named = await load_agent(pool, account.id, agent, 1, conversation_id=ids[0])
    assert named is not None
    assert named.version == 1, "a run that has begun keeps its version"
    await admin_agents.change(admin, agent, AgentChanges(model="newest"))
    later = [await load_agent(pool, account.id, agent, conversation_id=each) for each in ids]
    assert later == answered, "a new version answers nobody yet"
    await admin_agents.change(admin, agent, AgentChanges(disabled=True))
    assert await load_agent(pool, account.id, agent, conversation_id=ids[0]) is None


@pytest.mark.parametrize(("promoted", "version", "model"), [(2, 2, "new"), (1, 3, "old")], ids=["on", "back"])
async def test_one_command_goes_on_or_back(
    admin: Admin, agent: str, promoted: int, version: int, model: str
) -> None:
    await share(admin, agent, v1=95, v2=5)
    listed = (await admin_agents.list_versions(admin, agent)).items
    assert {each.version: each.share for each in listed} == {1: 95, 2: 5}
    current = await admin_canary.promote(admin, agent, promoted)
    assert (current.version, current.model) == (version, model)
    assert {each.share for each in (await admin_agents.list_versions(admin, agent)).items} == {None}
    assert (await admin_canary.get(admin, agent)).versions == ()
    changes = [
        (row.before, row.after)
        for row in (await admin_audit.page(admin, subject=agent)).items
        if row.action == "canary"
    ]
    shares = {"canary": {"1": 95, "2": 5}}
    assert changes == [(shares, {"canary": None}), ({"canary": None}, shares)]


@pytest.mark.parametrize(
    ("versions", "field"),
    [
        ({"9": 1}, "versions.9"),
        ({"-1": 1}, "versions.-1"),
        ({"one": 1}, "versions.one"),
        ({"01": 1}, "versions.01"),
        ({"1": 0}, "versions.1"),
        ({"1": -5}, "versions.1"),
        ({"1": 2.5}, "versions.1"),
        ({"1": True}, "versions.1"),
        ({"1": "5"}, "versions.1"),
        ({"1": 10_001}, "versions.1"),
        ({}, "versions"),
    ],
)
async def test_invalid_shares_are_refused_by_name(
    admin: Admin, agent: str, versions: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await admin_canary.put(admin, agent, CanaryShares(versions=versions))
    assert refused.value.field == field
    with pytest.raises(NotFound):
        await admin_canary.promote(admin, agent, 9)
    with pytest.raises(NotFound):
        await admin_canary.get(admin, make_id())
    with pytest.raises(Invalid):
        await admin_canary.get(admin, agent, since="yesterday")


class _Answered(NamedTuple):
    """A conversation of runs by a version, with one tool call each; `failed` are the last ones of them.

    `fallback` is the model that replied, if it is not the version's.
    """

    version: int
    runs: int = 1
    failed: int = 0
    score: float | None = None
    tokens: int = 10
    tool: str = "find"
    tool_failed: bool = False
    day: int = 2
    fallback: str | None = None


def _build_events(agent: str, account_id: str, of: _Answered) -> Iterator[events.Event]:
    for number in range(of.runs):
        fields: dict[str, Any] = {
            "trace_id": make_id().replace("-", ""),
            "at": f"2026-11-{of.day:02}T10:00:00.000000Z",
        }
        asked = events.MessageSaved(**fields, message_id=make_id(), role="user", agent_id=agent, content="Hi")
        usage = Usage(input_tokens=of.tokens)
        if number == 0:
            yield events.ConversationStarted(**fields, account_id=account_id)
        yield asked
        model = {1: "old", 2: "new"}[of.version]
        yield events.RunStarted(**fields, attempt=1, agent_version=of.version, model=model, form="json")
        call: dict[str, Any] = fields | {"call_id": make_id(), "round": 1}
        said: dict[str, Any] = {"round": 1, "blocks": (), "stop_reason": "tool_use", "usage": usage}
        yield events.ModelReplied(**fields, **said, model=of.fallback or model)
        yield events.ToolCalled(**call, name=of.tool, input={})
        yield events.ToolReturned(**call, output="", is_error=of.tool_failed, ms=5)
        if number >= of.runs - of.failed:
            yield events.RunFailed(**fields, code="provider_error", message="", usage=usage)
            continue
        reply = replace(asked, message_id=make_id(), role="assistant")
        yield reply
        yield events.RunCompleted(**fields, usage=usage, rounds=1)
        if of.score is not None:
            by = Decider(kind="account", id="key")
            yield events.FeedbackGiven(**fields, message_id=reply.message_id, score=of.score, by=by)


@pytest.fixture
def store_chats(
    account: Account, agent: str, pool: Pool, migrated_database_url: str
) -> Callable[[Sequence[_Answered]], Awaitable[None]]:
    """Stores these conversations, and brings the read models up to date."""

    async def store_all(conversations: Sequence[_Answered]) -> None:
        async with open_store(migrated_database_url) as store:
            for each in conversations:
                conversation = Conversation(conversation_id=make_id())
                await store.append(conversation, list(_build_events(agent, account.id, each)))
        price = Price(input=100_000, output=1)
        priced = runs_table.build_projection(Prices(models={"old": price, "new": price}))
        projections = [priced, feedback_table.PROJECTION, tools_table.PROJECTION]
        follower = Follower(pool, Log(pool), projections)
        while await follower.step():
            pass

    return store_all


async def test_versions_are_shown_with_what_their_runs_came_to(
    admin: Admin, agent: str, store_chats: Callable[[Sequence[_Answered]], Awaitable[None]]
) -> None:
    await share(admin, agent, v1=95, v2=5)
    await store_chats(
        [_Answered(1, score=1.0), _Answered(1, failed=1), _Answered(2, score=-1.0), _Answered(2)]
    )
    found = await admin_canary.get(admin, agent, since="2026-11-01")
    one, two = found.versions
    assert (one.version, one.share, one.runs, one.completed, one.failed) == (1, 95, 2, 1, 1)
    assert (one.completed_share, one.tokens, one.rated, one.rating) == (0.5, 10, 1, 1)
    assert (two.version, two.share, two.runs, two.completed_share) == (2, 5, 2, 1)
    assert (two.seconds, two.tokens, two.rated, two.rating) == (0, 10, 1, -1)
    assert (found.against, found.version, found.decision, found.promote) == (1, 2, "undecided", None)
    assert found.reasons == (
        "completed is known of 2 and 2 conversations, and 30 of each version are needed",
    )
    later = await admin_canary.get(admin, agent, since="2999-01-01")
    assert [(each.version, each.share, each.runs, each.rating) for each in later.versions] == [
        (1, 95, 0, None),
        (2, 5, 0, None),
    ]
    assert (later.decision, later.comparisons[0].state) == ("undecided", "too_few")


async def test_versions_are_compared_while_both_answered(
    admin: Admin, agent: str, pool: Pool, store_chats: Callable[[Sequence[_Answered]], Awaitable[None]]
) -> None:
    """The later version fails in half of the conversations that call `pay`, costs twice, and is disliked."""
    await share(admin, agent, v1=95, v2=5)
    await store_chats(
        [
            *[_Answered(1, runs=4, failed=4, day=1)] * 9,  # before the later version answered
            *[_Answered(1, runs=1 + number % 3, score=0.5) for number in range(40)],
            *[_Answered(1, tool="pay", score=0.5)] * 40,
            *[_Answered(2, runs=1 + number % 3, tokens=20, score=-0.5) for number in range(40)],
            *[_Answered(2, runs=2, failed=1 + number % 2, tool="pay", tokens=20) for number in range(40)],
            *[_Answered(2, tool_failed=True, tokens=20)] * 20,
            *[_Answered(2, tokens=900, fallback="other")] * 9,  # no figures of the later version's model
        ]
    )
    found = await admin_canary.get(admin, agent, since="2026-11-01")
    assert (found.against, found.version, found.decision, found.promote) == (1, 2, "worse", 1)
    whole = {each.figure: each for each in found.comparisons}
    completed = whole["completed"]
    assert (completed.before_count, completed.before) == (80, 1.0), "what was before counts for nobody"
    assert (completed.after_count, completed.after) == (100, 0.7), "a conversation counts once"
    assert completed.low is not None
    assert completed.high is not None
    assert completed.low < completed.difference < completed.high
    assert {name: each.state for name, each in whole.items()} == {
        "completed": "worse",
        "rating": "worse",
        "tool_errors": "worse",
        "seconds": "same",
        "tokens": "worse",
        "cost": "worse",
    }
    assert (whole["rating"].after_count, whole["rating"].difference) == (40, -1.0)
    assert (whole["cost"].before, whole["cost"].after) == (1.0, 2.0)
    back = await admin_canary.get(admin, agent, since="2026-11-01", version=1, against=2)
    assert (back.against, back.version, back.decision, back.promote) == (2, 1, "better", 1)
    async with acquire_connection(pool) as conn:
        await conn.execute("UPDATE runs SET cost = NULL WHERE agent_id = %s AND model = 'new'", [agent])
    without = await admin_canary.get(admin, agent, since="2026-11-01")
    assert "cost" not in {each.figure for each in without.comparisons}


async def test_a_sample_of_many_runs_is_compared(
    admin: Admin,
    agent: str,
    store_chats: Callable[[Sequence[_Answered]], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await share(admin, agent, v1=95, v2=5)
    await store_chats([_Answered(version) for version in (1, 2) for _ in range(40)])
    monkeypatch.setattr(canary_comparison, "MOST_RUNS", 20)
    sampled = (await admin_canary.get(admin, agent, since="2026-11-01")).comparisons[0]
    assert 0 < sampled.before_count < 40


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"version": 9}, "version"),
        ({"against": 9}, "against"),
        ({"version": 1, "against": 1}, "version"),
    ],
)
async def test_an_invalid_comparison_is_refused_by_name(
    admin: Admin, agent: str, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await admin_canary.get(admin, agent, **given)
    assert refused.value.field == field


async def test_without_shares_it_is_to_be_said_which_versions_are_compared(admin: Admin, agent: str) -> None:
    found = await admin_canary.get(admin, agent)
    assert (found.against, found.version, found.decision, found.promote) == (None, None, "undecided", None)
    assert "set version and against" in found.reasons[0]
    named = await admin_canary.get(admin, agent, version=2, against=1)
    assert (named.against, named.version, named.decision) == (1, 2, "undecided")
