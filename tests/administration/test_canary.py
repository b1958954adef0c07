"""Versions that share an agent's conversations: set, compared, promoted, and refused by name."""

from typing import Any

import pytest
from msgspec.structs import replace

from administration import Admin, admin_agents, admin_audit, admin_canary
from administration.admin_canary import CanaryShares
from administration.admin_values import Account, NewAgent
from contracts import events
from contracts.admin_errors import Invalid, NotFound
from contracts.ids import new_id
from contracts.values import Decider, Usage
from conversations.aggregate.conversation import Conversation
from conversations.database import server_now
from conversations.event_store.log import Log
from conversations.event_store.store import open_store
from conversations.projections import feedback_table, runs_table
from conversations.projections.follower import Follower
from directory.agent_draft import AgentChanges
from directory.agents import load_agent
from directory.canary import version_for
from runtime.postgres import Pool

pytestmark = pytest.mark.requirement("AGENT-CANARY")


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
    ids = [new_id() for _ in range(40)]
    answered = [await load_agent(pool, account.id, agent, conversation_id=each) for each in ids]
    assert [each and each.version for each in answered] == [version_for(shares, each) for each in ids]
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
    listed = (await admin_agents.versions(admin, agent)).items
    assert {each.version: each.share for each in listed} == {1: 95, 2: 5}
    current = await admin_canary.promote(admin, agent, promoted)
    assert (current.version, current.model) == (version, model)
    assert {each.share for each in (await admin_agents.versions(admin, agent)).items} == {None}
    assert await admin_canary.get(admin, agent) == ()
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
async def test_what_can_be_no_shares_is_refused_by_name(
    admin: Admin, agent: str, versions: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await admin_canary.put(admin, agent, CanaryShares(versions=versions))
    assert refused.value.field == field
    with pytest.raises(NotFound):
        await admin_canary.promote(admin, agent, 9)
    with pytest.raises(NotFound):
        await admin_canary.get(admin, new_id())
    with pytest.raises(Invalid):
        await admin_canary.get(admin, agent, since="yesterday")


async def test_versions_are_compared_by_what_their_runs_came_to(
    admin: Admin, account: Account, agent: str, pool: Pool, migrated_database_url: str
) -> None:
    await share(admin, agent, v1=95, v2=5)
    at = await server_now(pool)
    async with open_store(migrated_database_url) as store:
        for version, failed, score in ((1, False, 1.0), (1, True, None), (2, False, -1.0), (2, False, None)):
            trace_id = new_id().replace("-", "")
            fields: dict[str, Any] = {"trace_id": trace_id, "at": at}
            asked = events.MessageSaved(
                **fields, message_id=new_id(), role="user", agent_id=agent, content="Hi"
            )
            run: list[events.Event] = [
                events.ConversationStarted(**fields, account_id=account.id),
                asked,
                events.RunStarted(**fields, attempt=1, agent_version=version, model="m", form="json"),
            ]
            if failed:
                run.append(events.RunFailed(**fields, code="provider_error", message="", usage=Usage()))
            else:
                reply = replace(asked, message_id=new_id(), role="assistant")
                run += [reply, events.RunCompleted(**fields, usage=Usage(input_tokens=10), rounds=1)]
            if score is not None:
                by = Decider(kind="account", id="key")
                run.append(events.FeedbackGiven(**fields, message_id=reply.message_id, score=score, by=by))
            await store.append(Conversation(conversation_id=new_id()), run)
    follower = Follower(pool, Log(pool), [runs_table.PROJECTION, feedback_table.PROJECTION])
    while await follower.step():
        pass
    one, two = await admin_canary.get(admin, agent)
    assert (one.version, one.share, one.runs, one.completed, one.failed) == (1, 95, 2, 1, 1)
    assert (one.completed_share, one.tokens, one.rated, one.rating) == (0.5, 5, 1, 1)
    assert (two.version, two.share, two.runs, two.completed_share) == (2, 5, 2, 1)
    assert (two.seconds, two.tokens, two.rated, two.rating) == (0, 10, 1, -1)
    later = await admin_canary.get(admin, agent, since="2999-01-01")
    assert [(each.version, each.share, each.runs, each.rating) for each in later] == [
        (1, 95, 0, None),
        (2, 5, 0, None),
    ]
