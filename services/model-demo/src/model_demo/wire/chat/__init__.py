"""OpenAI's Chat Completions wire (platform.openai.com/docs/api-reference/chat; types of the Python SDK 3.54).

`requests` is the body as types, `reading` turns it into the request that the behaviours know, `completions`
writes their replies, `errors` its errors.
"""

from collections.abc import Mapping

from model_demo.wire.chat import completions, errors, reading
from model_demo.wire.errors import ApiError
from model_demo.wire.protocol import Wire

__all__ = ["CHAT"]


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raises ApiError 401 without a key; any will do, also in `api-key`, as Azure's clients send it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "bearer" and token.strip()) and not headers.get("api-key", "").strip():
        raise ApiError(401, errors.NO_KEY)


CHAT = Wire(
    check_headers=_check_headers,
    asked=reading.asked,
    message=completions.message,
    events=completions.events,
    error=errors.body,
    error_prefix=b"data: ",
    ping=b": ping\n\n",
    garbage=b'data: {"object":"chat.completion.chunk","choices":[\n\n',
    request_id_header="x-request-id",
)
