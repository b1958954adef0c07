"""Checks of replies take turns by account: what one account's schemas cost delays no other's reply."""

import asyncio
import json
from typing import Any

import pytest

from directory.agents import AgentConfig
from orchestrator.output.schema_checks import SchemaChecks
from runtime.cpu_budget import CpuBudget

pytestmark = pytest.mark.requirement("FAIR-TURNS", "OUTPUT-JSON")

BOMB: dict[str, Any] = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(a+)+$"}}}


def _agent(account: str, number: int, schema: dict[str, Any]) -> AgentConfig:
    return AgentConfig(
        name="a",
        model="m",
        agent_id=f"{account}-{number}",
        account_id=account,
        version=1,
        output_type="json",
        output_schema=schema,
    )


async def test_slow_schemas_of_one_account_do_not_delay_another_accounts_reply() -> None:
    checks = SchemaChecks()
    sound = _agent("sound", 0, {"type": "object"})
    try:
        assert await checks.problem(sound, "{}") == ""
        text = '{"code": "%s!"}' % ("a" * 60)
        bombs = [
            asyncio.create_task(checks.problem(_agent("slow", number, BOMB), text)) for number in range(6)
        ]
        await asyncio.sleep(0.1)  # until the account has its share; less would make it only easier
        assert await checks.problem(sound, "[]") != ""
        # Each of them takes a second, two at a time.
        assert sum(bomb.done() for bomb in bombs) <= 2
        for bomb in bombs:
            bomb.cancel()
        await asyncio.wait(bombs)
        assert await checks.problem(sound, "{}") == ""
    finally:
        await checks.aclose()


@pytest.mark.requirement("ECMA-PATTERNS")
@pytest.mark.parametrize("of_a_decision", [True, False])
@pytest.mark.parametrize(
    ("schema", "text", "wrong"),
    [
        ({"properties": {"id": {"pattern": "^ORD-[0-9]{4}$"}}}, {"id": "ORD-1028"}, {"id": "ORD-1028\n"}),
        ({"properties": {"id": {"pattern": r"^\d$"}}}, {"id": "1"}, {"id": "\u0661"}),
        ({"patternProperties": {"^a$": {}}, "additionalProperties": False}, {"a": 1}, {"a\n": 1}),
        ({"patternProperties": {"^a$": {}}, "unevaluatedProperties": False}, {"a": 1}, {"a\n": 1}),
        ({"propertyNames": {"pattern": "^a$"}}, {"a": 1}, {"a\n": 1}),
    ],
)
async def test_a_pattern_is_one_of_ecma_262(
    schema: dict[str, Any], text: dict[str, Any], wrong: dict[str, Any], of_a_decision: bool
) -> None:
    checks = SchemaChecks()
    agent = _agent("a", 0, {"type": "object"} if of_a_decision else schema)
    given = schema if of_a_decision else None
    try:
        assert await checks.problem(agent, json.dumps(text), schema=given) == ""
        problem = await checks.problem(agent, json.dumps(wrong), schema=given)
        assert "does not satisfy" in problem
        if pattern := schema.get("properties", {}).get("id", {}).get("pattern"):
            assert problem.endswith(json.dumps(pattern)), "as its author wrote it"
    finally:
        await checks.aclose()


def test_an_account_waits_once_its_burst_is_spent_and_for_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    budget = CpuBudget(share=0.5, burst=5.0)
    for _ in range(5):
        assert budget.wait_seconds("a") == 0.0
        budget.spend("a", 1.0)
    budget.spend("a", 1.0)
    assert budget.wait_seconds("a") == 2.0
    assert budget.wait_seconds("b") == 0.0
    now = 102.0
    assert budget.wait_seconds("a") == 0.0
    now = 200.0
    budget.spend("a", 5.5)
    assert budget.wait_seconds("a") == 1.0


def test_accounts_that_have_nothing_spent_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    budget = CpuBudget(share=1.0, burst=1.0)
    for now in range(5000):
        budget.spend(str(now), 2.0)
    assert len(budget._spent) <= 1001
    assert budget.wait_seconds("4999") == 1.0
