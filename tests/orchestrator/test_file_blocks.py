"""Images and PDFs in a request: exactly these blocks for each provider, and an estimate of their tokens."""

from typing import Any

from agentchat.contracts.values import Usage
from agentchat.orchestrator.models import ModelCall
from agentchat.orchestrator.models.anthropic.client import build_body as build_anthropic_body
from agentchat.orchestrator.models.openai.client import build_body as build_openai_body
from agentchat.orchestrator.models.streamed_reply import add_estimates

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
PDF = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
    "title": "a.pdf",
}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
PDF_PART = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}}
CALL = {"type": "tool_use", "id": "c1", "name": "draw", "input": {}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def build_call(*contents: list[dict[str, Any]]) -> ModelCall:
    """Contents of the user's and the assistant's messages in turn."""
    roles = ("user", "assistant") * len(contents)
    messages = [{"role": role, "content": each} for role, each in zip(roles, contents, strict=False)]
    return ModelCall(model="m", system="", messages=messages, parameters={"cache_control": {"type": "off"}})


def build_openai_messages(call: ModelCall, dialect: str = "openai") -> list[dict[str, Any]]:
    call.parameters["dialect"] = dialect
    messages: list[dict[str, Any]] = build_openai_body(call, "http://127.0.0.1:1/v1")["messages"]
    return messages


def test_files_of_a_message_stand_before_its_text() -> None:
    call = build_call([IMAGE, PDF, text("# a.csv\n\na,b"), text("What is this?")])
    assert build_anthropic_body(call)["messages"] == call.messages
    assert build_openai_messages(call) == [
        {"role": "user", "content": [IMAGE_PART, PDF_PART, text("# a.csv\n\na,b"), text("What is this?")]}
    ]


def test_an_image_alone_is_a_message_and_neighbours_are_joined() -> None:
    call = build_call([IMAGE], [], [text("And?")])
    assert build_openai_messages(call) == [{"role": "user", "content": [IMAGE_PART, text("And?")]}]


def test_a_file_of_a_tool_is_in_its_result_or_follows_all_results() -> None:
    output = [text('{"ok":1}'), IMAGE, text("[file b.pdf was deleted]")]
    returned = {"type": "tool_result", "tool_use_id": "c1", "content": output}
    call = build_call([text("Draw.")], [CALL], [returned, text("Thanks")])
    assert build_anthropic_body(call)["messages"][2]["content"] == [returned, text("Thanks")]
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": '{"ok":1}\n\n[file b.pdf was deleted]'},
        {
            "role": "user",
            "content": [text("The tools returned these files:"), IMAGE_PART, text("Thanks")],
        },
    ]
    assert build_openai_messages(call)[2:] == results
    interrupted = {"role": "assistant", "content": "(interrupted)"}
    sent = build_openai_messages(call, "mistral")[2:]
    assert [each["role"] for each in sent] == ["tool", "assistant", "user"]
    assert sent[1] == interrupted


def test_files_are_estimated_by_their_kind_and_size() -> None:
    returned = {"type": "tool_result", "tool_use_id": "c1", "content": [text("four"), IMAGE]}
    big = PDF | {"source": {"media_type": "application/pdf", "data": "A" * 400_000}}
    call = build_call([IMAGE, big], [], [returned])
    assert add_estimates(Usage(), call, []).input_tokens == 1_600 + 300_000 // 32 + 1 + 1_600
