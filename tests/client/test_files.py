"""Files: how they are uploaded, and how messages name them."""

from typing import Any

from agentchat.client import File
from tests.client.conftest import Connect, Serve
from tests.client.given import REPLY
from tests.client.server import as_json

STORED: dict[str, Any] = {
    "file_id": "f1",
    "media_type": "application/pdf",
    "bytes": 5,
    "name": "a.pdf",
    "url": "/v1/files/f1/content",
}


def test_a_file_is_uploaded_as_a_form(serve: Serve, connect: Connect) -> None:
    server = serve(as_json(STORED, 201))
    file = connect(server).upload("a.pdf", b"%PDF-")
    assert file == File(**STORED)
    (sent,) = server.requests
    assert (sent.method, sent.target) == ("POST", "/v1/files")
    assert sent.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b'name="file"; filename="a.pdf"' in sent.body
    assert b"\r\n\r\n%PDF-\r\n" in sent.body


def test_a_message_names_files_and_urls_in_order(serve: Serve, connect: Connect) -> None:
    server = serve(as_json(REPLY))
    url = "https://example.com/a.png"
    connect(server).chat("", attachments=[url, File(**STORED)])
    assert server.requests[0].json == {"message": "", "attachments": [{"url": url}, {"file_id": "f1"}]}
