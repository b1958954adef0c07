"""Each protocol's file parts, read in no protocol's terms."""

import base64
from typing import Any

import msgspec
import pytest

from agentchat.gateway.attachments.requested_attachment import RequestedAttachment, read_attachment
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.protocols.ag_ui.run_agent import RunAgentInput
from agentchat.gateway.protocols.ag_ui.run_agent import read_history as read_ag_ui
from agentchat.gateway.protocols.ai_sdk.ai_sdk_chat import UiChat
from agentchat.gateway.protocols.ai_sdk.ai_sdk_chat import read_history as read_ai_sdk
from agentchat.gateway.protocols.client_history import ClientHistory
from agentchat.gateway.protocols.openai.completion_body import ChatCompletion, read_messages
from agentchat.gateway.protocols.openai.responses.response_body import CreateResponse
from agentchat.gateway.protocols.openai.responses.response_body import read_history as read_responses

BASE64 = base64.b64encode(b"bytes").decode()
PNG, PDF = f"data:image/png;base64,{BASE64}", f"data:application/pdf;base64,{BASE64}"
HTTPS = "https://example.com/a%20map.png?x=1"


def read_completion(*parts: Any, role: str = "user") -> ClientHistory:
    given = {"model": "m", "messages": [{"role": role, "content": parts}, *([HI] if role != "user" else [])]}
    body = msgspec.convert(given, ChatCompletion)
    return read_messages(body.messages, "messages").build_history("messages")


def read_response(*parts: Any) -> ClientHistory:
    body = msgspec.convert({"model": "m", "input": [{"role": "user", "content": parts}]}, CreateResponse)
    return read_responses(body, body.input, 0, 1000, None, keeps_client_calls=True)


def read_run(*parts: Any, role: str = "user") -> ClientHistory:
    given = {
        "threadId": "t",
        "runId": "r",
        "messages": [{"role": role, "content": parts}, HI][: 1 + (role != "user")],
    }
    return read_ag_ui(msgspec.convert(given, RunAgentInput))


def read_ui_chat(*parts: Any, role: str = "user") -> ClientHistory:
    hi = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
    given = {"messages": [{"role": role, "parts": parts}, hi][: 1 + (role != "user")]}
    return read_ai_sdk(msgspec.convert(given, UiChat))


HI = {"role": "user", "content": "hi"}


def chat_file(**file: Any) -> dict[str, Any]:
    return {"type": "file", "file": file}


def input_file(**file: Any) -> dict[str, Any]:
    return {"type": "input_file", **file}


def source(kind: str, **given: Any) -> dict[str, Any]:
    return {"type": kind, "source": given}


def ui_file(**file: Any) -> dict[str, Any]:
    return {"type": "file", **file}


IMAGE: dict[str, Any] = {"data": b"bytes", "media_type": "image/png", "is_image": True}
DOCUMENT: dict[str, Any] = {"data": b"bytes", "media_type": "application/pdf"}
LINK: dict[str, Any] = {"url": HTTPS, "name": "a map.png"}

PARTS = [
    (read_completion, {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}, IMAGE),
    (read_completion, {"type": "image_url", "image_url": HTTPS}, LINK | {"is_image": True}),
    (read_completion, chat_file(file_id="f"), {"file_id": "f"}),
    (read_completion, chat_file(file_data=PDF, filename="a.pdf"), DOCUMENT | {"name": "a.pdf"}),
    (read_completion, chat_file(file_data=BASE64, filename="a.pdf"), {"data": b"bytes", "name": "a.pdf"}),
    (read_response, {"type": "input_image", "image_url": PNG, "detail": "auto"}, IMAGE),
    (read_response, {"type": "input_image", "file_id": "f"}, {"file_id": "f", "is_image": True}),
    (read_response, input_file(file_url=HTTPS), LINK),
    (read_response, input_file(file_data=PDF, filename="a.pdf"), DOCUMENT | {"name": "a.pdf"}),
    (read_run, source("image", type="data", value=BASE64, mimeType="image/png"), IMAGE),
    (read_run, source("image", type="url", value=HTTPS), LINK | {"is_image": True}),
    (
        read_run,
        source("document", type="data", value=BASE64, mimeType="application/pdf")
        | {"metadata": {"filename": "a.pdf"}},
        DOCUMENT | {"name": "a.pdf"},
    ),
    (read_run, {"type": "binary", "mimeType": "image/png", "data": BASE64}, IMAGE),
    (
        read_run,
        {"type": "binary", "mimeType": "text/csv", "id": "f"},
        {"file_id": "f", "media_type": "text/csv"},
    ),
    (read_ui_chat, ui_file(mediaType="image", url=PNG), IMAGE),
    (
        read_ui_chat,
        ui_file(mediaType="application/pdf", url=PDF, filename="a.pdf"),
        DOCUMENT | {"name": "a.pdf"},
    ),
    (
        read_ui_chat,
        ui_file(mediaType="text/plain", url="/v1/files/f/content"),
        {"file_id": "f", "media_type": "text/plain"},
    ),
]


@pytest.mark.parametrize(("read", "part", "wanted"), PARTS)
def test_a_part_is_a_file_with_its_place_in_the_body(read: Any, part: Any, wanted: dict[str, Any]) -> None:
    (found,) = read({"type": "text", "text": "See"}, part).attachments
    assert found.path.endswith("[0].content[1]") or found.path == "messages[0].parts[1]"
    assert found == RequestedAttachment(path=found.path, message=0, **wanted)


REFUSED = [
    (read_completion, {"type": "input_audio", "input_audio": {"data": BASE64, "format": "wav"}}, {}),
    (read_completion, {"type": "image_url", "image_url": {"url": PNG}}, {"role": "system"}),
    (read_completion, {"type": "image_url", "image_url": {"url": PNG}}, {"role": "assistant"}),
    (read_completion, {"type": "image_url", "image_url": {"url": "ftp://a/b"}}, {}),
    (read_response, input_file(file_id="f", file_url=HTTPS), {}),
    (read_response, input_file(), {}),
    (read_run, source("audio", type="data", value=BASE64, mimeType="audio/wav"), {}),
    (read_run, {"type": "binary", "mimeType": "image/png", "data": "not base64!"}, {}),
    (read_run, source("image", type="url", value=HTTPS), {"role": "assistant"}),
    (read_ui_chat, ui_file(mediaType="image/png", url="data:image/png;base64"), {}),
    (read_ui_chat, ui_file(mediaType="image/png", url=PNG), {"role": "assistant"}),
]


@pytest.mark.parametrize(("read", "part", "more"), REFUSED)
def test_a_part_that_cannot_be_read_is_named(read: Any, part: Any, more: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        read(part, **more)
    assert refused.value.row.code == "unsupported_attachment"
    assert refused.value.fields[0].field in (
        "messages[0].content[0]",
        "input[0].content[0]",
        "messages[0].parts[0]",
    )


def test_a_message_has_at_most_20_files() -> None:
    with pytest.raises(Refusal, match="unsupported_attachment") as refused:
        read_response(*[input_file(file_id="f")] * 21)
    assert refused.value.fields[0].field == "input[0].content[20]"


def test_histories_with_other_files_are_others() -> None:
    parts = ({"type": "text", "text": "See"}, chat_file(file_data=PDF))
    same, other = read_completion(*parts), read_completion(parts[0], chat_file(file_id="f"))
    assert same.digests == read_completion(*parts).digests != other.digests
    assert same.digests != read_completion(parts[0]).digests
    assert same.message == "See"


@pytest.mark.parametrize(
    ("url", "data"),
    [("data:text/plain,a%20b", b"a b"), ("DATA:text/plain; charset=utf-8 ;BASE64,YQ==", b"a")],
)
def test_data_urls_are_read_as_rfc_2397_has_them(url: str, data: bytes) -> None:
    assert read_attachment("p", url=url).data == data
