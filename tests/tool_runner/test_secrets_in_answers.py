"""Credentials that a tool server repeats are struck out of its responses, whatever is done with those."""

import json

import pytest
from structlog.testing import capture_logs

from agentchat.tool_runner.calls.call_output import render_result
from agentchat.tool_runner.credential_redaction import CredentialRedactor
from agentchat.tool_runner.faults import ToolFailed
from tests.tool_runner.conftest import Connect, call
from tests.tool_runner.scripted import Call, make_tool, serve_script

CANARY = "canary-7f3a9c"
HEADERS = {"Authorization": f"Bearer {CANARY}"}


async def _repeat_header(call: Call) -> None:
    await call.send_text(f"asked with {call.headers['authorization']}")


async def test_result_has_no_credentials(connect: Connect) -> None:
    async with serve_script(_repeat_header) as scripted:
        output = render_result(await call(connect(scripted, **HEADERS), "echo"))
    assert output == '{"text":"asked with [hidden]"}'


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize(("code", "chars"), [(-32603, 980), (-32000, 180)])
async def test_refusal_has_no_credentials(connect: Connect, method: str, code: int, chars: int) -> None:
    async def refuse(call: Call) -> bool:
        if call.rpc == method:
            # As long as to be cut within the secret, which has to be seen before that.
            await call.send_error(code, f"{'x' * chars} no: {call.headers['authorization']}")
        return call.rpc == method

    async with serve_script(_repeat_header, on_any=refuse) as scripted:
        with capture_logs() as logged, pytest.raises(ToolFailed) as raised:
            await connect(scripted, **HEADERS).get_tools()
        assert scripted.list_calls(method)[0].headers["authorization"] == HEADERS["Authorization"]
    texts = f"{raised.value.fault} {raised.value.fault.words} {logged}"
    assert "x" * chars in texts
    assert "canary" not in texts


async def test_listing_has_no_credentials(connect: Connect) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string", "default": CANARY}}}
    described = make_tool("good", schema=schema) | {"description": f"Called with Bearer {CANARY}."}
    async with serve_script(_repeat_header, [described, make_tool(f"of {CANARY}")]) as scripted:
        with capture_logs() as logged:
            tools = await connect(scripted, **HEADERS).get_tools()
    assert list(tools) == ["good"]
    assert tools["good"].description == "Called with [hidden]."
    assert tools["good"].input_schema["properties"]["id"]["default"] == "[hidden]"
    (line,) = (line for line in logged if line["event"] == "tools_left_out")
    assert line["first"] == ["of [hidden] (its name holds a credential)"]


def strike(text: str, headers: dict[str, str]) -> str:
    return CredentialRedactor(headers).strike(text.encode()).decode()


def test_credentials_are_struck_in_every_json_form() -> None:
    headers = {"Authorization": 'Bearer tok"en-0123/56789', "X-Api-Key": "12345678", "X-Store": "electronics"}
    said = '{"a": "tok\\"en-0123/56789", "b": "tok\\"en-0123\\/56789", "c": 12345678, "d": "electronics"}'
    found = json.loads(strike(said, headers))
    assert found == {"a": "[hidden]", "b": "[hidden]", "c": 11111111, "d": "electronics"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (r'{"a": "YII\u002Babc\u002bdef\/=\u003D"}', '{"a": "[hidden]"}'),
        (
            r'{"a": "\\u002B \u0022 \u005c \u00e4 \u0001 YII+abc+def/=="}',
            r'{"a": "\\u002B \u0022 \u005c \u00e4 \u0001 [hidden]"}',
        ),
        (r'{"a": "\u0026"}', '{"a": "&"}'),
    ],
)
def test_credentials_with_escaped_characters_are_struck(said: str, expected: str) -> None:
    assert strike(said, {"Authorization": "Negotiate YII+abc+def/=="}) == expected
    assert json.loads(strike(said, {"X-Store": "electronics"})) == json.loads(said)


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
def test_names_of_cookies_and_parameters_stay(header: str, value: str, secret: tuple[str, ...]) -> None:
    said = "customer, electronics, sessionid, password, Customer and Negotiate are no secrets"
    assert strike(said, {header: value}) == said
    assert strike(value, {header: value}) == "[hidden]"
    for each in secret:
        assert strike(f"It was {each}.", {header: value}) == "It was [hidden]."
