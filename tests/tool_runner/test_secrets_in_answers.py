"""Credentials that a tool server repeats do not go further: in results, refusals and listings."""

import json

import pytest
from structlog.testing import capture_logs

from tests.tool_runner.conftest import Connect
from tests.tool_runner.scripted import Call, serving, tool
from tool_runner.faults import ToolFailed
from tool_runner.redaction import redacted, redacted_json, secrets_of

CANARY = "canary-7f3a9c"
HEADERS = {"Authorization": f"Bearer {CANARY}"}


async def _answer(call: Call) -> None:
    await call.text("")


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize(("code", "chars"), [(-32603, 980), (-32000, 180)])
async def test_a_refusal_is_told_without_credentials(
    connect: Connect, method: str, code: int, chars: int
) -> None:
    async def refuse(call: Call) -> bool:
        if call.rpc == method:
            # As long as to be cut within the secret, which is to be seen before that.
            await call.error(code, f"{'x' * chars} no: {call.headers['authorization']}")
        return call.rpc == method

    async with serving(_answer, on_any=refuse) as scripted:
        with capture_logs() as logged, pytest.raises(ToolFailed) as raised:
            await connect(scripted, **HEADERS).tools()
        assert scripted.calls(method)[0].headers["authorization"] == HEADERS["Authorization"]
    told = f"{raised.value.fault} {raised.value.fault.words} {logged}"
    assert "x" * chars in told
    assert "canary" not in told


async def test_tools_are_listed_without_credentials(connect: Connect) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string", "description": f"not {CANARY}", "default": CANARY}},
    }
    unfit = {"type": "object", "properties": {f"{CANARY}!": {}}, "required": [f"{CANARY}!"]}
    described = tool("good", schema=schema) | {"description": f"Called with Bearer {CANARY}."}
    listed = [described, tool(f"of {CANARY}"), tool("unfit", schema=unfit)]
    async with serving(_answer, listed) as scripted:
        with capture_logs() as logged:
            tools = await connect(scripted, **HEADERS).tools()
    assert list(tools) == ["good"]
    assert tools["good"].description == "Called with [hidden]."
    assert tools["good"].input_schema["properties"]["id"]["default"] == "[hidden]"
    (line,) = (line for line in logged if line["event"] == "tools_left_out")
    assert line["first"] == [
        "of [hidden] (its name holds a credential)",
        "unfit (a required property has an unusable name: [hidden]!)",
    ]
    assert "canary" not in f"{tools} {logged}"


SENT = {"Authorization": 'Bearer tok"en-0123456789', "X-Api-Key": "k-abcdefgh", "X-Store": "electronics"}


def test_credentials_are_struck_out_in_every_form() -> None:
    said = json.dumps(
        {"error": 'Who is Bearer tok"en-0123456789 with k-abcdefgh?', "also": 'tok"en-0123456789'}
    )
    found = redacted(said, secrets_of(SENT))
    assert json.loads(found) == {"error": "Who is [hidden] with [hidden]?", "also": "[hidden]"}


def test_words_that_are_no_credentials_stay() -> None:
    said = '{"text": "All electronics, by Bearer or by key."}'
    assert redacted(said, secrets_of(SENT)) == said


@pytest.mark.parametrize(
    ("header", "value", "secret"),
    [
        ("Cookie", "customer=7f3a9c21e0; electronics=; sessionid=abc=def==", ("7f3a9c21e0", "abc=def==")),
        ("Cookie", 'customer="7f3a 9c21"; theme=dark', ("7f3a 9c21",)),
        (
            "Authorization",
            'Customer electronics="7f3a;9c21", password=k-abcdefgh',
            ("7f3a;9c21", "k-abcdefgh"),
        ),
        ("Proxy-Authorization", "Negotiate YIIabcdef/+==", ("YIIabcdef/+==", "YIIabcdef/+")),
        ("X-Session-Keys", "k-abcdefgh, k-ijklmnop", ("k-abcdefgh", "k-ijklmnop")),
    ],
)
def test_values_are_struck_out_and_the_names_of_cookies_and_parameters_are_not(
    header: str, value: str, secret: tuple[str, ...]
) -> None:
    said = "customer, electronics, sessionid, password, Customer and Negotiate are no secrets"
    secrets = secrets_of({header: value})
    assert redacted(said, secrets) == said
    assert redacted(value, secrets) == "[hidden]"
    for each in secret:
        assert redacted(f"It was {each}.", secrets) == "It was [hidden]."


def test_an_output_stays_json_whatever_is_struck_out_and_however_it_was_escaped() -> None:
    secrets = secrets_of({"X-Api-Key": "12345678", "X-Token": "ab/cd/ef/gh"})
    said = '{"order": 12345678, "price": 1.5, "12345678": ["ab\\/cd\\/ef\\/gh", true, null]}'
    assert (
        redacted_json(said, secrets) == '{"order":"[hidden]","price":1.5,"[hidden]":["[hidden]",true,null]}'
    )
    other = '{"order":  1234567}'
    assert redacted_json(other, secrets) == other
