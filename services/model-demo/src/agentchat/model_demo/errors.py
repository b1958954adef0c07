"""Errors as the APIs answer them: one exception, one table of status and type."""

STATUSES = {
    400: ("invalid_request_error", "The request was refused, as the model name asks."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not found"),
    405: ("invalid_request_error", "Method Not Allowed"),
    408: ("timeout_error", "The request body did not arrive in time."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    500: ("api_error", "The server had an error while processing your request."),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
"""HTTP status to `error.type` (platform.claude.com/docs/en/api/errors) and its usual words."""


class DemoApiError(Exception):
    """A request is answered with `status` and the error's body. `retry_after`: seconds, sent as a header.

    `code` is for OpenAI's wire: a short name of the problem.
    """

    def __init__(
        self, status: int, message: str = "", *, code: str | None = None, retry_after: int | None = None
    ) -> None:
        self.status = status
        self.message = message or STATUSES[status][1]
        self.code = code
        self.retry_after = retry_after
        super().__init__(f"{status}: {self.message}")


def invalid(message: str) -> DemoApiError:
    """Return a 400: the request itself is wrong, and `message` names the field."""
    return DemoApiError(400, message)


def too_long(tokens: int, most: int) -> DemoApiError:
    """Return a 400: the prompt does not fit into the context window."""
    message = f"prompt is too long: {tokens} tokens > {most} maximum"
    return DemoApiError(400, message, code="context_length_exceeded")
