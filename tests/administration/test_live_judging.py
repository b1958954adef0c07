"""Judging of live runs, as administrators set it up."""

from typing import Any

import msgspec
import pytest

from administration import Admin, admin_agents
from administration.admin_values import Account, NewAgent
from contracts.admin_errors import Invalid
from directory.agent_draft import AgentChanges
from directory.live_judging import LiveJudging

pytestmark = pytest.mark.requirement("EVAL-LIVE")

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
