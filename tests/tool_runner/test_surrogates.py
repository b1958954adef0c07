"""A lone surrogate in a server's JSON costs the text that holds it, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from contracts.text import cleaned
from tests.tool_runner.conftest import Connect, call
from tests.tool_runner.scripted import Call, serving, tool
from tool_runner.calls.call_output import rendered
from tool_runner.http.network import LoneSurrogates

# Surrogates often side by side, and what looks like an escape and is none.
_TEXT = st.text(st.one_of(st.characters(), st.sampled_from('\ud800\udbff\udc00\udfff\\u"dD8\x00')))


async def _broken(call: Call) -> None:
    await call.text("before \udfff after 😀")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18"])
async def test_a_tool_whose_name_holds_a_lone_surrogate_is_left_out_alone(
    connect: Connect, version: str
) -> None:
    schema = {"type": "object", "properties": {"a": {"description": "x\ud83d"}, "b\udc00": {}}}
    listed = [tool("bad\ud800"), tool("described", schema=schema), tool("good")]
    async with serving(_broken, listed, version=version) as scripted:
        server = connect(scripted)
        with capture_logs() as logged:
            tools = await server.tools()
        assert tools.keys() == {"described", "good"}
        assert tools["described"].input_schema["properties"] == {"a": {"description": "x�"}}
        (line,) = (line for line in logged if line["event"] == "tools_left_out")
        assert line["first"] == ["bad� (its name is empty, too long or no text)"]
        assert rendered(await call(server, "good")) == '{"text":"before � after 😀"}'


async def test_a_listing_of_ten_thousand_tools_is_one_line_in_the_log(connect: Connect) -> None:
    async with serving(_broken, [tool(f"t{number}") for number in range(10_000)]) as scripted:
        with capture_logs() as logged:
            assert len(await connect(scripted).tools()) == 256
    (line,) = (line for line in logged if line["event"] != "session_opened")
    assert (line["event"], line["count"]) == ("tools_left_out", 9_744)
    assert len(line["first"]) == 5


@given(_TEXT, st.integers(1, 16))
def test_a_document_stays_as_it_is_but_for_its_lone_surrogates(text: str, size: int) -> None:
    document = json.dumps([text, "\\" + text]).encode()
    surrogates = LoneSurrogates()
    pieces = [document[at : at + size] for at in range(0, len(document), size)]
    found = b"".join([*map(surrogates.replaced, pieces), surrogates.rest])
    assert len(found) == len(document)
    if text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") == text:
        assert found == document
    assert [cleaned(part) for part in json.loads(found)] == [cleaned(text), cleaned("\\" + text)]


@pytest.mark.parametrize(
    "document", [b'"\\', b'"\\u', b'"\\ud8', b'"\\ud83d', b'"\\ud83d\\', b'"\\ud83d\\ude']
)
def test_an_end_within_an_escape_is_left_over(document: bytes) -> None:
    surrogates = LoneSurrogates()
    assert surrogates.replaced(document) == b'"'
    assert surrogates.rest == document[1:]
