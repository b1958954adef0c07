"""Judging of live runs, as administrators set it up."""

from typing import Any

import msgspec
import pytest

from administration import Admin, admin_agents, admin_scores
from administration.admin_values import Account, NewAgent
from contracts.admin_errors import Invalid, NotFound
from contracts.ids import new_id
from conversations.judged.judged_runs import StoredScore
from conversations.judged.run_scores import changes
from directory.agent_draft import AgentChanges
from directory.live_judging import LiveJudging
from tests.conversations.scored import score

_RUBRIC = {"name": "rubric", "rubric": "It is polite."}


async def test_an_agent_has_it_in_its_versions_and_keeps_the_old_form_without_it(
    admin: Admin, account: Account
) -> None:
    agent = await admin_agents.create(admin, NewAgent(account_id=account.id, name="Shop", model="m"))
    async with admin.connection() as conn:
        (stored,) = await (await conn.execute("SELECT config::text FROM agent_versions")).fetchone() or ("",)
    assert agent.judging is None
    assert "judging" not in msgspec.json.decode(stored)  # which a service of 0.9.0 would refuse

    judging = LiveJudging(share=0.1, evaluators=({"name": "contains", "text": "Bye"},))
    changed = await admin_agents.change(admin, agent.id, AgentChanges(judging=judging))
    assert (changed.version, changed.judging) == (2, judging)

    refusals: dict[str, Any] = {
        "judging.evaluators[0]": LiveJudging(share=0.1, evaluators=({"name": "facts"},)),
        "judging.judge.provider": {
            "share": 1,
            "evaluators": [_RUBRIC],
            "tokens_per_day": 1,
            "judge": {"provider": "x"},
        },
        "judging.share": {"share": 2, "evaluators": [_RUBRIC]},
    }
    for field, wrong in refusals.items():
        with pytest.raises(Invalid) as refused:
            await admin_agents.change(admin, agent.id, AgentChanges(judging=wrong))
        assert refused.value.field == field
    assert (await admin_agents.get(admin, agent.id)).version == 2


async def test_scores_are_read_by_day_version_and_evaluator(admin: Admin, account: Account) -> None:
    agent = (await admin_agents.create(admin, NewAgent(account_id=account.id, name="Shop", model="m"))).id
    good = StoredScore(evaluator="polite", value=1, passed=True)
    bad = StoredScore(evaluator="polite", value=0.5, passed=False)
    none = StoredScore(evaluator="polite", unjudged="refused", reason="529")
    for number, (stored, version) in enumerate([(good, 1), (bad, 1), (none, 1), (good, 2)]):
        await score(admin.pool, f"{number:032x}", stored, agent_id=agent, version=version)
    assert [
        (each.version, each.evaluator, each.judged, each.passed, each.unjudged, each.mean)
        for each in await admin_scores.by_day(admin, agent)
    ] == [(2, "polite", 1, 1, 0, 1.0), (1, "polite", 2, 1, 1, 0.75)]
    with pytest.raises(NotFound):
        await admin_scores.by_day(admin, new_id())

    async with admin.connection() as conn:
        (found,) = [each for each in await changes(conn) if each.agent_id == agent]
        assert (found.recent.count, found.before.count, found.drop) == (3, 0, 0.0)
        await conn.execute(
            "UPDATE run_scores SET judged_at = judged_at - interval '2 days' WHERE value = 0.5"
        )
        (found,) = [each for each in await changes(conn) if each.agent_id == agent]
        assert (found.recent.mean, found.before.count, found.before.mean) == (1.0, 1, 0.5)
