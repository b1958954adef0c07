"""Errors in OpenAI's form: `{"error": {message, type, param, code}}` (guides, error codes)."""

import msgspec

from model_demo.wire.errors import MESSAGES, ApiError, UnknownModelError

NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer"
    " auth (i.e. Authorization: Bearer YOUR_KEY)."
)

_INVALID = "invalid_request_error"
_TYPES: dict[int, tuple[str, str | None]] = {
    401: (_INVALID, "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: (_INVALID, "permission_denied"),
    404: (_INVALID, "not_found"),
    408: ("timeout", "timeout"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    504: ("timeout", "timeout"),
    529: ("server_error", "overloaded"),
}
"""HTTP status to `type` and `code`; others are invalid requests."""

_WORDS = {
    401: "Incorrect API key provided.",
    402: "You exceeded your current quota, please check your plan and billing details.",
    429: "Rate limit reached for requests.",
    500: "The server had an error while processing your request. Sorry about that!",
    529: "The engine is currently overloaded, please try again later.",
}


class InvalidRequestError(ApiError):
    """A 400 that names what is wrong: `param` is the field's path."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(400, message)
        self.param = param
        self.code = code


def body(error: ApiError, _request_id: str) -> bytes:
    """The error's JSON body; the same object is the data of an event within a stream."""
    kind, code = _TYPES.get(error.status, (_INVALID, None))
    message, param = error.message, None
    if error.message == MESSAGES[error.status]:
        message = _WORDS.get(error.status, error.message)
    match error:
        case UnknownModelError(model=model):
            code, message = (
                "model_not_found",
                f"The model `{model}` does not exist or you do not have access to it.",
            )
        case InvalidRequestError():
            param, code = error.param, error.code
    detail = {"message": message, "type": kind, "param": param, "code": code}
    return msgspec.json.encode({"error": detail})
