"""Errors as the API answers them: one exception, one table of status and type."""

import msgspec

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""HTTP status to `error.type` (platform.claude.com/docs/en/api/errors)."""

MESSAGES = {
    400: "The request was refused, as the model name asks.",
    401: "invalid x-api-key",
    402: "Your credit balance is too low to access the API.",
    403: "Your API key does not have permission to use the specified resource.",
    404: "Not found",
    405: "Method Not Allowed",
    408: "The request body did not arrive in time.",
    413: "Request exceeds the maximum size",
    429: "This request would exceed your account's rate limit. Please try again later.",
    500: "Internal server error",
    504: "The request timed out.",
    529: "Overloaded",
}


class ApiError(Exception):
    """A request is answered with `status` and the error's body. `retry_after`: seconds, sent as a header."""

    def __init__(self, status: int, message: str = "", retry_after: int | None = None) -> None:
        self.status = status
        self.type = TYPES[status]
        self.message = message or MESSAGES[status]
        self.retry_after = retry_after
        super().__init__(f"{status} {self.type}: {self.message}")


class UnknownModelError(ApiError):
    """There is no model of this name."""

    def __init__(self, model: str) -> None:
        super().__init__(404, f"model: {model}")
        self.model = model


def invalid(message: str) -> ApiError:
    """A 400: the request itself is wrong, and `message` names the field."""
    return ApiError(400, message)


def body(error: ApiError, request_id: str) -> bytes:
    """The error's JSON body; the same object is the data of an `error` event within a stream."""
    detail = {"type": error.type, "message": error.message}
    return msgspec.json.encode({"type": "error", "error": detail, "request_id": request_id})
