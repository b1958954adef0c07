"""What the server asks of a wire. The modules `anthropic` and `openai` are one each."""

from collections.abc import Mapping
from typing import Protocol

from model_demo.wire.errors import ApiError
from model_demo.wire.replies import Answer, Events
from model_demo.wire.requests import Asked


class Wire(Protocol):
    """One protocol. `check_headers` and `asked` raise ApiError.

    `error` is an error's JSON body, which within a stream stands behind ERROR_PREFIX. PING is a stream's sign
    of life. REQUEST_ID names the header of the request's id.
    """

    ERROR_PREFIX: bytes
    PING: bytes
    REQUEST_ID: str

    def check_headers(self, headers: Mapping[str, str]) -> None: ...
    def asked(self, raw: bytes, headers: Mapping[str, str], /) -> Asked: ...
    def message(self, answer: Answer) -> bytes: ...
    def events(self, answer: Answer) -> Events: ...
    def error(self, failed: ApiError, request_id: str) -> bytes: ...
