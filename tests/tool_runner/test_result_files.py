"""Images and files of results are stored; those that cannot be are described, and the call succeeds."""

import base64
import json
from pathlib import Path

import pytest
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, TextContent

from agentchat.contracts.files import StoredFile
from agentchat.contracts.tool_messages import ToolRequested
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.runtime.postgres import open_pool
from agentchat.tool_runner.calls.handler import build_finished_call
from agentchat.tool_runner.calls.result_files import MAX_FILES, store_files
from tests.files.images import make_png
from tests.knowledge.made_files import make_pdf

REQUEST = ToolRequested(
    trace_id="t",
    call_id="c",
    account_id="account-1",
    agent_id="agent-1",
    agent_version=1,
    server="shop",
    tool="draw",
    input={},
    user_id="ada",
)


def image(content: bytes, mime_type: str = "image/png") -> ImageContent:
    return ImageContent(data=base64.b64encode(content).decode(), mime_type=mime_type)


async def test_each_file_of_a_result_is_stored_or_says_why_not(
    migrated_database_url: str, tmp_path: Path
) -> None:
    png, pdf = make_png(), base64.b64encode(make_pdf("Hi")).decode()
    resource = BlobResourceContents(uri="file:///out/order%201.pdf", blob=pdf, mime_type="application/pdf")
    result = CallToolResult(
        content=[
            TextContent(text="Two bars."),
            image(png),
            EmbeddedResource(resource=resource),
            image(b"<svg/>", "image/svg+xml"),
            image(png, "image/jpeg"),
            ImageContent(data="!", mime_type="image/png"),
        ]
    )
    async with open_pool(migrated_database_url, role=None) as pool:
        files = FileStore(pool, ObjectStore(tmp_path.as_uri()))
        stored = await store_files(files, REQUEST, result)
        chart, order, drawing = (file for file in stored.values() if isinstance(file, StoredFile))
        assert (chart.name, chart.media_type, chart.bytes) == ("draw-2.png", "image/png", len(png))
        assert (order.name, order.media_type) == ("order 1.pdf", "application/pdf")
        assert (drawing.name, drawing.media_type) == ("draw-4.svg", "text/plain")
        assert await files.read("account-1", chart.sha256) == png
    finished = build_finished_call(REQUEST, result, 0.1, stored)
    assert finished.files == (chart, order, drawing)
    shown = json.loads(finished.output)["attachments"]
    assert shown[0] == {
        "type": "image",
        "mime_type": "image/png",
        "bytes": len(png),
        "file_id": chart.file_id,
        "name": "draw-2.png",
    }
    assert [each.get("file_id") for each in shown[3:]] == [None, None]
    assert all("not kept" in each["problem"] for each in shown[3:])


@pytest.mark.parametrize(
    "result",
    [
        CallToolResult(content=[image(b"x")] * (MAX_FILES + 1)),
        CallToolResult(content=[image(make_png())], is_error=True),
    ],
    ids=["too-many", "error"],
)
async def test_of_errors_and_beyond_the_limit_nothing_is_stored(
    migrated_database_url: str, tmp_path: Path, result: CallToolResult
) -> None:
    async with open_pool(migrated_database_url, role=None) as pool:
        files = FileStore(pool, ObjectStore(tmp_path.as_uri()))
        stored = await store_files(files, REQUEST, result)
    assert not any(isinstance(file, StoredFile) for file in stored.values())
    assert len(stored) == (0 if result.is_error else MAX_FILES + 1)
