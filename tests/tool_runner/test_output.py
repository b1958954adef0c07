"""docs/change/rules.md 5, form 2 `done`: what `output` is."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from agentchat.contracts.tool_messages import ToolRequested
from agentchat.tool_runner.calls.call_output import (
    MAX_BYTES,
    render_error,
    render_result,
)
from agentchat.tool_runner.calls.handler import build_finished_call
from agentchat.tool_runner.faults import ToolFault


def _render(*texts: str, structured: Any = None, is_error: bool = False) -> str:
    blocks: list[ContentBlock] = [TextContent(text=text) for text in texts]
    return render_result(CallToolResult(content=blocks, structured_content=structured, is_error=is_error))


_STRUCTURED: list[Any] = [{"status": "shipped"}, [1, 2], 7, "x", False, [], 0, {"a": {"b": None}}]
_REPEATED: list[tuple[list[str], Any]] = [
    ([], {"a": 1}),
    ([""], {"a": 1}),
    (['{"a": 1}'], {"a": 1}),
    (['{ "a":1.0 }'], {"a": 1}),
    (["[1, 2]"], [1, 2]),
    (["[1, 2]"], {"result": [1, 2]}),
    (["1", "2"], {"result": [1, 2]}),
    (["42"], {"result": 42}),
    (["It is fine."], {"result": "It is fine."}),
    (["42"], {"result": "42"}),
]


@pytest.mark.parametrize(
    ("texts", "structured", "output"),
    [
        *(
            (texts, structured, {"text": "\n".join(texts), "structured": structured})
            for texts in (["The file."], ["one", "two"], ['{"status": "lost"}'])
            for structured in _STRUCTURED
        ),
        *((texts, structured, structured) for texts, structured in _REPEATED),
        (["The file."], {}, {"text": "The file."}),
        (["one", "two"], {}, {"text": "one\ntwo"}),
        ([], {}, {}),
        *(
            ([text], None, {"text": text})
            for text in ("It has shipped.", "", "{", "NaN", "{'a': 1}", "1e999", "01", "{} {}")
        ),
        (["one", '{"two": 2}'], None, {"text": 'one\n{"two": 2}'}),
        ([], None, {"text": ""}),
    ],
)
def test_all_that_a_tool_says_is_shown_once(texts: list[str], structured: Any, output: Any) -> None:
    assert json.loads(_render(*texts, structured=structured)) == output


@pytest.mark.parametrize("structured", [None, {}])
@pytest.mark.parametrize(
    "text", ['{"status": "shipped"}', "[1, 2]", "42", '"x"', "true", "null", ' {"a":1}\n']
)
def test_a_single_text_that_is_json_stays_as_it_is(text: str, structured: Any) -> None:
    assert _render(text, structured=structured) == text


def test_attachments_stand_beside_structured_content() -> None:
    image = ImageContent(data="QUJD", mime_type="image/png")
    output = json.loads(render_result(CallToolResult(content=[image], structured_content={"a": 1})))
    assert output == {
        "text": "",
        "attachments": [{"type": "image", "mime_type": "image/png", "bytes": 3}],
        "structured": {"a": 1},
    }


def test_images_and_resources_are_described_not_repeated() -> None:
    blocks: list[ContentBlock] = [
        TextContent(text="A picture:"),
        ImageContent(data="QUJD" * 1000, mime_type="image/png"),
        AudioContent(data="QUJD", mime_type="audio/wav"),
        ResourceLink(uri="https://shop.example/returns", name="returns", mime_type="text/html"),
        EmbeddedResource(resource=TextResourceContents(uri="note:1", text="Ring twice.")),
        EmbeddedResource(
            resource=BlobResourceContents(uri="pdf:1", blob="QUJD", mime_type="application/pdf")
        ),
    ]
    assert json.loads(render_result(CallToolResult(content=blocks))) == {
        "text": "A picture:",
        "attachments": [
            {"type": "image", "mime_type": "image/png", "bytes": 3000},
            {"type": "audio", "mime_type": "audio/wav", "bytes": 3},
            {
                "type": "resource_link",
                "uri": "https://shop.example/returns",
                "name": "returns",
                "mime_type": "text/html",
            },
            {"type": "resource", "uri": "note:1", "text": "Ring twice."},
            {"type": "resource", "uri": "pdf:1", "mime_type": "application/pdf", "bytes": 3},
        ],
    }


@pytest.mark.parametrize(
    ("texts", "structured", "words"),
    [
        (["No such order."], None, "No such order."),
        (["one", "two"], None, "one\ntwo"),
        ([], {"code": 4}, '{"code":4}'),
        (["No."], {"code": 4}, 'No.\n{"code":4}'),
        (['{"code": 4}'], {"code": 4}, '{"code": 4}'),
        (["No."], {}, "No."),
        ([], None, "The tool failed without saying why."),
    ],
)
def test_an_error_is_an_error_with_the_tools_own_words(texts: list[str], structured: Any, words: str) -> None:
    assert json.loads(_render(*texts, structured=structured, is_error=True)) == {"error": words}


def test_a_long_error_is_cut() -> None:
    output = render_error("é" * 100_000)
    assert len(output.encode()) <= 64 * 1024
    assert json.loads(output)["error"].endswith("(cut)")


@pytest.mark.parametrize(
    "result",
    [
        CallToolResult(content=[], structured_content={"rows": ["x" * 100] * 10_000}),
        CallToolResult(content=[TextContent(text="x" * 1_000_000)]),
        CallToolResult(content=[TextContent(text='"\\' * 500_000)]),
        CallToolResult(content=[TextContent(text="\x01" * 1_000_000)]),
        CallToolResult(content=[TextContent(text="日本" * 200_000)]),
        CallToolResult(content=[TextContent(text="🙂" * 200_000)]),
        CallToolResult(content=[TextContent(text=json.dumps(["y" * 100] * 10_000))]),
        CallToolResult(content=[TextContent(text="x" * 300_000)] * 3),
    ],
)
def test_output_over_256_kib_is_cut_and_still_json(result: CallToolResult) -> None:
    output = render_result(result)
    assert MAX_BYTES - 2000 < len(output.encode()) <= MAX_BYTES
    parsed = json.loads(output)
    assert parsed.keys() == {"notice", "text"}
    assert "was cut" in parsed["notice"]


def test_an_output_of_exactly_256_kib_is_not_cut() -> None:
    text = "x" * (MAX_BYTES - len('{"text":""}'))
    assert json.loads(_render(text)) == {"text": text}
    assert json.loads(_render(text + "x")).keys() == {"notice", "text"}


@pytest.mark.parametrize("text", ["a\x00b", '{"a": "\\u0000"}', "\ud800", '"\\ud800"'])
def test_what_no_store_can_hold_is_replaced(text: str) -> None:
    output = _render(text)
    assert "\x00" not in output
    assert "\\u0000" not in output
    output.encode()
    msgspec.json.decode(output)


def test_structured_content_is_cleaned() -> None:
    assert _render(structured={"a\x00": ["\ud800", 1, None]}) == '{"a�":["�",1,null]}'


@given(
    st.lists(st.text(st.characters(exclude_categories=())), max_size=4),
    st.none()
    | st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(exclude_categories=())),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_every_output_parses_as_json(texts: list[str], structured: Any, is_error: bool) -> None:
    output = _render(*texts, structured=structured, is_error=is_error)
    parsed = msgspec.json.decode(output.encode())
    if is_error:
        assert isinstance(parsed["error"], str)


@pytest.mark.parametrize(
    ("outcome", "quotes"),
    [
        (CallToolResult(content=[TextContent(type="text", text="KeyError: 'host'")], is_error=True), True),
        (CallToolResult(content=[TextContent(type="text", text="ok")]), False),
        (ToolFault("refused", explanation="no such column"), True),
        (ToolFault("timeout"), False),
    ],
)
def test_an_error_says_if_it_quotes_the_server(outcome: CallToolResult | ToolFault, quotes: bool) -> None:
    request = ToolRequested(
        trace_id="t",
        call_id="c",
        account_id="a",
        agent_id="a",
        agent_version=1,
        server="s",
        tool="t",
        input={},
    )
    assert build_finished_call(request, outcome, 0.1).quotes_server is quotes
