"""Checks of replies take turns by account: what one account's schemas cost delays no other's reply."""

import asyncio
import contextlib
import json
import resource
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.output.json_validation import CPU_SECONDS, MEMORY_BYTES
from agentchat.orchestrator.output.validation_processes import SchemaChecks
from agentchat.runtime.cpu_budget import CpuBudget

BOMB: dict[str, Any] = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(a+)+$"}}}


@pytest.fixture
async def checks() -> AsyncIterator[SchemaChecks]:
    async with contextlib.aclosing(SchemaChecks()) as opened:
        yield opened


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


async def test_slow_schema_delays_only_its_own_account(checks: SchemaChecks) -> None:
    sound = _agent("sound", 0, {"type": "object"})
    assert await checks.find_problem(sound, "{}") == ""
    text = '{"code": "%s!"}' % ("a" * 60)
    bombs = [
        asyncio.create_task(checks.find_problem(_agent("slow", number, BOMB), text)) for number in range(6)
    ]
    await asyncio.sleep(0.1)  # until the account has its share; less would make it only easier
    assert await checks.find_problem(sound, "[]") != ""
    # Each of them takes a second, two at a time.
    assert sum(bomb.done() for bomb in bombs) <= 2
    for bomb in bombs:
        bomb.cancel()
    await asyncio.wait(bombs)
    assert await checks.find_problem(sound, "{}") == ""


def _build_doubling_schema(levels: int) -> dict[str, Any]:
    """References of which each leads twice to the next: 2 ** levels applications to one value."""
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"properties": {"code": {"$ref": "#/$defs/d0"}}, "$defs": definitions | {f"d{levels}": {}}}


def _build_forking_schema(depth: int) -> tuple[dict[str, Any], Any]:
    """A recursive schema that checks each level twice, and a value that is so deep."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    twice = [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]
    return {"allOf": twice}, value


_FORKING_SCHEMA, _FORKING_VALUE = _build_forking_schema(40)
HOSTILE: list[tuple[str, dict[str, Any], Any]] = [
    ("nested repetition", BOMB, {"code": "a" * 60 + "!"}),
    ("references that double", _build_doubling_schema(60), {"code": 1}),
    ("a reference to itself", {"allOf": [{"$ref": "#"}]}, {}),
    ("a recursion that forks", _FORKING_SCHEMA, _FORKING_VALUE),
    (
        "a large enum for many values",
        {"items": {"enum": [{"a": n} for n in range(4000)]}},
        [{"a": -1}] * 10_000,
    ),
    ("unique items without an order", {"uniqueItems": True}, [{"a": number} for number in range(20_000)]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
async def test_a_hostile_schema_takes_bounded_time_and_memory(
    checks: SchemaChecks, schema: dict[str, Any], value: Any
) -> None:
    before = _measure_children()
    async with asyncio.timeout(20):  # of a busy machine; what counts is CPU time
        await checks.find_problem(_agent("hostile", 0, schema), json.dumps(value))
        assert await checks.find_problem(_agent("hostile", 1, {"type": "object"}), "{}") == ""
    await checks.aclose()  # a process is counted at its end
    after = _measure_children()
    assert after.ru_utime - before.ru_utime < 2 * CPU_SECONDS + 2.0, (
        "a check's, and the starts of two processes"
    )
    assert after.ru_maxrss * 1024 < MEMORY_BYTES


def _measure_children() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


async def test_too_slow_schema_is_reported_and_its_process_replaced(checks: SchemaChecks) -> None:
    problem = await checks.find_problem(_agent("a", 0, BOMB), json.dumps({"code": "a" * 60 + "!"}))
    assert problem == "it could not be checked in time, as the schema takes too long"
    assert await checks.find_problem(_agent("a", 0, BOMB), json.dumps({"code": "aa"})) == ""


@pytest.mark.parametrize("reference", ["http://{address}/schema.json", "file:///etc/hostname"])
async def test_a_reference_to_elsewhere_is_not_fetched(checks: SchemaChecks, reference: str) -> None:
    arrived = asyncio.Event()
    server = await asyncio.start_server(lambda *_: arrived.set(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    schema = {"$ref": reference.format(address=f"{host}:{port}")}
    try:
        assert await checks.find_problem(_agent("a", 0, schema), "{}") == "it could not be checked"
        assert not arrived.is_set()
    finally:
        server.close()
        await server.wait_closed()


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
    checks: SchemaChecks,
    schema: dict[str, Any],
    text: dict[str, Any],
    wrong: dict[str, Any],
) -> None:
    agent = _agent("a", 0, schema)
    assert await checks.find_problem(agent, json.dumps(text)) == ""
    problem = await checks.find_problem(agent, json.dumps(wrong))
    assert "does not satisfy" in problem
    if pattern := schema.get("properties", {}).get("id", {}).get("pattern"):
        assert problem.endswith(json.dumps(pattern)), "as its author wrote it"


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


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ({}, "id", "is required"),
        ({"id": 1}, "id", "must be text"),
        ({"id": "a", "rows": [{"n": 1}, {"n": "x"}]}, "rows[1].n", "must be a whole number"),
        ({"id": "a", "rows": [{}]}, "rows[0].n", "is required"),
        ([], "", "must be an object"),
        ({"id": "a"}, "", ""),
    ],
)
async def test_the_place_of_what_is_wrong_is_named(
    checks: SchemaChecks, text: Any, field: str, reason: str
) -> None:
    row = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    properties = {"id": {"type": "string"}, "rows": {"items": row}}
    schema = {"type": "object", "properties": properties, "required": ["id"]}
    found = await checks.check(_agent("a", 0, {}), json.dumps(text), schema)
    assert (found.field, found.reason) == (field, reason)


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (
            {"pattern": "^ORD-[0-9]{4}$", "examples": ["ORD-1028"]},
            "x",
            "has the wrong format: such as ORD-1028",
        ),
        (
            {"pattern": "^A+$", "description": "Id of the order."},
            "x",
            "has the wrong format: Id of the order.",
        ),
        ({"pattern": "^A+$"}, "x", "has the wrong format"),
        ({"format": "email"}, "x", ""),
        ({"type": ["integer", "null"]}, "x", "must be a whole number or null"),
        ({"enum": ["red", "blue"]}, "x", "must be one of red, blue"),
        ({"minimum": 3}, 1, "must be at least 3"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3"),
        ({"multipleOf": 5}, 7, "must be a multiple of 5"),
        ({"minLength": 2}, "x", "must have at least 2 characters"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
        ({"properties": {}, "additionalProperties": False}, {"b": 1}, "has a field that is not allowed"),
    ],
)
async def test_reason_is_in_words_without_a_regular_expression(
    checks: SchemaChecks, schema: dict[str, Any], value: Any, reason: str
) -> None:
    whole = {"type": "object", "properties": {"v": schema}}
    found = await checks.check(_agent("a", 0, {}), json.dumps({"v": value}), whole)
    assert (found.field, found.reason) == ("v" if reason else "", reason)
