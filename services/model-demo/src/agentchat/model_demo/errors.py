"""Define the API errors: one exception, and a table of status and type."""

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
"""HTTP status to `error.type` (platform.claude.com/docs/en/api/errors) and a typical message."""


class DemoApiError(Exception):
    """An error response. `retry_after` is sent as a header, in seconds.

    `code` is a short name of the problem, for OpenAI's protocol.
    """

    def __init__(
        self, status: int, message: str = "", *, code: str | None = None, retry_after: int | None = None
    ) -> None:
        self.status = status
        self.message = message or STATUSES[status][1]
        self.code = code
        self.retry_after = retry_after
        super().__init__(f"{status}: {self.message}")


def build_invalid_error(message: str) -> DemoApiError:
    """Return a 400 for an invalid request; `message` names the field."""
    return DemoApiError(400, message)


def build_too_long_error(tokens: int, most: int) -> DemoApiError:
    """Return a 400 for a prompt that exceeds the context window."""
    message = f"prompt is too long: {tokens} tokens > {most} maximum"
    return DemoApiError(400, message, code="context_length_exceeded")
