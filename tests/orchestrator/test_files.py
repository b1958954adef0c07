"""Files of messages and of tools: what the model is sent of them, and that later calls send the same."""

import base64
from typing import Any

import pytest

from agentchat.contracts import frames
from agentchat.contracts.files import StoredFile
from agentchat.contracts.tool_messages import ToolFinished, ToolRequested
from agentchat.files.file_removal import remove_files
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.knowledge.reading.read_file import TEXT_VERSION
from agentchat.orchestrator.run import model_files
from tests.files.images import make_png
from tests.knowledge.made_files import make_docx, make_pdf
from tests.orchestrator import scripted_chat
from tests.orchestrator.given import World
from tests.orchestrator.scripted import reply_with, reply_with_calls
from tests.orchestrator.test_compaction import SMALL, reply_filling_window, summaries
from tests.orchestrator.test_prompt_cache_prefix import Sent
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.test_what_if import again
from tests.orchestrator.toolbox import Toolbox, build_result

PNG, PDF, DOCX = make_png(8, 8), make_pdf("Welcome."), make_docx(("Normal", "Thirty days."))


@pytest.fixture(scope="module")
async def files(world: World) -> FileStore:
    return FileStore(world.pool, ObjectStore(world.settings.files_url))


async def store(files: FileStore, world: World, name: str, content: bytes) -> StoredFile:
    return await files.put(world.account_id, None, name, content)


def encode(content: bytes, media_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(content).decode()}


def get_content(world: World, call: int = -1, message: int = -1) -> list[dict[str, Any]]:
    """The blocks of a message of a call, without the marks of the cache."""
    blocks = world.calls[call].body["messages"][message]["content"]
    return [{name: each for name, each in block.items() if name != "cache_control"} for block in blocks]


async def test_each_kind_of_file_and_the_same_bytes_later(system: World, files: FileStore) -> None:
    system.will(reply_with("I see."), reply_with("Still."))
    attached = [
        await store(files, system, name, content)
        for name, content in (("a.png", PNG), ("b.pdf", PDF), ("c.docx", DOCX), ("d.csv", b"x,y\n1,2\n"))
    ]
    first = await system.chat(
        await system.agent("claude-sonnet-4-5"), "What are these?", attachments=tuple(attached)
    )
    assert get_content(system) == [
        {"type": "image", "source": encode(PNG, "image/png")},
        {"type": "document", "source": encode(PDF, "application/pdf"), "title": "b.pdf"},
        {"type": "text", "text": "# c.docx\n\nThirty days."},
        {"type": "text", "text": "# d.csv\n\nx,y\n1,2\n"},
        {"type": "text", "text": "What are these?"},
    ]
    await system.continue_chat(first, "Sure?")
    one, two = map(Sent, system.calls[-2:])
    assert one.measure_shared(two) == len(one)
    text = await files.read_text(system.account_id, attached[2].sha256, TEXT_VERSION)
    assert text == "Thirty days."


async def test_a_model_without_file_support_gets_a_note(system: World, files: FileStore) -> None:
    agent = await system.agent("deepseek-chat", provider="openai")
    attached = (await store(files, system, "a.png", PNG), await store(files, system, "b.pdf", PDF))
    system.will(scripted_chat.reply_with("I cannot."))
    await system.chat(agent, "", attachments=attached)
    assert system.calls[-1].body["messages"][-1]["content"] == (
        "[image a.png: you cannot see images]\n\n# b.pdf\n\n## page 1\n\nWelcome."
    )


async def test_a_deleted_file_is_named_as_deleted(system: World, files: FileStore) -> None:
    system.will(reply_with("A parcel."), reply_with("Gone."))
    file = await store(files, system, "a.png", PNG)
    first = await system.chat(await system.agent(), "", attachments=(file,))
    await remove_files(system.pool, ObjectStore(system.settings.files_url), [file.file_id])
    await system.continue_chat(first, "And now?")
    assert get_content(system, message=0) == [{"type": "text", "text": "[file a.png was deleted]"}]


async def test_a_tools_image_is_in_its_result_in_each_round(world: World, files: FileStore) -> None:
    image = await store(files, world, "chart.png", PNG)

    async def draw(request: ToolRequested) -> ToolFinished:
        return build_result(request, '{"bars":2}', files=(image,))

    world.will(
        reply_with_calls(("c1", "find", "{}")), reply_with_calls(("c2", "find", "{}")), reply_with("Up.")
    )
    box = Toolbox(world.bus)
    box.run = draw
    async with box.open(), world.worker():
        listener = await world.chat(await world.agent(**SHOP), "Draw.")
    (result,) = get_content(world, -2)
    shown = [{"type": "text", "text": '{"bars":2}'}, {"type": "image", "source": encode(PNG, "image/png")}]
    assert (result["type"], result["content"]) == ("tool_result", shown)
    two, three = map(Sent, world.calls[-2:])
    assert two.measure_shared(three) == len(two)
    (first, second) = (call for each in (await world.run(listener)).rounds for call in each.calls)
    assert (first.files, second.files) == ((image,), (image,))


async def test_another_worker_sends_the_files_again(system: World, files: FileStore) -> None:
    system.will(reply_with("A parcel."))
    file = await store(files, system, "a.png", PNG)
    request = system.request(await system.agent(), "", attachments=(file,))
    await system.store_open_run(request)
    await (await system.request_again(request)).until(frames.Completed)
    assert get_content(system) == [{"type": "image", "source": encode(PNG, "image/png")}]


async def test_a_summary_names_the_files_that_it_replaces(system: World, files: FileStore) -> None:
    system.will(
        reply_with("Hi."), reply_filling_window(600, "Well."), reply_with("They met."), reply_with("Done.")
    )
    file = await store(files, system, "a.png", PNG)
    first = await system.chat(await system.agent(compaction=SMALL), "See.", attachments=(file,))
    for message in ("And?", "So?"):
        await system.continue_chat(first, message)
    (summary,) = await summaries(system, first)
    assert summary.summary == "They met.\n\nFiles that are not shown any more: a.png."
    assert get_content(system, 2, 0)[0]["type"] == "image"


async def test_a_what_if_uses_the_recorded_files(system: World, files: FileStore) -> None:
    system.will(reply_with("A parcel."), reply_with("A box."))
    file = await store(files, system, "a.png", PNG)
    asked = await system.chat(await system.agent(), "", attachments=(file,))
    assert (await again(system, asked)).outcome == "completed"
    assert get_content(system) == get_content(system, 0)


async def test_too_large_an_image_is_named_and_a_large_pdf_is_text(
    system: World, files: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "MAX_IMAGE_BYTES", 10)
    monkeypatch.setattr(model_files, "MAX_PDF_BYTES", 10)
    system.will(reply_with("I see."))
    attached = (await store(files, system, "a.png", PNG), await store(files, system, "b.pdf", PDF))
    await system.chat(await system.agent(), "", attachments=attached)
    assert [block["text"] for block in get_content(system)] == [
        "[image a.png is not shown: it has more than 5 MiB]",
        "# b.pdf\n\n## page 1\n\nWelcome.",
    ]
