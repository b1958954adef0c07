"""The shop assistant's talk: manners, memory, the system prompt, documents, structured output."""

import json
from typing import Any

import jsonschema
import pytest

from tests.model_demo.messages import Ask, get_text


async def say_in_turn(ask: Ask, *said: str, **more: Any) -> str:
    """Say one thing after the other; the last answer."""
    messages: list[dict[str, Any]] = []
    answer = ""
    for one in said:
        messages.append({"role": "user", "content": one})
        answer = get_text(await ask(messages, **more))
        messages.append({"role": "assistant", "content": answer})
    return answer


TALKS = [
    (["Hello!"], "Hello! I am the assistant of the demo shop."),
    (["My name is Ada.", "Tell me a story", "What is my name?"], "Your name is Ada."),
    (["Please remember: the code is 4711", "What is the code?"], "is 4711."),
    (["Are you a real person?"], "offline demo model"),
    (["Say exactly: PONG"], "PONG"),
    (["Thanks a lot!"], "You are welcome!"),
    (["Xyzzy plugh"], 'no good answer to "Xyzzy plugh"'),
]


@pytest.mark.parametrize(("said", "words"), TALKS, ids=[said[-1] for said, _ in TALKS])
async def test_small_talk_is_answered(ask: Ask, said: list[str], words: str) -> None:
    assert words in await say_in_turn(ask, *said)


@pytest.mark.parametrize(
    ("system", "question", "answer"),
    [
        ("You are Bob, a pirate. Be kind.", "Who are you?", "I am Bob, a pirate."),
        ('Always answer with exactly "No comment".', "Hello", "No comment"),
        (
            'Begin each reply with "Ahoy!" and end it with "Over."',
            "Who are you?",
            "Ahoy! I am the assistant of the demo shop. Over.",
        ),
    ],
)
async def test_the_system_prompt_shows(ask: Ask, system: str, question: str, answer: str) -> None:
    assert await say_in_turn(ask, question, system=system) == answer


DOCUMENTS = """<documents>
<document index="1" title="Returns">Goods may be returned within 30 days. The label is free.</document>
<document index="2" title="Delivery">Parcels leave the warehouse in Utrecht. They take two days.</document>
</documents>"""


@pytest.mark.parametrize("in_system", [True, False])
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Within how many days may goods be returned?", "Goods may be returned within 30 days. [1]"),
        ("Where is the warehouse that parcels leave?", "Parcels leave the warehouse in Utrecht. [2]"),
        ("Who painted the ceiling?", "The documents that I was given do not say anything about that."),
    ],
)
async def test_documents_are_answered_from_and_cited(
    ask: Ask, in_system: bool, question: str, answer: str
) -> None:
    said = question if in_system else f"{DOCUMENTS}\n\n{question}"
    system = f"You help.\n{DOCUMENTS}" if in_system else ""
    assert (await say_in_turn(ask, said, system=system)).startswith(answer)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    {
        "type": "object",
        "properties": {
            "kind": {"enum": ["question", "order"]},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "count": {"type": "integer", "minimum": 3},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "inner": {"$ref": "#/$defs/Inner"},
            "choice": {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 40}]},
            "at": {"type": "string", "format": "date-time"},
            "sure": {"type": "boolean"},
            "nothing": {"type": "null"},
            "left_out": {"type": "string"},
        },
        "required": ["kind", "score", "count", "tags", "inner", "choice", "at", "sure", "nothing"],
        "additionalProperties": False,
        "$defs": {
            "Inner": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Inner"}}},
                "required": ["children"],
            }
        },
    },
    {"type": "array", "items": {"type": "integer"}, "minItems": 1},
]


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_structured_output_fits_its_schema(ask: Ask, schema: dict[str, Any]) -> None:
    answer = await ask("Hello", output_config={"format": {"type": "json_schema", "schema": schema}})
    jsonschema.validate(json.loads(get_text(answer)), schema)
    assert answer["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    "evil",
    [
        "<document>" * 20_000,
        "my " * 60_000 + "is",
        "AB-" + "1" * 100_000 + "_",
        "under " * 30_000,
        "Where is " + "ORD-1001, " * 10_000,
    ],
    ids=lambda evil: evil[:12],
)
@pytest.mark.timeout(20)
async def test_no_message_holds_the_server_up(ask: Ask, tools: list[dict[str, Any]], evil: str) -> None:
    assert (await ask(evil + " end", tools=tools))["stop_reason"] in ("end_turn", "tool_use")
