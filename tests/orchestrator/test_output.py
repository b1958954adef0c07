"""Output types: JSON is sent and saved only if it satisfies the schema; Markdown is asked for."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from agentchat.contracts import events, frames
from agentchat.directory.agent_config import AgentConfig, McpServer
from agentchat.orchestrator.models.structured_schema import to_output_format
from agentchat.orchestrator.output.validation_processes import SchemaChecks
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Answer, reply_with, reply_with_calls
from tests.orchestrator.toolbox import Toolbox

PRICE: dict[str, Any] = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "price": {"type": "number", "minimum": 0}},
    "required": ["item", "price"],
}
NOT_JSON = "The model's reply is not valid"


async def test_a_reply_that_satisfies_the_schema_is_sent_whole(system: World) -> None:
    system.will(reply_with('{"item": "tea",', ' "price": 4.5}'))
    agent = await system.agent(
        output_type="json", output_schema=PRICE, parameters={"output_config": {"effort": "low"}}
    )
    caller = await system.ask(agent)
    assert (await caller.until(frames.Completed)).message.content == '{"item": "tea", "price": 4.5}'
    assert [frame.text for frame in caller.of(frames.DeltaFrame)] == ['{"item": "tea", "price": 4.5}']
    assert system.calls[0].body["output_config"] == {
        "effort": "low",
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {
                    "item": {"type": "string"},
                    "price": {"type": "number", "description": '{"minimum":0}'},
                },
                "required": ["item", "price"],
                "additionalProperties": False,
            },
        },
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            reply_with('{"item": "tea"}'),
            f'{NOT_JSON}: at $ it does not satisfy "required": ["item","price"].',
        ),
        (reply_with('{"a":' * 3000), f"{NOT_JSON}: it is not JSON."),
        (
            reply_with('{"item": "te', stop_reason="max_tokens"),
            "The reply reached max_tokens (50) before its JSON was complete.",
        ),
    ],
)
async def test_any_other_reply_fails_the_run_and_says_why(system: World, answer: Answer, words: str) -> None:
    system.will(answer)
    agent = await system.agent(output_type="json", output_schema=PRICE, parameters={"max_tokens": 50})
    caller = await system.ask(agent)
    failed = await caller.until(frames.Failed)
    assert (failed.code, failed.message) == ("output_invalid", words)
    assert caller.text == ""
    saved = [event for event in await system.events(caller) if isinstance(event, events.MessageSaved)]
    assert [message.role for message in saved] == ["user"]
    assert (await system.run(caller)).usage.total > 0


VALID = '{"item": "tea", "price": 4.5}'


@pytest.mark.parametrize(
    "said",
    [
        f"```json\n{VALID}\n```",
        f"```\n{VALID}\n```",
        f"  \n```JSON \r\n{VALID}\r\n```\n\n",
        f"```json\n{VALID}```",
    ],
)
async def test_one_code_fence_around_the_json_is_removed(system: World, said: str) -> None:
    system.will(reply_with(said))
    caller = await system.ask(await system.agent(output_type="json", output_schema=PRICE))
    assert (await caller.until(frames.Completed)).message.content == caller.text == VALID
    (round_,) = (await system.run(caller)).rounds
    assert round_.blocks == ({"type": "text", "text": VALID},)
    assert len(system.calls) == 1


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('{"item": "tea"}', 'at $ it does not satisfy "required": ["item","price"]'),
        (f"Here you are:\n```json\n{VALID}\n```", "it is not JSON"),
        (f"```json\n{VALID}\n```\n```json\n{VALID}\n```", "it is not JSON"),
        ("I cannot.", "it is not JSON"),
    ],
)
async def test_an_invalid_reply_is_repaired_once(system: World, said: str, problem: str) -> None:
    system.will(reply_with(said), reply_with(VALID))
    caller = await system.ask(await system.agent(output_type="json", output_schema=PRICE))
    assert (await caller.until(frames.Completed)).message.content == caller.text == VALID
    first, second = system.calls
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2] == {"role": "assistant", "content": [{"type": "text", "text": said}]}
    assert second.last_text.startswith(f"Your reply is not valid: {problem}. Reply again")
    (replied,) = [event for event in await system.events(caller) if isinstance(event, events.ModelReplied)]
    assert replied.repaired == problem
    assert replied.usage.total == 2 * (10 + 5)


async def test_only_the_round_that_asks_for_no_tool_is_the_reply(system: World) -> None:
    reply = '{"item": "tea", "price": 1}'
    system.will(
        reply_with_calls(("a", "find", "{}"), text="Let me look."),
        reply_with_calls(("b", "find", "{}"), text='{"item": 1'),
        reply_with(reply),
    )
    shop = (McpServer(name="shop", url="https://shop.example/mcp"),)
    async with Toolbox(system.bus).open():
        agent = await system.agent(
            output_type="json", output_schema=PRICE, mcp_servers=shop, max_tool_rounds=2
        )
        caller = await system.ask(agent)
        assert (await caller.until(frames.Completed)).message.content == caller.text == reply
    assert system.calls[-1].body["tool_choice"] == {"type": "none"}


async def test_unenforceable_schema_is_instructed_and_checked(system: World) -> None:
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    }
    tree = node | {"$defs": {"node": node}}
    bad = reply_with('{"children": [{"children": 1}]}')
    system.will(reply_with('{"children": [{"children": []}]}'), bad, bad)
    agent = await system.agent(output_type="json", output_schema=tree, system_prompt="Draw trees.")
    await system.chat(agent)
    failed = await (await system.ask(agent)).until(frames.Failed)
    assert "$.children[0].children" in failed.message
    assert all("output_config" not in call.body for call in system.calls)
    assert system.calls[0].system.startswith("Draw trees.\n\nYour reply is read by a program")
    assert '"$ref":"#/$defs/node"' in system.calls[0].system


async def test_a_checking_process_that_died_is_replaced_unnoticed() -> None:
    agent = AgentConfig(
        name="a", model="m", agent_id="g", account_id="c", version=1, output_type="json", output_schema=PRICE
    )
    others, checks = list_checkers(), SchemaChecks()
    try:
        assert await checks.find_problem(agent, "{}") != ""
        first = list_checkers() - others
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        assert await checks.find_problem(agent, '{"item": "tea", "price": 1}') == ""
        second = list_checkers() - others
        assert second
        assert not second & first
    finally:
        await checks.aclose()
    assert list_checkers() == others


async def test_a_check_that_fails_is_no_reason_to_leave_a_schema_alone() -> None:
    schema = {"type": "object", "properties": {"price": {"type": "number", "multipleOf": 0.01}}}
    agent = AgentConfig(
        name="a", model="m", agent_id="g", account_id="c", version=1, output_type="json", output_schema=schema
    )
    others, checks = list_checkers(), SchemaChecks()
    try:
        assert await checks.find_problem(agent, '{"price": "1"}') != ""
        first = list_checkers() - others
        assert await checks.find_problem(agent, '{"price": 1' + "0" * 400 + "}") == "it could not be checked"
        assert list_checkers() - others == first
        assert await checks.find_problem(agent, '{"price": 2}') == ""
    finally:
        await checks.aclose()


async def test_dying_checker_is_not_blamed_on_the_schema(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agent = AgentConfig(
        name="a", model="m", agent_id="g", account_id="c", version=1, output_type="json", output_schema=PRICE
    )
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    checks = SchemaChecks()
    try:
        assert await checks.find_problem(agent, "{}") == "it could not be checked"
        monkeypatch.delenv("PYTHONPATH")
        assert await checks.find_problem(agent, '{"item": "tea", "price": 1}') == ""
    finally:
        await checks.aclose()


def list_checkers() -> set[int]:
    """The checking processes of this one."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    return {int(pid) for pid in children if b"json_validation" in Path(f"/proc/{pid}/cmdline").read_bytes()}


async def test_markdown_is_requested_even_if_the_prompt_is_overridden(system: World) -> None:
    system.will(reply_with("**ok**"))
    agent = await system.agent(output_type="markdown", system_prompt="Be brief.")
    for prompt in (None, "Be long."):
        await system.chat(agent, prompt=prompt)
    assert [call.system.partition("\n\n")[0] for call in system.calls] == ["Be brief.", "Be long."]
    assert all("Markdown" in call.system for call in system.calls)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"type": "string", "maxLength": 9, "description": "A code."},
            {"type": "string", "description": 'A code.\n\n{"maxLength":9}'},
        ),
        ({"type": ["integer", "null"]}, {"type": ["integer", "null"]}),
        ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}),
        ({"oneOf": [{"type": "string"}, {"const": 1}]}, {"anyOf": [{"type": "string"}, {"const": 1}]}),
        ({"allOf": [{"type": "string"}], "title": "T"}, {"type": "string", "title": "T"}),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ),
        ({"$ref": "#/$defs/n"}, {"$ref": "#/$defs/definition_1"}),
        ({"$ref": "#/$defs/%6e"}, {"$ref": "#/$defs/definition_1"}),
    ],
)
def test_a_schema_is_translated_for_the_provider(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    root = {"type": "object", "properties": {"a": schema}, "$defs": {"n": {"type": "number"}}}
    found = to_output_format(root)
    assert found is not None
    definitions = found.pop("$defs", None)
    assert found == {
        "type": "object",
        "properties": {"a": sent},
        "required": [],
        "additionalProperties": False,
    }
    assert definitions == ({"definition_1": {"type": "number"}} if "$ref" in schema else None)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array"},
        {"anyOf": [{"required": ["a"]}]},
        {"allOf": [{"type": "string"}, {"maxLength": 3}]},
        {"$ref": "#"},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["c"]},
    ],
)
def test_what_the_provider_has_no_words_for_is_left_to_an_instruction(schema: Any) -> None:
    assert to_output_format({"type": "object", "properties": {"a": schema}}) is None
