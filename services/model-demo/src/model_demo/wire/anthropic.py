"""Anthropic's Messages wire as a whole (platform.claude.com/docs/en/api/messages)."""

from collections.abc import Mapping

from model_demo.wire import decode, errors, messages, validation
from model_demo.wire.errors import ApiError
from model_demo.wire.protocol import Asked, Wire


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises ApiError 401 without a key (any will do), 400 without the protocol's version.

    The key comes as `x-api-key`, or as the bearer token that the Python SDK sends since its version 2.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    if not (headers.get("x-api-key", "").strip() or bearer):
        raise ApiError(401, "x-api-key or authorization header is required")
    if not headers.get("anthropic-version"):
        raise errors.invalid("anthropic-version: header is required")


def asked(raw: bytes) -> Asked:
    """The request in a body. Raises ApiError 400."""
    request = decode.message_request(raw)
    validation.check_message(request)
    return Asked(request)


ANTHROPIC = Wire(
    check_headers=check_headers,
    asked=asked,
    message=messages.message,
    events=messages.events,
    error=errors.body,
    error_prefix=b"event: error\ndata: ",
    ping=messages.PING,
    garbage=b'event: content_block_delta\ndata: {"type":"content_block_delta","index":\n\n',
    request_id_header="request-id",
)
